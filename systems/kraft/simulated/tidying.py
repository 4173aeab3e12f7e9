"""Lets simulated brokers remove the logs of others, as the shell of a real one does.

A broker that was away may have logs of partitions that went to others meanwhile. It removes them
once, as soon as it knows its own.
"""

from __future__ import annotations

from kraftwreck.nodes.node import Node
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import RecordLogs


class Tidying:
    """Acts for all brokers of ``world``; ``logs`` are those on their disks."""

    def __init__(self, world: World, logs: RecordLogs) -> None:
        self._world = world
        self._logs = logs
        self._tidied: dict[int, int] = {}
        """By host: the life of its last process that has done so."""
        world.on_emit.append(self._on_emit)

    def _on_emit(self, host: Host) -> None:
        node, disk = host.node, host.disk
        if self._tidied.get(host.id) == host.life or not isinstance(disk, DataDisk):
            return
        broker = node.broker if isinstance(node, Node) else None
        keys = None if broker is None else broker.replicas
        if keys is None:
            return
        self._tidied[host.id] = host.life
        others = [key for key in self._logs.on_host(host) if key not in keys]
        for key in others:
            self._logs.remove(host, key)
        disk.keep(keys, others)
        self._world.begin_piece(host)
