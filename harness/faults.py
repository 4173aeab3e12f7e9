"""The nemesis thread: carries out a schedule in real time and writes down what happened."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from histories.fault import Fault, FaultEvent
from histories.store import JsonLines, StoreError


class FaultInjector(Protocol):
    """What carries out faults; ``nemesis.inject.Injector`` is one."""

    @property
    def active(self) -> list[str]: ...

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...


class FaultThread:
    """Fires ``schedule`` by ``clock`` (ns since the start of the test) until stopped."""

    def __init__(
        self,
        schedule: Sequence[Fault],
        injector: FaultInjector,
        lines: JsonLines,
        clock: Callable[[], int],
    ) -> None:
        self.injector = injector
        self._lines = lines
        self._clock = clock
        self._schedule = schedule
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nemesis", daemon=True)
        self.errors: list[str] = []
        """What could not be done, one line each."""
        self.failure: Exception | None = None
        """Set when the faults cannot be written down any more; the run must end."""

    def start(self) -> None:
        """Start firing."""
        self._thread.start()

    def heal(self, wait_s: float = 30.0) -> None:
        """Stop firing, wait for what is under way, and undo every fault.

        Errors are recorded, never raised; the faults are undone even if they cannot be
        written down.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        for event in self.injector.heal_all():
            self._record(event)

    def _work(self) -> None:
        moments: list[tuple[int, int, int]] = []
        for number, fault in enumerate(self._schedule):
            heapq.heappush(moments, (fault.at, 1, number))
        started: set[int] = set()
        while moments:
            at, begins, number = heapq.heappop(moments)
            if self._stop.wait(max(0, at - self._clock()) / 1e9):
                return
            if begins:
                event = self.injector.start(number, self._schedule[number])
                started.add(number)
                # The duration counts from when the fault bit, however long that took.
                ends = event.done + self._schedule[number].duration
                heapq.heappush(moments, (ends, 0, number))
            else:
                event = self.injector.stop(number)
            self._record(event)

    def _record(self, event: FaultEvent) -> None:
        if event.error is not None:
            self.errors.append(f"{event.kind} {event.phase}: {event.error}")
        try:
            self._lines.write(event)
        except StoreError as error:
            self.failure = self.failure or error
