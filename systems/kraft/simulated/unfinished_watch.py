"""Watches that unfinished snapshots are removed once a node needs them no longer (F16).

A node has at most two: the one that it makes, and the one that it fetches. It gives them up when
its leader changes, when a fetched snapshot is damaged, and when a newer one was loaded. A file that
stays then takes room until the next start, perhaps for months.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import AppendSnapshot, DropSnapshot, FinishSnapshot
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.log.snapshot_files import PART
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.disk_index import SnapshotId
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World


class UnfinishedWatch:
    """Judges the unfinished snapshots of each process of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._parts: dict[int, dict[SnapshotId, bool]] = {}
        """By host: its unfinished snapshots, and whether the last step has left one unused."""
        world.on_disk.append(self._on_disk)
        world.on_trace.append(self._on_trace)
        world.on_step.append(self._on_step)

    def _on_disk(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is AppendSnapshot:
            name = effect.end_offset, effect.epoch
            self._parts.setdefault(host.id, {}).setdefault(name, False)
        elif kind is FinishSnapshot or kind is DropSnapshot:
            self._parts.get(host.id, {}).pop((effect.end_offset, effect.epoch), None)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            self._parts.pop(host.id, None)

    @rule(
        "F16",
        "UnfinishedSnapshotsGo",
        "An unfinished snapshot is one that its node makes or fetches. The step that gives it up "
        "removes it.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        """All effects of the step before are on the disk, those of this one are not."""
        parts, node = self._parts.get(host.id), host.node
        if not parts or not isinstance(node, Node) or is_from_shell(event):
            return
        used = _used(node)
        for name, unused in list(parts.items()):
            if name in used:
                parts[name] = False
            elif not unused:
                parts[name] = True
            else:
                del parts[name]
                self._failures.add(
                    "F16",
                    self._world.now,
                    f"{host.name} has a file {snapshot_name(*name)}{PART}, and neither makes nor"
                    " fetches this snapshot",
                )


def _used(node: Node) -> set[SnapshotId]:
    """Return the snapshots that ``node`` makes or fetches."""
    making, state = node.loader.generating, node.replica.state
    used = set() if making is None else {making}
    if isinstance(state, Follower) and state.download is not None:
        used.add((state.download.end_offset, state.download.epoch))
    return used
