"""Processes with too few resources, or killed for using too many.

Full machines, noisy neighbours and leaks of file descriptors leave a node alive but unable to work.
A node that cannot continue must exit; one that can must recover by itself once it has enough
resources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from kraftwreck.harness.capabilities import LIMITS, PROCESSES
from kraftwreck.nemesis.family import Active, Effect, Family, FaultState, Needs, Shapes
from kraftwreck.nemesis.shapes import Shape, pick_leader, pick_minority, pick_one, pick_ring
from kraftwreck.nodes.draw import draw

Want = Literal["cpu", "memory", "files", "oom", "slow-start"]


@dataclass(frozen=True, slots=True)
class SqueezeShape(Shape):
    """One shape; ``want`` is the resource that its targets lack.

    ``slow-start`` kills the process and starts it again with little CPU.
    """

    want: Want


SQUEEZES: dict[str, SqueezeShape] = {
    "cpu": SqueezeShape(15, 1, pick_one, "cpu"),
    "cpu-leader": SqueezeShape(15, 1, pick_leader, "cpu"),
    "cpu-minority": SqueezeShape(10, 3, pick_minority, "cpu"),
    "cpu-all": SqueezeShape(5, 2, pick_ring, "cpu"),
    "memory": SqueezeShape(10, 1, pick_one, "memory", features=frozenset({"memory"})),
    "files": SqueezeShape(10, 1, pick_one, "files"),
    "files-leader": SqueezeShape(10, 1, pick_leader, "files"),
    "oom": SqueezeShape(8, 1, pick_one, "oom"),
    "oom-leader": SqueezeShape(7, 1, pick_leader, "oom"),
    "slow-start": SqueezeShape(10, 1, pick_one, "slow-start"),
}


class Squeezed(Effect):
    """The processes that lack a resource; each lacks one at a time."""

    order = 5

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self.processes: set[str] = set()

    def release(self, active: Active, process: str) -> None:
        """Give the resource back, and start a process that has ended for lack of it."""
        state = self.state
        if active.call(process, partial(state.env[LIMITS].release, process)):
            self.processes.discard(process)
        if active.keeps != "down" and not state.held(process):  # It may have died.
            active.call(process, partial(state.env[PROCESSES].start, process))

    def remaining(self) -> set[str] | None:
        return set(self.processes) or None

    def heal(self, active: Active) -> None:
        for process in sorted(self.processes):
            self.release(active, process)


class Squeeze(Family):
    """Takes resources away and gives them back."""

    name = "squeeze"
    about = "limit CPU, memory and files; out of memory; slow starts"
    shapes: ClassVar[Shapes] = SQUEEZES
    needs: ClassVar[Needs] = (LIMITS, PROCESSES)
    hits = "processes"
    survives_crash = False

    @classmethod
    def keeps_with(cls, shape: str) -> Literal["", "down", "paused"]:
        known = cls.shapes[shape]
        assert isinstance(known, SqueezeShape)
        return "down" if known.want in ("oom", "slow-start") else ""

    def start(self, active: Active) -> None:
        state = self.state
        shape = self.shapes[active.fault.shape]
        assert isinstance(shape, SqueezeShape)
        squeezed = state.effect(Squeezed)
        taken = []
        for process in active.targets:
            if state.held(process):
                active.skip(process, "it is held by another fault")
            elif process in squeezed.processes:
                active.skip(process, "it is squeezed already")
            else:
                taken.append(process)
        active.targets = tuple(taken)
        squeezed.processes.update(taken)
        for process in taken:
            if active.keeps == "down":
                state.down.add(process)
            if shape.want == "slow-start":
                self._start_slowly(active, process)
            else:
                self._squeeze(active, process, shape.want)

    def _squeeze(
        self, active: Active, process: str, resource: Literal["cpu", "memory", "files", "oom"]
    ) -> None:
        number = draw(active.fault.draw, process)
        limits = self.state.env[LIMITS]
        active.call(process, partial(limits.squeeze, process, resource, number))

    def _start_slowly(self, active: Active, process: str) -> None:
        """Kill a process and start it with little CPU; it is up when it is released."""
        env = self.state.env
        if active.call(process, partial(env[PROCESSES].kill, process)):
            self._squeeze(active, process, "cpu")
            active.call(process, partial(env[LIMITS].launch, process))

    def stop(self, active: Active) -> None:
        for process in active.targets:
            self.state.effect(Squeezed).release(active, process)
