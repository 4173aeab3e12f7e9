"""Watches that brokers ask to be unfenced once their logs are open, and not before (F19).

A broker that is in service may be elected. Until it has opened a log, it can neither serve nor
follow, and it does not know yet which records a crash has left. If a log goes while a broker
starts, it must not wait for it. That is rare, so a copy of the data plane loses all logs that it
waits for. Compiled brokers cannot be copied.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.broker.data_plane import DataPlane
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.effects import RemoveLog
from kraftwreck.nodes.replication.events import LogOpened, Published
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED

CAUGHT_UP: Final = "recovery"
"""The state of a broker that has caught up, and asks to be unfenced."""
Process = tuple[int, int]
"""A host and its life."""


class OpeningWatch:
    """Judges the brokers of ``world`` that report that they have caught up."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._first: dict[Process, frozenset[PartitionKey]] = {}
        """The partitions of the first metadata that a process has caught up with."""
        self._rehearsed = False
        self._done: dict[Process, set[PartitionKey]] = {}
        """The logs that a process has opened, or given up."""
        world.on_step.append(self._on_step)
        world.on_caused.append(self._on_caused)
        world.on_disk.append(self._on_disk)
        world.on_trace.append(self._on_trace)

    def _on_step(self, host: Host, _: Any) -> None:
        process, node = (host.id, host.life), host.node
        if process in self._first or not isinstance(node, Node):
            return
        if node.broker is None or node.broker.data is None:
            return
        replicas = node.broker.data.replicas
        if replicas is None:
            return
        self._first[process] = replicas
        if replicas and INTERPRETED and not self._rehearsed:
            self._rehearsed = True
            if waits_for_removed(node.broker.data, self._world.now):
                explanation = f"{host.name} would wait for logs that are no longer its own"
                self._failures.add("F19", self._world.now, explanation)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._done.setdefault((host.id, host.life), set()).add(event.key)

    def _on_disk(self, host: Host, effect: Any) -> None:
        if type(effect) is RemoveLog:
            self._done.setdefault((host.id, host.life), set()).add(effect.key)

    @rule(
        "F19",
        "UnfencedWithOpenLogs",
        "A broker asks to be unfenced only once it has opened the logs of all partitions that the "
        "metadata gives it. It waits for no others.",
        simulated=True,
    )
    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        process, node = (host.id, host.life), host.node
        if event.kind != "broker" or event.detail.get("state") != CAUGHT_UP:
            return
        if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
            return
        first = self._first.get(process)
        if first is None:
            wrong = "before it knows which logs it has"
        else:
            closed = sorted(map(name_of, first - self._done.get(process, set())))
            wrong = f"and has not opened {', '.join(closed)}" if closed else ""
        if wrong:
            explanation = f"{host.name} asks to be unfenced {wrong}"
            self._failures.add("F19", self._world.now, explanation)


def waits_for_removed(plane: DataPlane, now: int) -> bool:
    """Return whether a copy of ``plane`` waits for its logs after it has lost all of them."""
    copy = deepcopy(plane)
    copy.step(Published(tuple(copy.replicas or ())), now, 0)
    return not copy.is_open
