"""Killed, terminated and paused processes, and loss of power."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import ClassVar

from kraftwreck.harness.capabilities import POWER, PROCESSES
from kraftwreck.nemesis.family import Active, Aims, Evidence, Family, FaultState, Needs, Shapes
from kraftwreck.nemesis.shapes import (
    Shape,
    pick_leader,
    pick_majority,
    pick_minority,
    pick_one,
    pick_ring,
)

KILLS: dict[str, Shape] = {
    "leader": Shape(35, 1, pick_leader),
    "one": Shape(40, 1, pick_one),
    "minority": Shape(15, 3, pick_minority),
    "majority": Shape(5, 3, pick_majority, most=True),
    "all": Shape(10, 2, pick_ring, most=True),
}
"""``all`` picks every process in a random order: only data synced to disk survives."""

PAUSES: dict[str, Shape] = {
    "leader": Shape(40, 1, pick_leader),
    "one": Shape(40, 1, pick_one),
    "minority": Shape(15, 3, pick_minority),
    "majority": Shape(3, 3, pick_majority, most=True),
    "all": Shape(2, 2, pick_ring, most=True),
}
"""``all`` is rare: a completely paused cluster only waits until all its timers expire."""

TERMINATIONS: dict[str, Shape] = {
    "leader": Shape(35, 1, pick_leader),
    "one": Shape(30, 1, pick_one),
    "minority": Shape(10, 3, pick_minority),
    "all": Shape(5, 2, pick_ring, most=True),
}
"""Targets often have something to hand over: a leader its role."""

CUTS_OF_POWER: dict[str, Shape] = {
    "leader": Shape(25, 1, pick_leader),
    "one": Shape(30, 1, pick_one),
    "minority": Shape(15, 3, pick_minority),
    "majority": Shape(5, 3, pick_majority, most=True),
    "all": Shape(30, 2, pick_ring, most=True),
}
"""``all`` is frequent: agreement survives the loss of all unflushed data if nodes flush."""

_AIMED = (("one", ("@",)), ("one", ("@",)), ("one", ("@leader",)), ("leader", ()))
_JEPSEN = ("one", "minority", "majority", "leader", "all")


def take(state: FaultState, active: Active) -> list[str]:
    """Return the targets that are still up (and, for pauses, not paused yet), and mark them.

    They count as down, or as paused, from now on. The others are skipped.
    """
    kill = active.keeps == "down"
    taken = []
    for process in active.targets:
        if process in state.down or (not kill and process in state.paused):
            active.skip(process, "down already" if process in state.down else "paused already")
        elif kill:
            state.down.add(process)
            state.paused.discard(process)
            taken.append(process)
        else:
            state.paused.add(process)
            taken.append(process)
    return taken


class Kill(Family):
    """Kills processes, which are started when no fault keeps them down."""

    name = "kill"
    about = "SIGKILL the process, start it again later"
    shapes: ClassVar[Shapes] = KILLS
    needs: ClassVar[Needs] = (PROCESSES,)
    keeps = "down"
    stops = True
    hits = "processes"
    aimed: ClassVar[Aims] = (*_AIMED, ("minority", ()), ("all", ()))
    jepsen = _JEPSEN

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: killed, started again {duration} later"

    def start(self, active: Active) -> None:
        self.state.each(active, take(self.state, active), self.state.env[PROCESSES].kill)


class Power(Kill):
    """Ends processes like a loss of power."""

    name = "power"
    about = "cut the power, which loses unflushed data"
    shapes: ClassVar[Shapes] = CUTS_OF_POWER
    needs: ClassVar[Needs] = (PROCESSES, POWER)

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: loses power and unflushed data, started again {duration} later"

    def start(self, active: Active) -> None:
        self.state.each(active, take(self.state, active), self.state.env[POWER].cut_power)


class Pause(Family):
    """Pauses processes."""

    name = "pause"
    about = "SIGSTOP the process, SIGCONT it later"
    shapes: ClassVar[Shapes] = PAUSES
    needs: ClassVar[Needs] = (PROCESSES,)
    keeps = "paused"
    stops = True
    hits = "processes"
    aimed: ClassVar[Aims] = (("one", ("@",)), ("one", ("@leader",)), ("leader", ()))
    jepsen = _JEPSEN

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: paused for {duration}"

    def start(self, active: Active) -> None:
        self.state.each(active, take(self.state, active), self.state.env[PROCESSES].pause)


class Terminate(Family):
    """Shuts processes down, for example so that a leader resigns first.

    On hosts a shutdown takes seconds, and must not delay other faults. So the signal is sent at
    once, and the result is recorded when the fault ends. A process starts again only after it has
    stopped or was killed.
    """

    name = "terminate"
    about = "SIGTERM the process, start it again later"
    shapes: ClassVar[Shapes] = TERMINATIONS
    needs: ClassVar[Needs] = (PROCESSES,)
    keeps = "down"
    stops = True
    hits = "processes"
    aimed: ClassVar[Aims] = (("one", ("@",)), ("one", ("@leader",)), ("leader", ()))

    @classmethod
    def describe(cls, shape: str, targets: str, duration: str) -> str:
        return f"{targets}: terminated, started again {duration} later"

    def __init__(self, state: FaultState) -> None:
        super().__init__(state)
        self._ends: dict[Active, dict[str, Future[Evidence]]] = {}

    def start(self, active: Active) -> None:
        state = self.state
        processes = take(state, active)
        stop = state.env[PROCESSES].stop
        if not state.env.concurrent:
            state.each(active, processes, stop)
        elif processes:
            threads = ThreadPoolExecutor(len(processes), thread_name_prefix="terminations")
            self._ends[active] = {name: threads.submit(stop, name) for name in processes}
            threads.shutdown(wait=False)

    def settle(self, active: Active) -> None:
        wait(self._ends.get(active, {}).values())

    def finish(self, active: Active) -> None:
        for process, end in self._ends.pop(active, {}).items():
            active.call(process, end.result)


class Restarter:
    """Starts and resumes processes that no fault holds any longer, for all families."""

    def __init__(self, state: FaultState) -> None:
        self._state = state

    def held_by(self, active: Active) -> list[str]:
        """Return the processes that only this fault, which ends now, keeps down or paused."""
        state = self._state
        kill = active.keeps == "down"
        affected = state.down if kill else state.paused
        held_elsewhere = {
            process
            for other in state.others(active)
            if other.keeps == active.keeps
            for process in other.family.held(other)
        }
        held = []
        for process in active.family.held(active):
            if process not in affected:
                active.skip(process, "not down" if kill else "not paused")
            elif process in held_elsewhere:
                active.skip(process, "held by another fault")
            elif process in state.starting:
                active.skip(process, "already starting")
            else:
                held.append(process)
        state.starting.update(held)
        return held

    def bring_back(self, active: Active, held: Sequence[str]) -> set[str]:
        """Start or resume ``held`` and return those that are up. May be called without the lock,
        since they count as down until :meth:`are_back`."""
        processes = self._state.env[PROCESSES]
        action = processes.resume if active.keeps == "paused" else processes.start
        return self._state.each(active, held, action)

    def are_back(self, active: Active, held: Sequence[str], up: set[str]) -> None:
        """Record that the processes in ``up`` are back, and that no ``held`` one is starting."""
        state = self._state
        (state.paused if active.keeps == "paused" else state.down).difference_update(up)
        state.starting.difference_update(held)

    def heal(self, active: Active) -> None:
        """Resume and start the processes that an earlier attempt could not."""
        state = self._state
        if not (state.paused or state.down):
            return
        processes = state.env[PROCESSES]
        for affected, undo in ((state.paused, processes.resume), (state.down, processes.start)):
            affected -= state.each(active, sorted(affected), undo)
