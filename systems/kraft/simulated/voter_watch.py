"""Watches the voters: they change one at a time, as requested (I26), and only they count (I27).

The voter set in force on a node is the one of its last ``voters`` trace. A voter is an id
and the directory id of a disk: the same id on a disk that was wiped is another replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    Request,
    VoteRequest,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

ANY = bytes(16)
"""The directory of a voter whose disk is unknown: it matches every disk."""

Voters = Mapping[int, bytes]
"""Directory ids by node id."""


def is_voter(voters: Voters, replica_id: int, directory: bytes) -> bool:
    """Whether the replica ``(replica_id, directory)`` is one of ``voters``."""
    known = voters.get(replica_id)
    return known is not None and known in (ANY, directory)


@dataclass(slots=True)
class _InForce:
    """A voter set and the offset of its record, -1 if it is not from the log."""

    voters: Voters
    offset: int
    level: int


class VoterWatch:
    """Knows the voters in force on every node. ``initial`` are those of a node before its first
    report: the configured ones."""

    def __init__(self, world: World, failures: Failures, initial: Iterable[int]) -> None:
        self._world = world
        self._failures = failures
        self._initial = _InForce(dict.fromkeys(initial, ANY), -1, 0)
        self._known: dict[str, _InForce] = {}
        self._granted: dict[tuple[int, bytes, int], tuple[int, bytes]] = {}
        self._asked: set[tuple[str, int, bytes, bool]] = set()
        """Requests to add (or else to remove) a replica, by node."""
        world.on_request.append(self._on_request)

    def _on_request(self, host: Host, message: Request) -> None:
        if isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest):
            adds = isinstance(message, AddRaftVoterRequest)
            self._asked.add((host.name, message.voter_id, message.directory, adds))

    def of(self, node: str) -> Voters:
        """Return the voters in force on ``node``."""
        return self._known.get(node, self._initial).voters

    def level(self, node: str) -> int:
        """Return the kraft.version in force on ``node``."""
        return self._known.get(node, self._initial).level

    def counts(self, leader: str, replica_id: int, directory: bytes) -> bool:
        """Whether the replica is a voter as ``leader`` sees it."""
        return is_voter(self.of(leader), replica_id, directory)

    def wiped(self, host: Host) -> None:
        """Forget the voters of a node whose disk was wiped."""
        self._known.pop(host.name, None)

    def changed(self, event: TraceEvent, epoch_start: int | None) -> None:
        """Judge a reported change of voters. ``epoch_start`` is where the led epoch began."""
        detail = event.detail
        voters = {int(i): bytes.fromhex(text) for i, text in detail["voters"]}
        now = _InForce(voters, detail["offset"], detail["kraft_version"])
        before = self._known.get(event.node)
        self._known[event.node] = now
        if before is None or event.state != "leader" or now.offset <= before.offset:
            return
        change = set(before.voters.items()) ^ set(now.voters.items())
        if before.level < 1:
            # The upgrade to kraft.version 1 adds the directories, and changes no voter.
            change = {(voter, ANY) for voter in set(before.voters) ^ set(now.voters)}
        if not change:
            return
        unasked = [
            voter
            for voter, directory in change
            if (event.node, voter, directory, now.voters.get(voter) == directory) not in self._asked
        ]
        if unasked and before.level >= 1:
            self._fail(
                f"{event.node} changed voter {unasked[0]} at offset {now.offset} without a"
                f" request: from {sorted(before.voters)} to {sorted(voters)}",
                event,
            )
        if not voters:
            self._fail(f"{event.node} left no voter at offset {now.offset}", event)
        if len({voter for voter, _ in change}) > 1 or len(change) > 1:
            self._fail(
                f"{event.node} changed more than one voter at offset {now.offset}: from"
                f" {sorted(before.voters)} to {sorted(voters)}",
                event,
            )
        if before.offset >= max(event.hw, 0):
            self._fail(
                f"{event.node} changed the voters at offset {now.offset} while those of offset"
                f" {before.offset} were not committed (high watermark {event.hw})",
                event,
            )
        if epoch_start is None or event.hw <= epoch_start:
            self._fail(
                f"{event.node} changed the voters at offset {now.offset} before anything of its"
                f" epoch {event.epoch} was committed",
                event,
            )

    def _fail(self, explanation: str, *events: TraceEvent) -> None:
        self._failures.add("I26", self._world.now, explanation, *events)

    # --- votes ------------------------------------------------------------------------

    def granted(self, host: Host, request: VoteRequest) -> None:
        """Judge a granted vote: it goes to one candidate in an epoch only (I2)."""
        key = host.id, host.disk.directory, request.epoch
        candidate = request.candidate_id, request.candidate_directory
        before = self._granted.setdefault(key, candidate)
        if before != candidate:
            self._failures.add(
                "I2",
                self._world.now,
                f"{host.name} granted its vote of epoch {request.epoch} to {before[0]} and"
                f" {candidate[0]}",
            )

    def elected(self, host: Host, event: TraceEvent, granting: Iterable[int]) -> None:
        """Judge a won election: it needs the votes of a majority (I5) of the voters (I27)."""
        voters = self.of(event.node)
        votes = set(granting)
        if len(votes) <= len(voters) // 2:
            self._failures.add(
                "I5",
                self._world.now,
                f"{event.node} became leader of epoch {event.epoch} with the votes of"
                f" {sorted(votes)} of {len(voters)} voters",
                event,
            )
        false = [
            voter
            for voter in sorted(votes)
            if voter not in voters or (voter != host.id and not self._voted(voter, host, event))
        ]
        if false:
            self._failures.add(
                "I27",
                self._world.now,
                f"{event.node} became leader of epoch {event.epoch} with votes that no voter gave"
                f" it: {false} of {sorted(votes)}; the voters are {sorted(voters)}",
                event,
            )

    def _voted(self, voter: int, candidate: Host, event: TraceEvent) -> bool:
        directory = self.of(event.node)[voter]
        vote = candidate.id, candidate.disk.directory
        if directory != ANY:
            return self._granted.get((voter, directory, event.epoch)) == vote
        return any(
            key[0] == voter and key[2] == event.epoch and given == vote
            for key, given in self._granted.items()
        )
