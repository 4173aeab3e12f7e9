"""Watches that a broker leaves no mark of a clean stop beside logs that nobody has checked (F8).

The process after such a stop opens its logs as they are. One that is stopped soon after a crash may
not have opened all of them yet: it must leave no mark, so that the next process checks them. Few
brokers are stopped that soon. So each step also judges the mark that a stop would leave.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.log.layout import segment_offsets
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk

METADATA: Final = "__cluster_metadata-0"


class MarkWatch:
    """Judges each start of a broker of ``world`` by the logs that its predecessor has opened."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._unchecked: dict[int, set[str]] = {}
        """By host: the folders of logs that were there when a process started after a crash, and
        that no process has opened since."""
        self._know: set[int] = set()
        """The hosts whose processes know which of these logs they have; they remove the others."""
        world.on_trace.append(self._on_trace)
        world.on_caused.append(self._on_caused)
        world.on_step.append(self._on_step)
        world.on_wipe.append(self._on_wipe)

    def _on_wipe(self, host: Host) -> None:
        self._unchecked.pop(host.id, None)

    def _on_caused(self, host: Host, event: Any) -> None:
        unchecked = self._unchecked.get(host.id)
        if unchecked and type(event) is LogOpened and isinstance(host.disk, DataDisk):
            topic_id, number = event.key
            unchecked.discard(f"{host.disk.name_of(topic_id)}-{number}")

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        disk = host.disk
        if event.kind != "start" or not isinstance(disk, DataDisk):
            return
        logs = _logs(disk)
        unchecked = self._unchecked.get(host.id, set()) & logs
        if unchecked and disk.orderly:
            self._failures.add(
                "F8",
                self._world.now,
                f"{host.name} starts with the mark of a clean stop, so it checks no log; its last"
                f" process had not opened {', '.join(sorted(unchecked))} after a crash",
            )
        self._know.discard(host.id)
        self._unchecked[host.id] = unchecked if disk.orderly else logs

    def _on_step(self, host: Host, _: Any) -> None:
        """F8: a broker that does not know yet which logs it has would leave no mark."""
        unchecked, node, disk = self._unchecked.get(host.id), host.node, host.disk
        if not unchecked or not isinstance(node, Node) or not isinstance(disk, DataDisk):
            return
        broker = node.broker
        if broker is None or disk.orderly:
            return
        if broker.replicas is not None:
            if host.id not in self._know:
                self._know.add(host.id)
                unchecked &= {f"{disk.name_of(key[0])}-{key[1]}" for key in broker.replicas}
            return
        if broker.left_epoch != clean_shutdown.UNCLEAN:
            self._failures.add(
                "F8",
                self._world.now,
                f"{host.name} would leave the mark of a clean stop, and has opened none of"
                f" {', '.join(sorted(unchecked))} since a crash",
            )
            del self._unchecked[host.id]  # Once.


def _logs(disk: DataDisk) -> set[str]:
    """Return the folders of the logs on a disk."""
    files = disk.files
    return {
        folder.name
        for folder in files.directories
        if folder.parent == ROOT
        and folder.name != METADATA
        and segment_offsets(files.names(folder))
    }
