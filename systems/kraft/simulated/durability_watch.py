"""Watches that brokers take note of flushes (D1).

A flush that has ended covers all that the log had when it began, unless the log was cut or opened
again meanwhile. A replica that ignores a flush acknowledges nothing any longer where
``flush.messages`` is 1, and flushes the same records again and again. A broker that has stopped
handles no events.

A flush seldom ends after the log was cut and has grown again. So that is rehearsed with copies.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Any, Final

from kraftwreck.nodes.replication.effects import OpenLog, RemoveLog, StartAt, Truncate
from kraftwreck.nodes.replication.events import LogFlushed, LogOpened
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import has_stopped, name_of, replicas_on
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED

MOST: Final = 20
"""How many flushes of a run are rehearsed."""
CHANGES = frozenset((OpenLog, RemoveLog, StartAt, Truncate))
"""Effects after which an earlier flush says nothing of the log."""
Place = tuple[int, int, PartitionKey]
"""A host, its life and a partition."""


class DurabilityWatch:
    """Judges the steps in which brokers of ``world`` hear of the end of a flush."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._changes: Counter[Place] = Counter()
        """How often a log was cut or opened."""
        self._then: dict[int, tuple[LogFlushed, int]] = {}
        """By identity: the events that no step has handled yet, with the changes before them."""
        self._rehearsed = 0
        world.on_write.append(self._on_write)
        world.on_caused.append(self._on_caused)
        world.on_step.append(self._on_step)

    def _on_write(self, host: Host, effect: Any) -> None:
        if type(effect) in CHANGES:
            self._changes[host.id, host.life, effect.key] += 1

    def _on_caused(self, host: Host, event: Any) -> None:
        kind = type(event)
        if kind is LogOpened:
            self._changes[host.id, host.life, event.key] += 1
        elif kind is LogFlushed:
            self._then[id(event)] = event, self._changes[host.id, host.life, event.key]

    def _on_step(self, host: Host, event: Any) -> None:
        if type(event) is not LogFlushed:
            return
        _, changes = self._then.pop(id(event), (event, -1))
        partition = replicas_on(host).get(event.key)
        if partition is None or partition.log is None or has_stopped(host):
            return
        if changes != self._changes[host.id, host.life, event.key]:
            return
        self._rehearse(host, event, partition)
        reached = min(event.end_offset, partition.log.end)
        if partition.durability.end < reached:
            self._failures.add(
                "D1",
                self._world.now,
                f"{host.name} takes {name_of(event.key)} for durable below"
                f" {partition.durability.end} only, after a flush up to {reached}",
            )
        elif (waits := partition.durability).asked is not None and waits.number == event.number:
            self._failures.add(
                "D1",
                self._world.now,
                f"{host.name} still waits for a flush of {name_of(event.key)} that has ended at"
                f" {event.end_offset}",
            )

    def _rehearse(self, host: Host, event: LogFlushed, partition: Partition) -> None:
        """D1: the end of a flush says nothing of a log that was cut since."""
        left = event.end_offset - 1
        if not INTERPRETED or left < 0 or self._rehearsed >= MOST:
            return
        if event.cuts != partition.durability.cuts:
            return
        self._rehearsed += 1
        later = copy(partition.durability)
        later.cut(left)
        later.answered(event, event.end_offset + 1, partition.with_.now)
        if later.end > left:
            self._failures.add(
                "D1",
                self._world.now,
                f"{host.name} would take {name_of(event.key)} for durable below {later.end} by a"
                f" flush that began before the log was cut at {left}",
            )
