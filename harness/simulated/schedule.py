"""Starts and stops the faults of a schedule in virtual time, by time and by trigger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from harness.environment import Environment
from harness.triggers import Armed, aim, delay_us
from histories.fault import Fault, FaultEvent
from histories.trace import TraceEvent
from simulation.host import Host
from simulation.world import World


class SimInjector(Protocol):
    """What carries out faults; ``nemesis.inject.Injector`` is one."""

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...


InjectorFactory = Callable[[Environment, Callable[[], int]], SimInjector]
"""Makes the injector for an environment and a clock (ns since the start of the test)."""


class PlannedFaults:
    """Fires ``schedule`` through ``injector``; nothing starts or goes on after ``until`` (µs)."""

    def __init__(
        self,
        world: World,
        env: Environment,
        injector: SimInjector,
        schedule: Sequence[Fault],
        until: int,
    ) -> None:
        self.events: list[FaultEvent] = []
        self._world = world
        self._nodes = tuple(env.nodes)
        self._injector = injector
        self._until = until
        self._in_force: set[int] = set()
        self._armed: dict[str, list[Armed]] = {}  # By the kind of trace event waited for.
        for number, fault in enumerate(schedule):
            at = fault.at // 1000
            if at >= until:
                continue
            fact = f"fault {number}"
            if fault.trigger is None:
                world.at(at, partial(self._start, number, fault), fact, fault=True)
            else:
                waiting = Armed(number, fault)
                world.at(at, partial(self._arm, waiting), fact, fault=True)
        world.on_trace.append(self._watch)

    def _arm(self, waiting: Armed) -> None:
        self._armed.setdefault(waiting.kind, []).append(waiting)

    def _watch(self, host: Host, event: TraceEvent) -> None:
        waiting = self._armed.get(event.kind)
        if not waiting:
            return
        fired = [armed for armed in waiting if armed.sees(event)]
        for armed in fired:
            waiting.remove(armed)
            fault = aim(armed.fault, event, self._nodes)
            self._world.at(
                self._world.now + delay_us(fault),
                partial(self._start, armed.number, fault),
                f"fault {armed.number} {armed.fault.trigger}",
                fault=True,
            )

    def _start(self, number: int, fault: Fault) -> None:
        if self._world.now >= self._until:
            return
        event = self._injector.start(number, fault)
        if fault.trigger is not None:
            event.detail["trigger"] = fault.trigger
        self.events.append(event)
        self._in_force.add(number)
        end = min(self._world.now + fault.duration // 1000, self._until)
        self._world.at(end, lambda: self._stop(number), f"fault {number} over", fault=True)

    def _stop(self, number: int) -> None:
        if number in self._in_force:
            self._in_force.remove(number)
            self.events.append(self._injector.stop(number))

    def heal(self) -> None:
        """End everything; no fault starts any more."""
        self._armed.clear()
        self._in_force.clear()
        self.events.extend(self._injector.heal_all())
