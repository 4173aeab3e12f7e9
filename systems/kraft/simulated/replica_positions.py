"""The replicas of each broker as they were before and after its last step: role, epoch, offsets.

A step may answer several requests, take newer metadata and move high watermarks. Its effects leave
together when it is over, so an answer may be about the state before it or after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import replicas_on
from kraftwreck.systems.kraft.simulated.record_watch import counted


class Position(NamedTuple):
    """A replica after a step. ``leads``: it leads and its log is open. ``start`` and ``end`` are
    those of the log, 0 while it is not open. ``counted``: how many replicas the high watermark
    waits for."""

    leads: bool
    epoch: int
    hw: int
    start: int
    end: int
    counted: int


@dataclass(slots=True)
class _Process:
    """A broker process: how many steps had effects, its replicas after the last one, and those that
    this step has changed, as they were before it."""

    life: int
    steps: int = 0
    now: dict[PartitionKey, Position] = field(default_factory=dict)
    changed: dict[PartitionKey, Position | None] = field(default_factory=dict)

    def step(self, replicas: Mapping[PartitionKey, Partition]) -> None:
        """Take the ``replicas`` as they are after another step."""
        self.steps += 1
        now, changed = self.now, self.changed
        changed.clear()
        for key, each in replicas.items():
            log, epoch, size = each.log, each.assignment.leader_epoch, len(counted(each))
            if log is None:
                position = Position(False, epoch, each.hw, 0, 0, size)
            else:
                position = Position(each.leading, epoch, each.hw, log.start, log.end, size)
            known = now.get(key)
            if known != position:
                changed[key], now[key] = known, position
        if len(now) > len(replicas):
            for key in now.keys() - replicas.keys():
                changed[key] = now.pop(key)


class ReplicaPositions:
    """Follows the steps of all brokers of ``world``; a new process has no replicas at first."""

    def __init__(self, world: World) -> None:
        self._processes: dict[int, _Process] = {}
        world.on_emit.append(self._on_emit)

    def _of(self, host: Host) -> _Process:
        known = self._processes.get(host.id)
        if known is None or known.life != host.life:
            known = self._processes[host.id] = _Process(host.life)
        return known

    def _on_emit(self, host: Host) -> None:
        replicas = replicas_on(host)
        if replicas or host.id in self._processes:
            self._of(host).step(replicas)

    def steps(self, host: Host) -> int:
        """Return how many steps of the host's process had effects."""
        return self._of(host).steps

    def before(self, host: Host, key: PartitionKey) -> Position | None:
        """Return a replica as it was before the last step, None if there was none."""
        process = self._of(host)
        if key in process.changed:
            return process.changed[key]
        return process.now.get(key)

    def now(self, host: Host, key: PartitionKey) -> Position | None:
        """Return a replica as the last step has left it, None if there is none."""
        return self._of(host).now.get(key)
