"""Work on the disk that may take long, in a thread of its own: one piece after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs ``work`` outside of the loop, then ``done`` on it with the result.

    Work begins in the order of the calls, each after the one before has ended. If it raises,
    ``done`` is not called.
    """

    def __call__(self, work: Callable[[], T], done: Callable[[T], None]) -> None: ...


def at_once(work: Callable[[], T], done: Callable[[T], None]) -> None:
    """Do everything here and now, as an :class:`Elsewhere` that blocks."""
    done(work())


class DiskWorker:
    """One thread beside the loop; ``failed`` gets what a piece of work raised, on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[BaseException], None],
        thread: Executor,
    ) -> None:
        self._loop = loop
        self._failed = failed
        self._thread = thread
        self._closed = self._has_failed = False

    def run(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """See :class:`Elsewhere`; after :meth:`close` nothing is done."""
        if self._closed:
            return
        future = self._thread.submit(work)
        future.add_done_callback(partial(self._back, done))

    def close(self) -> bool:
        """Wait for the work that has begun, drop the rest; nobody hears of either.

        Return whether no work has failed.
        """
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        return not self._has_failed

    def _back(self, done: Callable[[T], None], future: Future[T]) -> None:
        if not future.cancelled() and future.exception() is not None:
            self._has_failed = True
        if not self._closed:
            self._loop.call_soon_threadsafe(self._finish, done, future)

    def _finish(self, done: Callable[[T], None], future: Future[T]) -> None:
        if self._closed or future.cancelled():
            return
        error = future.exception()
        if error is None:
            done(future.result())
        else:
            self._failed(error)
