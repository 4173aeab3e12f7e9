"""The timers of an asyncio loop, on the clock of one simulated host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

NEVER: Final = 1 << 60
"""A deadline without timers, in microseconds."""


class VirtualHandle:
    """A timer that may be cancelled."""

    def __init__(self, due: int, run: Callable[[], object]) -> None:
        self.due = due
        self.run = run
        self.cancelled = False

    def cancel(self) -> None:
        """Take the timer back."""
        self.cancelled = True


class VirtualLoop:
    """Offers ``call_later`` and ``create_future`` only.

    ``mono_us`` is the monotonic clock in microseconds. Nothing runs by itself: its owner calls
    :meth:`run_due`.
    """

    def __init__(self, mono_us: Callable[[], int]) -> None:
        self._mono_us = mono_us
        self._handles: list[VirtualHandle] = []

    @property
    def deadline(self) -> int:
        """The time of the next timer, :data:`NEVER` if there is none."""
        return min(self.times(), default=NEVER)

    def times(self) -> list[int]:
        """Return the times of all timers."""
        self._handles = [each for each in self._handles if not each.cancelled]
        return [each.due for each in self._handles]

    def run_due(self) -> None:
        """Run the timers whose time has come, in order."""
        due = [each for each in self._handles if each.due <= self._mono_us()]
        for each in sorted(due, key=lambda each: each.due):
            if not each.cancelled:
                each.cancelled = True
                each.run()

    def call_later(self, delay: float, callback: Any, *args: Any) -> VirtualHandle:
        """Run ``callback`` after ``delay`` seconds of the host's clock."""
        handle = VirtualHandle(self._mono_us() + round(delay * 1e6), lambda: callback(*args))
        self._handles.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=cast(asyncio.AbstractEventLoop, self))

    def time(self) -> float:
        """Return the clock in seconds."""
        return self._mono_us() / 1e6

    def get_debug(self) -> bool:
        """Return False."""
        return False
