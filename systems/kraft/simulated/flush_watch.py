"""Watches that controllers have flushed their logs when they fetch (F17).

The offset of a fetch says that the replica has all records below it. A leader counts it for commits
as soon as it has added the replica to the voters, which the replica learns later. So a controller
flushes even before it votes.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of


class FlushWatch:
    """Judges the fetches of the controllers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        world.wires.on_send.append(self._on_send)

    @rule(
        "F17",
        "FetchesFollowFlushes",
        "A controller fetches from an offset only once all its records below are on its disk, also "
        "if it is no voter yet.",
        simulated=True,
    )
    def _on_send(self, host: Host, effect: Send) -> None:
        message, node = effect.message, host.node
        if type(message) is not FetchRequest or not isinstance(node, Node):
            return
        disk = disk_of(host)
        if disk.flushed == len(disk.log) or not node.replica.config.can_become_voter:
            return
        end = disk.ends[disk.flushed - 1] if disk.flushed else disk.start
        if message.fetch_offset > end:
            self._failures.add(
                "F17",
                self._world.now,
                f"{host.name} fetches from {message.fetch_offset} on, but has flushed its log up to"
                f" {end} only",
            )
