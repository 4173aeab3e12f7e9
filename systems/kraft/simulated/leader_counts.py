"""Watches which requests a leader counts (I27): those of its epoch from voters, with their disks.

It also counts each piece of a snapshot that it sends to a voter (KIP-630). Otherwise it would
resign while most voters load a snapshot.

A leader counts fetches for commits and for the check of its quorum. One that counts although it
must not is harmless until the leader has no other majority. So the leader's memory is judged after
every request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraftwreck.nodes.consensus.effects import RequestReceived
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import NEVER
from kraftwreck.nodes.log.snapshots import BOOTSTRAP
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch

_COUNTED = (FetchRequest, FetchSnapshotRequest, UpdateRaftVoterRequest)
Counted = FetchRequest | FetchSnapshotRequest | UpdateRaftVoterRequest


@dataclass(slots=True, frozen=True)
class Tally:
    """A leader's memory of one voter. ``end`` is the offset of its last fetch. ``heard`` is True if
    the voter counts in this round of the check of the quorum, which lasts until ``round_ends``."""

    end: int
    heard: bool
    round_ends: int


class LeaderCounts:
    """Judges the leaders of ``world``; ``voters`` are those in force on each node."""

    def __init__(self, world: World, failures: Failures, voters: VoterWatch) -> None:
        self._world = world
        self._failures = failures
        self._voters = voters
        self._before: dict[int, tuple[Counted, Leader, int, Tally]] = {}
        """By host: the request that it is handling, its leadership and the epoch of that, and its
        tally of the sender."""
        world.on_request.append(self._on_request)
        world.on_step.append(self._on_step)

    def _on_request(self, host: Host, message: Any) -> None:
        self._before.pop(host.id, None)
        if not isinstance(message, _COUNTED):
            return
        replica = _replica_on(host)
        leader = None if replica is None else replica.state
        if replica is not None and isinstance(leader, Leader):
            counted = tally(leader, sender(message)[0])
            self._before[host.id] = message, leader, replica.epoch, counted

    def _on_step(self, host: Host, event: Any) -> None:
        known = self._before.pop(host.id, None)
        if known is None or type(event) is not RequestReceived or event.message is not known[0]:
            return
        message, leader, epoch, before = known
        replica = _replica_on(host)
        if replica is not None and replica.state is leader:
            after = tally(leader, sender(message)[0])
            self.judge(host.name, epoch, message, counted=before != after)
            if isinstance(message, FetchSnapshotRequest) and _is_served(replica, message):
                self._judge_piece(host.name, leader, replica.now, message)

    def _judge_piece(
        self, name: str, leader: Leader, now: int, message: FetchSnapshotRequest
    ) -> None:
        """Judge the leader ``name``, which has sent a piece of a snapshot at its time ``now``."""
        replica_id, directory = sender(message)
        ends = leader.check_quorum_deadline
        if ends == NEVER or not self._voters.counts(name, replica_id, directory):
            return
        if replica_id not in leader.fetched and ends != now + leader.check_quorum_us:
            self._fail(
                f"{name} does not count the piece of a snapshot that voter {replica_id} has"
                " fetched, and would resign while it fetches the others."
            )

    def judge(self, name: str, epoch: int, message: Counted, *, counted: bool) -> None:
        """Judge the leader ``name`` of ``epoch``, which has handled ``message``."""
        replica_id, directory = sender(message)
        if not counted:
            return
        what = f"{name} counts a {type(message).__name__} of node {replica_id}"
        if message.current_leader_epoch != epoch:
            self._fail(f"{what} in epoch {message.current_leader_epoch}; it leads {epoch}.")
        if not self._voters.counts(name, replica_id, directory):
            voters = sorted(self._voters.of(name).items())
            self._fail(f"{what} with disk {directory.hex()}; the voters are {voters}.")

    def _fail(self, explanation: str) -> None:
        self._failures.add("I27", self._world.now, explanation)


def sender(message: Counted) -> tuple[int, bytes]:
    """Return node id and directory id of the replica that sent a request."""
    if isinstance(message, UpdateRaftVoterRequest):
        return message.voter_id, message.directory
    return message.replica_id, message.directory


def tally(leader: Leader, voter: int) -> Tally:
    """Return what the leader keeps of ``voter``."""
    progress = leader.voters.get(voter)
    end = -1 if progress is None else progress.end_offset
    return Tally(end, voter in leader.fetched, leader.check_quorum_deadline)


def _is_served(replica: Replica, message: FetchSnapshotRequest) -> bool:
    """Whether the leader answers with a piece of its snapshot."""
    wanted = message.snapshot_end, message.snapshot_epoch
    size = next((each.size for each in replica.snapshots if each.id == wanted), 0)
    return (
        message.current_leader_epoch == replica.epoch
        and message.cluster_id in (None, replica.config.cluster_id)
        and not replica.shutting_down
        and wanted != BOOTSTRAP
        and 0 <= message.position < size
    )


def _replica_on(host: Host) -> Replica | None:
    node = host.node
    return node.replica if isinstance(node, Node) else None
