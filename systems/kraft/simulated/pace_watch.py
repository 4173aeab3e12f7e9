"""Watches whether leaders propose to remove slow followers from their ISRs in time (L13).

With ``commit.mode=quorum`` the leader proposes to remove a member of the ISR that lacks a record
which a majority has, within :data:`LATE_US` and the time of a step. A follower that was late
returns once it has been in time for :data:`STEADY_US`, or where it is needed (D15). In other topics
the leader waits for ``replica.lag.time.max.ms``, and looks at its followers twice in that time. The
rule judges what the leader knows of its followers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kraftwreck.checkers.kraft.limits import LATE_US, STEADY_US, STEPS_US
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.pace_rehearsal import (
    REHEARSED_LAG_US,
    wrong_lags,
    wrong_paces,
)
from kraftwreck.systems.kraft.simulated.record_logs import name_of
from kraftwreck.systems.kraft.simulated.record_watch import least_in_sync


@dataclass(slots=True)
class _Followers:
    """The followers of a leader of a topic with ``commit.mode=quorum``, by its clock (µs).

    ``behind`` has those that lack records, whether or not they are in the ISR: since when, and the
    end that a majority had then. ``late`` has the last time at which each was late. ``enough`` is
    the end that the followers which make up a majority had after the last step, None while the ISR
    was too small. ``proposed`` are the followers that are proposed for the ISR.
    """

    leader_epoch: int
    behind: dict[int, tuple[int, int]] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    enough: int | None = None
    proposed: frozenset[int] = frozenset()


class PaceWatch:
    """Judges the leaders of ``world``.

    By host and partition it has the members that are behind: since when, and the end that a
    majority had then.
    """

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._behind: dict[tuple[int, PartitionKey], dict[int, tuple[int, int]]] = {}
        self._lagging: dict[tuple[int, PartitionKey], tuple[int, dict[int, tuple[int, int]]]] = {}
        """The same for topics that wait for the whole ISR, with the leader epoch."""
        self._followers: dict[tuple[int, PartitionKey], _Followers] = {}
        world.afterwards(self._rehearse)
        world.on_emit.append(self._on_emit)
        world.on_trace.append(self._on_trace)

    def _rehearse(self) -> None:
        for wrong in wrong_paces():
            self._failures.add("D15", self._world.now, f"a leader {wrong}")
            return
        for wrong in wrong_lags(REHEARSED_LAG_US):
            self._failures.add("L13", self._world.now, f"a leader {wrong}")
            return

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            memories: tuple[dict[tuple[int, PartitionKey], Any], ...]
            memories = self._behind, self._lagging, self._followers
            for memory in memories:
                for place in [place for place in memory if place[0] == host.id]:
                    del memory[place]

    def _on_emit(self, host: Host) -> None:
        node = host.node
        if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
            return
        for partition in node.broker.data.core.partitions.values():
            if partition.settings.quorum:
                self._judge(host, partition)
                self._judge_return(host, partition)
            elif partition.leading or (host.id, partition.key) in self._lagging:
                self._judge_lag(host, partition)

    def _judge(self, host: Host, partition: Partition) -> None:
        place, in_sync, now = (host.id, partition.key), partition.in_sync, self._world.now
        reached = _majority_end(partition)
        if reached is None:
            self._behind.pop(place, None)
            return
        behind = self._behind.setdefault(place, {})
        for broker, remote in in_sync.remotes.items():
            if broker not in in_sync.isr:
                behind.pop(broker, None)
                continue
            since, target = _observe(behind, broker, remote.end, reached, now)
            if host.waited(since, now, STEPS_US) > LATE_US:
                self._failures.add(
                    "L13",
                    now,
                    f"{host.name} keeps {broker} in the ISR of {name_of(partition.key)}, which ends"
                    f" at {remote.end} for {(now - since) / 1_000_000:.3f} s after a majority"
                    f" reached {target}",
                )

    def _judge_return(self, host: Host, partition: Partition) -> None:
        """D15: a follower that was late is proposed again once it has been in time for a while, so
        that a slow one does not delay a record each time. It is proposed at once if the ISR has no
        majority, or is behind it."""
        place, in_sync, now = (host.id, partition.key), partition.in_sync, partition.with_.now
        if not partition.leading:
            self._followers.pop(place, None)
            return
        epoch = partition.assignment.leader_epoch
        known = self._followers.get(place)
        if known is None or known.leader_epoch != epoch:
            known = self._followers[place] = _Followers(epoch)
        pending = in_sync.pending
        proposed = frozenset[int]() if pending is None else pending.maximal - set(in_sync.isr)
        for broker in sorted(proposed - known.proposed):
            late, end = known.late.get(broker), in_sync.remotes[broker].end
            if known.enough is None or late is None or end > known.enough:
                continue
            if now - late <= STEADY_US:
                self._failures.add(
                    "D15",
                    self._world.now,
                    f"{host.name} proposes {broker} for the ISR of {name_of(partition.key)}"
                    f" {(now - late) / 1_000_000:.3f} s after it lacked a record of a majority",
                )
        known.proposed = proposed
        known.enough = _enough(partition)
        if known.enough is None:
            known.behind.clear()
            return
        reached, behind = min(known.enough, partition.vouched), known.behind
        for broker, remote in in_sync.remotes.items():
            since, _ = _observe(behind, broker, remote.end, reached, now)
            if now - since > LATE_US:
                known.late[broker] = now

    def _judge_lag(self, host: Host, partition: Partition) -> None:
        place, in_sync, now = (host.id, partition.key), partition.in_sync, self._world.now
        log, epoch = partition.log, partition.assignment.leader_epoch
        known = self._lagging.get(place)
        if log is None or not partition.leading or in_sync.pending is not None:
            self._lagging.pop(place, None)
            return
        if known is None or known[0] != epoch:
            known = self._lagging[place] = epoch, {}
        behind, lag_us = known[1], partition.with_.lag_us
        for broker, remote in in_sync.remotes.items():
            if broker not in in_sync.isr:
                behind.pop(broker, None)
                continue
            since, target = _observe(behind, broker, remote.end, log.end, now)
            if host.waited(since, now, STEPS_US) > lag_us + lag_us // 2:
                self._failures.add(
                    "L13",
                    now,
                    f"{host.name} keeps {broker} in the ISR of {name_of(partition.key)}, which ends"
                    f" at {remote.end} for {(now - since) / 1_000_000:.3f} s after the leader"
                    f" reached {target}; it may lag behind for {lag_us / 1_000_000:.3f} s",
                )


def _observe(
    behind: dict[int, tuple[int, int]], broker: int, end: int, reached: int, now: int
) -> tuple[int, int]:
    """Note in ``behind`` whether a broker that ends at ``end`` lacks records below ``reached``.

    Return since when it has lacked records, and the end that was reached then. It gets as long for
    what came since. A broker that lacks nothing, or got all of those, does so since ``now``.
    """
    since, target = behind.get(broker, (now, end))
    if end >= reached:
        behind.pop(broker, None)
    elif end >= target:
        behind[broker] = now, reached
    else:
        return since, target
    return now, reached


def _enough(partition: Partition) -> int | None:
    """Return the end that enough followers in the ISR have to make up a majority with the leader;
    None without a majority."""
    in_sync, wanted = partition.in_sync, least_in_sync(partition) - 1
    members = [in_sync.remotes[each].end for each in in_sync.isr if each in in_sync.remotes]
    return sorted(members, reverse=True)[wanted - 1] if 0 < wanted <= len(members) else None


def _majority_end(partition: Partition) -> int | None:
    """Return the end that a majority has as far as the leader knows; None if no member can be
    behind, or a change of the ISR is under way."""
    if partition.log is None or not partition.leading or partition.in_sync.pending is not None:
        return None
    enough = _enough(partition)
    return None if enough is None else min(partition.vouched, enough)
