"""The nemesis thread: carries out a schedule in real time and records what happened.

A fault with a trigger is armed at its time. It starts when a node's live trace shows the awaited
transition, or shortly afterwards if its draw says so (:mod:`harness.triggers`).
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Protocol

from kraftwreck.harness.governor import ARM, FALL_BACK, LOOK, START, STOP, Counts, Governor
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.triggers import Armed, aim, delay_us
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.store import JsonLines, StoreError
from kraftwreck.histories.trace import TraceEvent

NEVER: Final = 1 << 62
UNDOING: Final = 8
"""How many faults may be ending at the same time."""


class FaultInjector(Protocol):
    """Carries out faults; ``nemesis.inject.Injector`` is one."""

    @property
    def active(self) -> list[str]: ...

    @property
    def out(self) -> Collection[str]: ...

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...

    def troubles(self, event: FaultEvent) -> Sequence[Trouble]:
        """Return the troubles in the ``error`` of this event; called once, right after it."""
        ...


@dataclass(slots=True)
class _Shot:
    """A transition that a fault waited for: when (ns of the test) it happened and was seen."""

    event: TraceEvent
    happened: int
    seen: int
    delay: int

    def tell(self, struck: FaultEvent) -> None:
        """Add the transition and the delay to the recorded event of the fault."""
        event = self.event
        struck.evidence["trigger"] = {
            "transition": [event.node, event.incarnation, event.seq],
            "kind": event.kind,
            "epoch": event.epoch,
            "at": self.happened,
            "seen_after_us": (self.seen - self.happened) // 1000,
            "delay_us": self.delay // 1000,
            "begun_after_us": (struck.time - self.happened) // 1000,
            "done_after_us": (struck.done - self.happened) // 1000,
        }


class FaultThread:
    """Fires ``schedule`` by ``clock`` (ns since the start of the test) until stopped.

    ``nodes`` are the names of all nodes, in order of node id. ``counts`` returns the progress of
    the clients, for the governor of storms.
    """

    def __init__(
        self,
        schedule: Sequence[Fault],
        injector: FaultInjector,
        lines: JsonLines,
        clock: Callable[[], int],
        nodes: Sequence[str] = (),
        counts: Callable[[], Counts] = lambda: Counts(0, 0),
    ) -> None:
        self.injector = injector
        self._lines = lines
        self._clock = clock
        self._schedule = list(schedule)
        self._nodes = tuple(nodes)
        self._changed = threading.Condition()
        self._stopped = False
        self._moments: list[tuple[int, int, int]] = []
        self._armed: list[Armed] = []
        self._shots: dict[int, _Shot] = {}
        self._thread = threading.Thread(target=self._work, name="nemesis", daemon=True)
        self._undoing = ThreadPoolExecutor(UNDOING, thread_name_prefix="nemesis")
        self._pending: set[Future[None]] = set()
        self._recording = threading.Lock()
        self.errors: list[Trouble] = []
        """Failed injections and failed healing."""
        self.failure: Exception | None = None
        """Set when faults can no longer be recorded; the run must end."""
        self._counts = counts
        self._in_force: set[int] = set()
        self._governor = Governor(self._schedule, self._nodes, lambda: injector.out)
        for number, fault in enumerate(schedule):
            if fault.storm is None:
                self._plan(fault.at, START if fault.trigger is None else ARM, number)
        if self._governor.governs:
            self._plan(0, LOOK, 0)

    @property
    def needs_traces(self) -> bool:
        """Whether a fault starts only if :meth:`see` is called; those of storms fall back."""
        return any(fault.trigger is not None and fault.storm is None for fault in self._schedule)

    @property
    def waiting(self) -> int:
        """The number of armed faults that wait for their transitions."""
        return len(self._armed) + self._governor.armed

    def start(self) -> None:
        """Start firing."""
        self._thread.start()

    def see(self, event: TraceEvent, happened: int) -> None:
        """Process a transition that was traced at ``happened`` (ns of the test).

        It may be called from any thread, and is cheap when no fault is armed and no storm is left.
        """
        with self._changed:
            if self._stopped:
                return
            if self._governor.governs:
                governed = self._governor.see(event)
                if governed is not None:
                    self._fire(governed, event, happened)
            for armed in [armed for armed in self._armed if armed.sees(event)]:
                self._armed.remove(armed)
                self._fire(armed, event, happened)

    def _fire(self, armed: Armed, event: TraceEvent, happened: int) -> None:
        fault = aim(armed.fault, event, self._nodes)
        delay = delay_us(fault) * 1000
        self._schedule[armed.number] = fault
        self._shots[armed.number] = _Shot(event, happened, self._clock(), delay)
        self._plan(happened + delay, START, armed.number)
        self._changed.notify()

    def heal(self, wait_s: float = 30.0) -> None:
        """Stop firing, wait for pending operations, and undo every fault.

        Errors are recorded, never raised. The faults are undone even if they cannot be recorded.
        """
        with self._changed:
            self._stopped = True
            self._armed.clear()
            self._changed.notify()
        deadline = time.monotonic() + wait_s
        if self._thread.is_alive():
            self._thread.join(wait_s)
        wait(self._pending, max(0.0, deadline - time.monotonic()))
        self._undoing.shutdown(wait=False, cancel_futures=True)
        for event in self.injector.heal_all():
            self._record(event)

    def _plan(self, at: int, what: int, number: int) -> None:
        heapq.heappush(self._moments, (at, what, number))

    def _next(self) -> tuple[int, int] | None:
        """Wait for the next due moment; return None if there will be none."""
        with self._changed:
            while not self._stopped:
                at = self._moments[0][0] if self._moments else NEVER
                left = at - self._clock()
                if left <= 0:
                    _, what, number = heapq.heappop(self._moments)
                    return what, number
                if at == NEVER and not self._armed:
                    return None
                self._changed.wait(None if at == NEVER else left / 1e9)
            return None

    def _work(self) -> None:
        while (due := self._next()) is not None:
            what, number = due
            if what == ARM:
                self._arm(number)
            elif what == LOOK:
                self._look()
            elif what == START or (what == FALL_BACK and self._fell_back(number)):
                self._record(self._begin(number))
            elif what == STOP:
                # A node may take seconds to start; transitions must not wait for it.
                self._pending.add(self._undoing.submit(self._end, number))

    def _arm(self, number: int) -> None:
        fault = self._schedule[number]
        with self._changed:
            if fault.storm is None:
                self._armed.append(Armed(number, fault))
            else:
                self._governor.arm(number)

    def _look(self) -> None:
        counts = self._counts()
        with self._changed:
            busy = bool(self._in_force)
            for moment in self._governor.look(self._clock(), counts, busy=busy):
                self._plan(*moment)

    def _fell_back(self, number: int) -> bool:
        """Return whether a fault still has to start, without its transition."""
        with self._changed:
            fault = self._governor.fall_back(number)
            if fault is not None:
                self._schedule[number] = fault
            return fault is not None

    def _end(self, number: int) -> None:
        self._record(self.injector.stop(number))
        with self._changed:
            self._in_force.discard(number)

    def _begin(self, number: int) -> FaultEvent:
        fault = self._schedule[number]
        with self._changed:
            self._in_force.add(number)
        event = self.injector.start(number, fault)
        shot = self._shots.pop(number, None)
        if fault.trigger is not None:
            event.detail["trigger"] = fault.trigger
        if shot is not None:
            shot.tell(event)
        with self._changed:
            event.detail |= self._governor.detail_of(fault)
            # The duration counts from when the fault took effect.
            self._plan(self._governor.end(fault, event.done), STOP, number)
        return event

    def _record(self, event: FaultEvent) -> None:
        with self._recording:
            if event.error is not None:
                text = f"{event.kind} {event.phase}: {event.error}"
                self.errors.append(Trouble.together(self.injector.troubles(event), text))
            try:
                self._lines.write(event)
            except StoreError as error:
                self.failure = self.failure or error
