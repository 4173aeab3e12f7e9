"""Carry out faults on a running cluster, undo them, and record their actual effects.

Faults compose: simultaneous partitions cut the union of their links, and a process stays down as
long as any fault keeps it down. Every error is recorded in the event. Errors are never raised, and
do not prevent the rest from being healed. Families carry out faults
(:mod:`nemesis.families`, and those of systems).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import ClassVar

from kraftwreck.harness.capabilities import Environment
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.nemesis.families.processes import Restarter
from kraftwreck.nemesis.family import Active, Effect, Family, FaultState, Shapes, trouble
from kraftwreck.nemesis.registry import Families, families


class _Rest(Family):
    """Whatever earlier attempts could not undo, as a fault of its own."""

    name = "heal"
    shapes: ClassVar[Shapes] = {}


class Injector:
    """Starts and stops faults on ``env``; ``clock`` returns ns since the start of the test.

    ``known`` are the families (None: those of all systems). It can be called from several threads:
    a node that restarts slowly does not delay other faults. Calls are synchronous, so the simulator
    uses the same object.
    """

    def __init__(
        self, env: Environment, clock: Callable[[], int], known: Families | None = None
    ) -> None:
        self._clock = clock
        self._known = families() if known is None else known
        self._state = FaultState(env)
        self._families: dict[str, Family] = {}
        self._restarter = Restarter(self._state)
        self._troubles: dict[tuple[int, str], list[Trouble]] = {}

    @property
    def active(self) -> list[str]:
        """The faults in force, as ``kind/shape``, oldest first."""
        # Without the lock: a status display must not wait for a slow fault.
        return [f"{a.fault.kind}/{a.fault.shape}" for a in self._state.active.copy().values()]

    @property
    def out(self) -> Collection[str]:
        """The processes that faults keep down or paused."""
        # Copies without the lock, for the same reason.
        return self._state.down.copy() | self._state.paused.copy()

    def _family(self, name: str) -> Family:
        known = self._families.get(name)
        if known is None:
            known = self._families[name] = self._known[name](self._state)
        return known

    def start(self, number: int, fault: Fault) -> FaultEvent:
        """Start ``fault`` with the id ``number``; choose its targets now."""
        with self._state.lock:
            active = Active(fault, self._family(fault.kind), fault.targets)
            self._aim(active)
            # Finding the leader may take long, and changes nothing.
            begun = self._clock()
            self._state.active[number] = active
            if not active.errors:
                self._attempt(active, active.family.start)
            return self._event(number, active, "start", begun)

    def _aim(self, active: Active) -> None:
        """Choose the targets of ``active``, unless its fault names them."""
        try:
            leader = active.detail["leader"] = self._state.env.leader()
            among = active.family.candidates(active)
            if not among:
                role = active.family.shapes[active.fault.shape].role
                active.detail["skipped"] = f"there are no nodes of the role {role}"
            elif not active.targets:
                active.targets = active.family.choose(active, among, leader)
        except Exception as error:
            active.errors.append(trouble(error))

    def stop(self, number: int) -> FaultEvent:
        """End the fault ``number``. Raises KeyError if it is not in force."""
        with self._state.lock:
            begun = self._clock()
            active = self._state.active.pop(number)
            active.errors, active.detail, active.evidence = [], {}, {}
            self._attempt(active, active.family.stop)
            held = self._restarter.held_by(active) if active.keeps else []
        # Without the lock: a process may take seconds to start.
        self._attempt(active, active.family.settle)
        up = self._restarter.bring_back(active, held) if held else set()
        with self._state.lock:
            self._restarter.are_back(active, held, up)
            self._attempt(active, active.family.finish)
            return self._event(number, active, "stop", begun)

    @staticmethod
    def _attempt(active: Active, step: Callable[[Active], None]) -> None:
        try:
            step(active)
        except Exception as error:
            active.errors.append(trouble(error))

    def heal_all(self) -> list[FaultEvent]:
        """End every fault, and retry everything that could not be undone."""
        # Without the lock: a fault may wait for its own operations.
        events = []
        for number in list(self._state.active):
            with contextlib.suppress(KeyError):  # It ended meanwhile.
                events.append(self.stop(number))
        state = self._state
        with state.lock:
            left = [effect for effect in state.effects if effect.remaining() is not None]
            if left or state.down or state.paused:
                events.append(self._heal_rest(left))
            return events

    def _heal_rest(self, left: list[Effect]) -> FaultEvent:
        """Undo what an earlier attempt could not, as a separate event (id -1)."""
        begun = self._clock()
        held = self._state.down | self._state.paused
        for effect in left:
            held |= effect.remaining() or set()
        fault = Fault(at=begun, kind=_Rest.name, shape="rest", duration=0, draw=0)
        active = Active(fault, _Rest(self._state), tuple(sorted(held)))
        for effect in left:
            self._attempt(active, effect.heal)
        self._attempt(active, self._restarter.heal)
        return self._event(-1, active, "stop", begun)

    def _event(self, number: int, active: Active, phase: str, begun: int) -> FaultEvent:
        event = FaultEvent(
            id=number,
            phase="start" if phase == "start" else "stop",
            kind=active.fault.kind,
            shape=active.fault.shape,
            targets=list(active.targets),
            time=begun,
            done=self._clock(),
            detail=active.detail,
            evidence=active.evidence,
            error="; ".join(map(str, active.errors)) or None,
        )
        if active.errors:
            self._troubles[number, event.phase] = active.errors
        return event

    def troubles(self, event: FaultEvent) -> list[Trouble]:
        """Return and forget the troubles behind the ``error`` of an event of this injector."""
        return self._troubles.pop((event.id, event.phase), [])
