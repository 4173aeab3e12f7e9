"""Virtual time: one heap of events in one total order, and the digest of all of them.

Events are ordered by (time, class, sequence); time is integer microseconds from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

FAULT, DISK, NET, TIMER, CLIENT = range(5)
"""Classes of events: at one instant they happen in this order."""

_DIGEST_CHUNK = 512

Handler = Callable[[Any, Any, Any], None]


class WorldError(Exception):
    """The world was asked for something that does not exist: a bug in the simulation."""


_running: list[Timeline] = []


def running() -> Timeline | None:
    """Return the timeline whose events are being processed; None outside of a run."""
    return _running[-1] if _running else None


class Timeline:
    """Future events, and a digest of the past ones.

    ``now`` is the virtual time in microseconds, ``processed`` counts events.
    """

    def __init__(self) -> None:
        self.now = 0
        self.processed = 0
        self._heap: list[tuple[int, int, int, Handler, Any, Any, Any]] = []
        self._sequence = 0
        self._handlers: dict[str, tuple[int, Handler]] = {}
        self._digest = hashlib.blake2b(digest_size=16)
        self._facts: list[str] = []
        self._afterwards: list[Callable[[], None]] = []
        self.register("act", CLIENT, self._act)
        self.register("fault", FAULT, self._act)

    def register(self, kind: str, order: int, handler: Handler) -> None:
        """Register ``handler`` for events of ``kind``, which belong to class ``order``."""
        if kind in self._handlers:
            raise WorldError(f"event kind {kind!r} is registered twice")
        self._handlers[kind] = (order, handler)

    def schedule(self, time: int, kind: str, a: Any = None, b: Any = None, c: Any = None) -> None:
        """Schedule an event of ``kind`` at ``time``; raises for an unknown kind."""
        try:
            order, handler = self._handlers[kind]
        except KeyError:
            raise WorldError(f"unknown event kind {kind!r} at {time}") from None
        if time < self.now:
            raise WorldError(f"{kind} at {time} would be in the past, it is {self.now}")
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (time, order, sequence, handler, a, b, c))

    def at(self, time: int, action: Callable[[], None], fact: str, *, fault: bool = False) -> None:
        """Run ``action`` at ``time``; ``fact`` stands for it in the digest."""
        self.schedule(max(time, self.now), "fault" if fault else "act", action, fact)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Run ``action`` after the present event and outside of any node's step.

        So its exceptions are the simulator's own, and never those of a node.
        """
        self._afterwards.append(action)

    def _run_afterwards(self) -> None:
        while self._afterwards:
            self._afterwards.pop(0)()

    def _act(self, action: Callable[[], None], fact: str, _: Any) -> None:
        self.fact(f"act {fact}")
        action()

    def run(self, until: int, stop: Callable[[], bool] | None = None) -> None:
        """Process all events up to ``until``, or until ``stop`` returns True."""
        _running.append(self)
        try:
            self._process(until, stop)
        finally:
            _running.pop()

    def _process(self, until: int, stop: Callable[[], bool] | None) -> None:
        heap = self._heap
        self._run_afterwards()
        while heap and heap[0][0] <= until:
            self.now, _, _, handler, a, b, c = heappop(heap)
            self.processed += 1
            handler(a, b, c)
            if self._afterwards:
                self._run_afterwards()
            if stop is not None and stop():
                return
        self.now = max(self.now, until)

    def fact(self, text: str) -> None:
        """Feed ``text`` to the digest, with the time."""
        facts = self._facts
        facts.append(f"{self.now} {text}")
        if len(facts) >= _DIGEST_CHUNK:
            facts.append("")
            self._digest.update("\n".join(facts).encode())
            facts.clear()

    @property
    def digest(self) -> str:
        """Hex text that identifies all events so far."""
        whole = self._digest.copy()
        whole.update("\n".join(self._facts).encode())
        return whole.hexdigest()
