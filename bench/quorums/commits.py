"""The cost of a commit on either core: messages, bytes, latency, and when followers know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.quorums.client import Writer
from bench.quorums.group import SECOND, Group, Kind

_QUIET: Final = 2 * SECOND
"""A new group is left alone this long before it is measured."""


@dataclass(slots=True)
class Commits:
    """Figures of a group at one rate, over several seeds.

    ``latencies`` run from a client's write to its acknowledgement, ``lags`` from the leader's
    commit of a batch to that of the last follower; microseconds.
    """

    commits: int = 0
    messages: int = 0
    bytes: int = 0
    latencies: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)


def measure_commits(
    kind: Kind, size: int, rate: int, commits: int, seeds: Sequence[int]
) -> Commits:
    """Let a client write ``commits`` values per seed at ``rate`` per second."""
    found = Commits()
    for seed in seeds:
        group = Group(kind, size, seed)
        group.start()
        group.world.run(group.world.now + _QUIET)
        _write(group, Writer(group, rate, commits), found)
    return found


def _write(group: Group, writer: Writer, found: Commits) -> None:
    """Let ``writer`` write all its values; add the figures. RuntimeError if a write fails."""
    group.traffic.clear()
    group.events.clear()
    writer.begin()
    group.wait(lambda: writer.done, "end of the writes", 3600)
    if writer.failed:
        raise RuntimeError(f"{group.kind.name}, seed {group.seed}: {writer.failed} writes failed")
    found.commits += len(writer.latencies)
    found.messages += group.traffic.messages.total()
    found.bytes += group.traffic.volume.total()
    found.latencies += writer.latencies
    group.world.run(group.world.now + _QUIET)
    found.lags += _lags(group)


def _lags(group: Group) -> list[int]:
    """Return how long after the leader the last follower committed each batch."""
    leader = group.leader
    known: dict[int, list[int]] = {}
    leading: dict[int, int] = {}
    for time, event in group.events:
        if event.kind == "commit":
            base = event.detail["base"]
            if event.node == leader:
                leading[base] = time
            else:
                known.setdefault(base, []).append(time)
    followers = len(group.names) - 1
    return [
        max(known[base]) - time
        for base, time in leading.items()
        if len(known.get(base, ())) == followers
    ]


@dataclass(frozen=True, slots=True)
class Idle:
    """Traffic of a group without clients, per second."""

    messages: float
    bytes: float


def measure_idle(kind: Kind, size: int, seconds: int, seeds: Sequence[int]) -> Idle:
    """Count the frames of groups that have nothing to replicate."""
    messages = total = 0
    for seed in seeds:
        group = Group(kind, size, seed)
        group.start()
        group.world.run(group.world.now + _QUIET)
        group.traffic.clear()
        group.world.run(group.world.now + seconds * SECOND)
        messages += group.traffic.messages.total()
        total += group.traffic.volume.total()
    whole = seconds * len(seeds)
    return Idle(messages / whole, total / whole)
