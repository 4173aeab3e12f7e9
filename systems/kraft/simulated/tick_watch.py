"""Lets Ticks come early: they must find nothing to do (F26).

A node asks its process for the next Tick, at the earliest time of all its timers. If it forgets one
of them, its work waits for another Tick, or for the next message, and a quiet node may wait long.
So some Ticks come a microsecond early. One that finds work shows that the node has asked too late.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

EACH: Final = 7
"""After one in so many steps of a host a Tick comes early."""


class TickWatch:
    """Judges the timers of the nodes of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._steps: dict[int, int] = {}
        """By host."""
        world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        steps = self._steps[host.id] = self._steps.get(host.id, 0) + 1
        node = host.node
        if steps % EACH or not isinstance(node, Node):
            return
        life, early = host.life, host.clock.due(node.deadline) - 1
        if early > self._world.now:
            self._world.at(early, lambda: self._tick(host, life), f"early tick {host.id}")

    @rule(
        "F26",
        "NothingIsDueEarly",
        "Before the time at which a node asks for its next Tick, a Tick has no effect.",
        simulated=True,
    )
    def _tick(self, host: Host, life: int) -> None:
        node = host.node
        if host.life != life or not isinstance(node, Node) or host.paused or host.is_writing:
            return
        mono, wall = host.clock.both(self._world.now)
        due = node.deadline
        if mono >= due:
            return
        effects = node.step(Tick(), mono, wall // 1000)
        if effects:
            kinds = ", ".join(sorted({type(each).__name__ for each in effects}))
            self._failures.add(
                "F26",
                self._world.now,
                f"{host.name} asks for a Tick in {due - mono} µs, but one has effects before:"
                f" {kinds}",
            )
