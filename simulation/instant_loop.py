"""An asyncio loop in virtual time: real sockets and files, but no waiting.

When nothing is ready, its clock jumps to the next timer. All ends of all sockets belong to the one
loop, so what was sent and not received is always ready.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVarTuple

Ts = TypeVarTuple("Ts")

LOOK_S: Final = 5e-6
"""Each look at the clock takes so long: code that works for a bounded time comes to its end."""
MOST_TURNS: Final = 50_000
"""Turns of the loop within one second, beyond which something spins."""


class StuckError(Exception):
    """The loop can never continue, or spins without the passing of time."""


class _Selector(selectors.EpollSelector):
    """Waits in virtual time: ``wait`` gets the seconds until the next timer."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        self._wait(0 if ready else timeout)
        return ready


class InstantLoop(asyncio.SelectorEventLoop):
    """The loop, whose clock begins at ``start_s`` seconds."""

    def __init__(self, start_s: float) -> None:
        self._now = start_s
        self._second = -1
        self._turns = 0
        self.signals: dict[asyncio.Task[Any] | None, Callable[[], object]] = {}
        """The handler of signals of each process, by the task of the process."""
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        self._now += LOOK_S
        return self._now

    def micros(self) -> int:
        """Return the virtual time in microseconds."""
        return round(self._now * 1e6)

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Note what a signal to the process of the running task does; the last one counts."""
        self.signals[asyncio.current_task()] = partial(callback, *args)

    def _pass(self, timeout: float | None) -> None:
        """Let time pass. Raises StuckError."""
        if timeout is None:
            raise StuckError("nothing is left to wait for")
        self._now += max(0.0, timeout)
        second = int(self._now)
        self._turns = self._turns + 1 if second == self._second else 0
        self._second = second
        if self._turns > MOST_TURNS:
            raise StuckError(f"something spins at {self._now:.3f} s")
