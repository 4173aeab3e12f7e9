"""Ctrl-C and SIGTERM: the first ends the test early, the second tears down at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupted(BaseException):
    """The user asked twice, or before there was anything to end early."""


class Interrupts:
    """While entered, turns SIGINT and SIGTERM into an early end.

    In a ``gentle`` stretch the first signal only sets :attr:`asked`; elsewhere, and on the
    second signal, :class:`Interrupted` is raised in the main thread. Outside the main
    thread signals are left alone.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.gentle = False
        self.deaf = False
        """Set while tearing down: nothing may stop that."""
        self._count = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    @property
    def count(self) -> int:
        """How many signals came."""
        return self._count

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        self.asked.set()
        if not self.deaf and (self._count > 1 or not self.gentle):
            raise Interrupted
