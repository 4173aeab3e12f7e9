"""The state of a leader: how far each replica has fetched, and how far the log is committed.

Invariants:
* the high watermark only grows, and only to an offset past the start of the leader's own epoch that
  a majority of voters has fetched up to (Raft section 5.4.2, KAFKA-12619);
* a leader resigns if no majority has fetched from it for 1.5 fetch timeouts (KAFKA-15489).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY
from kraftwreck.nodes.consensus.kraft.states import NEVER
from kraftwreck.nodes.consensus.kraft.voters import Voter, VoterSet

MAX_OBSERVERS: Final = 1000
"""Observers that a leader remembers; a further one replaces the one silent for longest."""


def majority(voters: int) -> int:
    """Return how many of ``voters`` make a majority."""
    return voters // 2 + 1


@dataclass(slots=True)
class Progress:
    """How far one replica has fetched; offsets -1 and times -1 are unknown.

    ``*_wall`` are wall-clock milliseconds for DescribeQuorum, ``last_fetch`` and
    ``last_begin`` monotonic microseconds.
    """

    end_offset: int = -1
    directory: bytes = NO_DIRECTORY
    last_fetch: int = -1
    last_begin: int = -1
    last_fetch_wall: int = -1
    last_caught_up_wall: int = -1
    leader_end_at_last_fetch: int = -1


@dataclass(slots=True)
class Pending:
    """A batch that waits for the linger time before it is written to the log."""

    batch: bytes
    last_offset: int


@dataclass(slots=True)
class VoterChange:
    """The one voter change in flight: ``kind`` is add, remove or update.

    ``token`` answers its client (None once answered). The leader gives the change up at
    ``deadline``. ``offset`` is that of its VotersRecord, -1 until it is appended.
    """

    kind: str
    token: int | None
    voter: Voter
    deadline: int
    ack_when_committed: bool = True
    offset: int = -1


class Leader:
    """Leader of ``epoch``; ``epoch_start`` is the offset of its LeaderChange record."""

    name: ClassVar[str] = "leader"
    __slots__ = (
        "change",
        "check_quorum_deadline",
        "check_quorum_us",
        "drain_at",
        "epoch_start",
        "fetched",
        "granting",
        "known_voters",
        "leader_id",
        "next_offset",
        "observers",
        "pending",
        "pending_bytes",
        "voted_directory",
        "voted_id",
        "voter_set",
        "voters",
    )

    def __init__(
        self,
        node_id: int,
        voters: VoterSet,
        granting: Iterable[int],
        epoch_start: int,
        now: int,
        check_quorum_us: int,
    ) -> None:
        self.leader_id = node_id
        self.voted_id = -1
        self.voted_directory = NO_DIRECTORY
        self.voter_set = voters
        self.voters = {voter: Progress() for voter in voters.ids}
        self.observers: dict[tuple[int, bytes], Progress] = {}
        self.change: VoterChange | None = None
        self.known_voters: VoterSet | None = None
        self.granting = tuple(sorted(granting))
        self.epoch_start = epoch_start
        self.check_quorum_us = check_quorum_us
        self.check_quorum_deadline = now + check_quorum_us if len(voters) > 1 else NEVER
        self.fetched: set[int] = set()
        self.pending: list[Pending] = []
        self.pending_bytes = 0
        self.drain_at = NEVER
        self.next_offset = epoch_start

    def set_voters(self, voters: VoterSet, now: int) -> None:
        """Count by another voter set from now on; the progress of each replica is kept."""
        known = {(i, p.directory): p for i, p in self.voters.items()} | self.observers
        self.voters = {}
        for voter_id in voters.ids:
            voter = voters.get(voter_id)
            assert voter is not None
            for replica_id, directory in list(known):
                if voter.is_replica(replica_id, directory) and voter_id not in self.voters:
                    self.voters[voter_id] = known.pop((replica_id, directory))
            self.voters.setdefault(voter_id, Progress())
        self.observers = {k: p for k, p in known.items() if p.last_fetch >= 0}
        self.voter_set = voters
        self.fetched &= set(voters.ids)
        if len(voters) > 1 or self.leader_id not in self.voters:
            if self.check_quorum_deadline == NEVER:
                self.check_quorum_deadline = now + self.check_quorum_us
        else:
            self.check_quorum_deadline = NEVER

    def enqueue(self, batch: bytes, records: int) -> int:
        """Queue a batch that begins at ``next_offset``; return its last offset."""
        last = self.next_offset + records - 1
        self.pending.append(Pending(batch, last))
        self.pending_bytes += len(batch)
        self.next_offset = last + 1
        return last

    def candidate_high_watermark(self) -> int:
        """Return the largest offset that a majority of voters has reached, -1 if unknown."""
        ends = sorted((p.end_offset for p in self.voters.values()), reverse=True)
        return ends[majority(len(ends)) - 1]

    def high_watermark(self, current: int) -> int:
        """Return the high watermark after the latest progress, never below ``current``.

        Only an offset past the epoch's own LeaderChange record counts: replicas of older
        epochs' records may still be overwritten (Raft figure 8).
        """
        candidate = self.candidate_high_watermark()
        if candidate > self.epoch_start and candidate > current:
            return candidate
        return current

    def record_fetch(
        self,
        replica_id: int,
        directory: bytes,
        fetch_offset: int,
        leader_end: int,
        now: int,
        wall_ms: int,
    ) -> None:
        """Record that a replica holds everything below ``fetch_offset`` (a valid Fetch)."""
        progress = self.progress(replica_id, directory)
        progress.directory = directory
        if fetch_offset >= leader_end:
            progress.last_caught_up_wall = wall_ms
        elif 0 <= progress.leader_end_at_last_fetch <= fetch_offset:
            progress.last_caught_up_wall = progress.last_fetch_wall
        progress.end_offset = fetch_offset
        progress.leader_end_at_last_fetch = leader_end
        progress.last_fetch = now
        progress.last_fetch_wall = wall_ms
        self.heard_from(replica_id, directory, now)

    def progress(self, replica_id: int, directory: bytes) -> Progress:
        """Return the progress of a replica: of a voter, or else of an observer (I27)."""
        if self.voter_set.has(replica_id, directory):
            return self.voters[replica_id]
        key = (replica_id, directory)
        if key not in self.observers and len(self.observers) >= MAX_OBSERVERS:
            del self.observers[min(self.observers, key=lambda k: self.observers[k].last_fetch)]
        return self.observers.setdefault(key, Progress())

    def heard_from(self, replica_id: int, directory: bytes, now: int) -> None:
        """Count a voter as heard from in the check of the quorum (KAFKA-15489)."""
        if replica_id == self.leader_id or not self.voter_set.has(replica_id, directory):
            return
        self.fetched.add(replica_id)
        needed = majority(len(self.voters)) - (1 if self.leader_id in self.voters else 0)
        if len(self.fetched) >= needed:
            self.fetched.clear()
            if self.check_quorum_deadline != NEVER:
                self.check_quorum_deadline = now + self.check_quorum_us

    def forget_silent_observers(self, before: int) -> None:
        """Drop observers that have been silent since ``before`` (µs)."""
        if any(p.last_fetch < before for p in self.observers.values()):
            self.observers = {k: p for k, p in self.observers.items() if p.last_fetch >= before}

    def successors(self) -> tuple[tuple[int, bytes], ...]:
        """Return the other voters, best replicated first (EndQuorumEpoch)."""
        others = [(v, p) for v, p in self.voters.items() if v != self.leader_id]
        others.sort(key=lambda item: (-item[1].end_offset, item[0]))
        return tuple((voter, progress.directory) for voter, progress in others)
