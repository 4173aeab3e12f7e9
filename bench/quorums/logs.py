"""Repair of the six logs of figure 7 of the Raft paper, by push and by pull.

The leader and one follower have the log of the figure's leader. The other follower starts with one
of the logs a to f once the two lead and follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.quorums.client import write
from bench.quorums.group import SECOND, Group, Kind
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    FlushLog,
    ResponseReceived,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft.messages import FetchResponse
from kraftwreck.nodes.consensus.raft.messages import AppendEntriesResponse
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control
from kraftwreck.nodes.store.machine import encode
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.host import Host

LEADER: Final = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
FIGURE_7: Final[Mapping[str, tuple[int, ...]]] = {
    "a": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b": (1, 1, 1, 4),
    "c": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e": (1, 1, 1, 4, 4, 4, 4),
    "f": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}
"""The terms of the records; the leader's own term is 8."""
_TERM: Final = 7
_QUIET: Final = 2 * SECOND
_FOLLOWER: Final = "n3"
_SOUND: Final = ("n1", "n2")


@dataclass(slots=True)
class Repair:
    """Figures of one shape, one entry for each seed. Times are microseconds.

    ``rejected`` counts the answers that say that the logs differ, ``messages`` and ``bytes`` the
    frames between leader and follower. ``times`` run from the moment at which the follower follows
    this leader to equal logs on disk, ``starts`` from the
    start of its process.
    """

    rejected: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


def measure_repair(kind: Kind, shape: str, seeds: Sequence[int]) -> Repair:
    """Let a follower with the log ``shape`` join a leader, once for each seed."""
    found = Repair()
    for seed in seeds:
        group = Group(kind, 3, seed)
        for name in _SOUND:
            _fill(group, name, LEADER)
        _fill(group, _FOLLOWER, FIGURE_7[shape])
        for name in _SOUND:
            group.world.start(name)
        group.wait_for_leader()
        group.world.run(group.world.now + _QUIET)
        _repair(group, found)
    return found


def _fill(group: Group, name: str, terms: Sequence[int]) -> None:
    """Write a log with one record for each of ``terms`` to the disk of ``name``."""
    disk = group.world.host(name).disk
    assert isinstance(disk, Disk)
    voters = tuple(range(1, len(group.names) + 1))
    disk.apply(WriteQuorumState(_TERM, -1, -1, bytes(16), voters))
    for offset, term in enumerate(terms):
        first = offset == 0 or terms[offset - 1] != term
        # A term begins with a control record in the logs of both cores.
        record = _announced(term) if first else (None, encode(write(100 * term + offset)))
        disk.apply(AppendLog(encode_batch(offset, term, 0, [record], control=first)))
    disk.apply(FlushLog())
    disk.process_ended()


def _announced(term: int) -> tuple[bytes | None, bytes | None]:
    """Return the record with which a leader begins its term; its id stands for the term."""
    leader = {"version": 0, "leader_id": term, "voters": [], "granting_voters": []}
    return encode_control(LEADER_CHANGE, leader)


def _repair(group: Group, found: Repair) -> None:
    """Start the follower and wait until its log is the leader's; add the figures."""
    leader = group.leader
    assert leader is not None
    core = group.core(leader)
    rejected = 0

    def heard(host: Host, event: ResponseReceived) -> None:
        nonlocal rejected
        rejected += _differs(event.message)

    group.world.on_response.append(heard)
    group.traffic.clear()
    group.events.clear()
    begun = group.world.now
    group.world.start(_FOLLOWER)
    host, follower = group.world.host(_FOLLOWER), group.core(_FOLLOWER)

    def equal() -> bool:
        ends = follower.log.end_offset, follower.log.last_epoch
        durable = host.busy is None  # No step waits for its writes and flushes.
        return durable and ends == (core.log.end_offset, core.log.last_epoch)

    group.wait(equal, "equal logs")
    if group.leader != leader:
        raise RuntimeError(f"{group.kind.name}, seed {group.seed}: another member leads")
    pair = frozenset((group.world.host(leader).id, group.world.host(_FOLLOWER).id))
    found.rejected.append(rejected)
    found.messages.append(group.traffic.of_pair[pair])
    found.bytes.append(group.traffic.volume_of_pair[pair])
    found.starts.append(group.world.now - begun)
    found.times.append(group.world.now - _followed(group, core.term))


def _differs(message: object) -> bool:
    """Whether an answer says that the logs of leader and follower differ."""
    if isinstance(message, AppendEntriesResponse):
        return not message.success
    return isinstance(message, FetchResponse) and message.diverging_epoch >= 0


def _followed(group: Group, term: int) -> int:
    """Return when the follower first followed the leader of ``term``."""
    for time, event in group.events:
        here = (event.node, event.state, event.epoch) == (_FOLLOWER, "follower", term)
        if here and event.leader >= 0:
            return time
    raise RuntimeError(f"{group.kind.name}, seed {group.seed}: {_FOLLOWER} followed no leader")
