"""Ctrl-C and SIGTERM: the first ends the test early, the second tears down at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType


class Interrupted(BaseException):
    """The second signal, or one at a time when the test cannot end early."""


@contextmanager
def listening(heard: Callable[[], None]) -> Iterator[None]:
    """Call ``heard`` in the main thread on every SIGINT and SIGTERM; restore the previous handlers
    afterwards. Outside of the main thread, signals are left alone."""
    with ExitStack() as previous:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.signal(number, lambda *_: heard())
                previous.callback(signal.signal, number, handler)
        yield


class Interrupts:
    """While entered, turns SIGINT and SIGTERM into an early end.

    While ``gentle`` is set, the first signal only sets :attr:`asked`. Otherwise, and on the second
    signal, :class:`Interrupted` is raised in the main thread.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.gentle = False
        self.deaf = False
        """Set while tearing down, which ignores signals."""
        self._count = 0
        self._listening = ExitStack()

    def __enter__(self) -> Interrupts:
        self._listening.enter_context(listening(self._heard))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()

    @property
    def count(self) -> int:
        """The number of signals received."""
        return self._count

    def _heard(self) -> None:
        self._count += 1
        self.asked.set()
        if not self.deaf and (self._count > 1 or not self.gentle):
            raise Interrupted
