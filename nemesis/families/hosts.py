"""Machines that lose power; active faults are applied again after they boot."""

from __future__ import annotations

from typing import ClassVar

from kraftwreck.harness.capabilities import HOSTS as CRASHES
from kraftwreck.harness.capabilities import PROCESSES, host_of
from kraftwreck.nemesis.family import Active, Effect, Family, FaultState, Needs, Shapes
from kraftwreck.nemesis.shapes import Shape, pick_leader, pick_minority, pick_one, pick_ring

HOSTS: dict[str, Shape] = {
    "leader": Shape(30, 1, pick_leader),
    "one": Shape(35, 1, pick_one),
    "minority": Shape(15, 3, pick_minority),
    "all": Shape(5, 2, pick_ring, most=True),
}
"""Machines crash with their network: peers get no reply, not even a closed port."""


class Off(Effect):
    """The machines that are off. They boot before anything else there can be undone."""

    order = 0

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.nodes: set[str] = set()

    def boot(self, active: Active, nodes: list[str]) -> None:
        """Boot ``nodes``, and apply the active faults there again."""
        state = self.state
        booted = state.each(active, nodes, state.env[CRASHES].boot_host)
        self.nodes -= booted
        if booted:
            again = active.evidence.setdefault("renewed", {})
            for effect in state.effects:
                effect.renew(active, sorted(booted), again)

    def remaining(self) -> set[str] | None:
        return set(self.nodes) or None

    def heal(self, active: Active) -> None:
        self.boot(active, sorted(self.nodes))


class Host(Family):
    """Crashes machines, and boots them when the fault ends."""

    name = "host"
    about = "crash machines, boot them later"
    shapes: ClassVar[Shapes] = HOSTS
    needs: ClassVar[Needs] = (CRASHES, PROCESSES)
    keeps = "down"
    stops = True

    def held(self, active: Active) -> tuple[str, ...]:
        env = self.state.env
        return tuple(name for node in active.targets for name in env.processes_of(node))

    def start(self, active: Active) -> None:
        state = self.state
        # Faults of a disk or process there could not be undone while it is off.
        touched = {
            host_of(target)
            for other in state.others(active)
            if not other.family.survives_crash
            for target in other.targets
        }
        touched |= {host_of(name) for name in state.down | state.paused | state.starting}
        for node in active.targets:
            if node in touched:
                active.skip(node, "it is held by another fault")
        active.targets = tuple(node for node in active.targets if node not in touched)
        state.down.update(self.held(active))
        off = state.effect(Off)
        off.nodes |= state.each(active, active.targets, state.env[CRASHES].crash_host)

    def stop(self, active: Active) -> None:
        off = self.state.effect(Off)
        off.boot(active, [node for node in active.targets if node in off.nodes])
