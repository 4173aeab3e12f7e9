"""Starts and stops the faults of a schedule in virtual time: by time, by trigger, in storms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

from kraftwreck.harness.environment import Environment
from kraftwreck.harness.governor import ARM, FALL_BACK, LOOK, START, Counts, Governor, Moment
from kraftwreck.harness.triggers import Armed, aim, delay_us
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World


class SimInjector(Protocol):
    """Carries out faults; ``nemesis.inject.Injector`` is one."""

    @property
    def out(self) -> Collection[str]: ...

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...


InjectorFactory = Callable[[Environment, Callable[[], int]], SimInjector]
"""Makes the injector for an environment and a clock (ns since the start of the test)."""


class PlannedFaults:
    """Fires ``schedule`` through ``injector``; no fault starts or continues after ``until`` (µs).

    ``counts`` returns the progress of the clients.
    """

    def __init__(
        self,
        world: World,
        env: Environment,
        injector: SimInjector,
        schedule: Sequence[Fault],
        until: int,
        counts: Callable[[], Counts],
    ) -> None:
        self.events: list[FaultEvent] = []
        self._world = world
        self._nodes = tuple(env.nodes)
        self._injector = injector
        self._schedule = schedule
        self._until = until
        self._counts = counts
        self._in_force: set[int] = set()
        self._armed: dict[str, list[Armed]] = {}  # by the kind of the awaited trace event
        for number, fault in enumerate(schedule):
            at = fault.at // 1000
            if at >= until or fault.storm is not None:
                continue
            fact = f"fault {number}"
            if fault.trigger is None:
                world.at(at, partial(self._start, number, fault), fact, fault=True)
            else:
                waiting = Armed(number, fault)
                world.at(at, partial(self._arm, waiting), fact, fault=True)
        world.on_trace.append(self._watch)
        self._governor = Governor(schedule, self._nodes, lambda: injector.out)
        if self._governor.governs:
            world.on_trace.append(self._watch_governed)
            self._plan([(0, LOOK, 0)])

    def _arm(self, waiting: Armed) -> None:
        self._armed.setdefault(waiting.kind, []).append(waiting)

    def _watch(self, host: Host, event: TraceEvent) -> None:
        waiting = self._armed.get(event.kind)
        if not waiting:
            return
        fired = [armed for armed in waiting if armed.sees(event)]
        for armed in fired:
            waiting.remove(armed)
            self._fire(armed, event)

    def _fire(self, armed: Armed, event: TraceEvent) -> None:
        fault = aim(armed.fault, event, self._nodes)
        self._world.at(
            self._world.now + delay_us(fault),
            partial(self._start, armed.number, fault),
            f"fault {armed.number} {armed.fault.trigger}",
            fault=True,
        )

    # --- storms ---------------------------------------------------------------------------

    def _plan(self, moments: Iterable[Moment]) -> None:
        for at, what, number in moments:
            fact = f"storm {what} {number}"
            self._world.at(at // 1000, partial(self._due, what, number), fact, fault=True)

    def _due(self, what: int, number: int) -> None:
        if self._world.now >= self._until:
            return
        if what == LOOK:
            now, busy = self._world.now * 1000, bool(self._in_force)
            self._plan(self._governor.look(now, self._counts(), busy=busy))
        elif what == START:
            self._start(number, self._schedule[number])
        elif what == ARM:
            self._governor.arm(number)
        elif what == FALL_BACK:
            fault = self._governor.fall_back(number)
            if fault is not None:
                self._start(number, fault)

    def _watch_governed(self, host: Host, event: TraceEvent) -> None:
        armed = self._governor.see(event)
        if armed is not None:
            self._fire(armed, event)

    # --- all faults -----------------------------------------------------------------------

    def _start(self, number: int, fault: Fault) -> None:
        if self._world.now >= self._until:
            return
        event = self._injector.start(number, fault)
        if fault.trigger is not None:
            event.detail["trigger"] = fault.trigger
        event.detail |= self._governor.detail_of(fault)
        self.events.append(event)
        self._in_force.add(number)
        end = min(self._governor.end(fault, self._world.now * 1000) // 1000, self._until)
        self._world.at(end, lambda: self._stop(number), f"fault {number} over", fault=True)

    def _stop(self, number: int) -> None:
        if number in self._in_force:
            self._in_force.remove(number)
            self.events.append(self._injector.stop(number))

    def heal(self) -> None:
        """End all faults; no fault starts afterwards."""
        self._armed.clear()
        self._in_force.clear()
        self.events.extend(self._injector.heal_all())
