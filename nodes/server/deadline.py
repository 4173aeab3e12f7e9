"""A deadline that moves with every request, and the one timer of an event loop behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls ``passed`` when a deadline passes that was not cleared.

    Requests are answered long before their deadlines. So setting and clearing one leaves the timer
    alone: when it ends early, it is started again for the time that is left.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, passed: Callable[[], None]) -> None:
        self._loop = loop
        self._passed = passed
        self._timer: asyncio.TimerHandle | None = None
        self._at: float | None = None

    def set(self, seconds: float) -> None:
        """Let the deadline be ``seconds`` from now, in place of the one before."""
        self._at = self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._at, self._look)

    def clear(self) -> None:
        """Drop the deadline."""
        self._at = None

    def close(self) -> None:
        """Drop the deadline, and leave no timer behind."""
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._loop.time() < self._at:
            self._timer = self._loop.call_at(self._at, self._look)
            return
        self._at = None
        self._passed()
