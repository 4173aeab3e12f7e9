"""Watches that a broker stores its high watermarks when it stops in good order (D5).

Otherwise its next process begins with those of some seconds before. A single replica that leads
then knows of fewer committed records than consumers have read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.replication.effects import WriteHighWatermarks
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

STOPPED: Final = "stopped"


class StopWatch:
    """Judges the brokers of ``world`` that report that they have stopped."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._stored: dict[int, tuple[int, Mapping[PartitionKey, int]]] = {}
        """By host: its life, and the last checkpoint of its high watermarks."""
        world.on_disk.append(self._on_disk)
        world.on_trace.append(self._on_trace)

    def _on_disk(self, host: Host, effect: Any) -> None:
        if type(effect) is WriteHighWatermarks:
            self._stored[host.id] = host.life, effect.offsets

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind != "broker" or event.detail.get("state") != STOPPED:
            return
        life, stored = self._stored.get(host.id, (-1, {}))
        known = stored if life == host.life else {}
        for key, partition in replicas_on(host).items():
            if partition.log is not None and known.get(key) != partition.hw:
                self._failures.add(
                    "D5",
                    self._world.now,
                    f"{host.name} stops and has stored {known.get(key)} as the high watermark of"
                    f" {name_of(key)}, which is {partition.hw}",
                )
