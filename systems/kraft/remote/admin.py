"""An operator in real time: carries out voter changes on a thread, one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kraftwreck.harness.capabilities import MemberChange
from kraftwreck.harness.client import Answer, Call
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.systems.kraft.faults.voter_changes import Members, Pause, carry_out


class RemoteAdmin:
    """Accepts voter changes, and retries each until it is done or refused.

    ``send`` carries out one request. It is called only from the operator's thread, which runs from
    the first change until :meth:`close`. Safe to share by threads.
    """

    def __init__(self, members: Members, send: Callable[[Call], Answer]) -> None:
        self._members = members
        self._send = send
        self._lock = threading.Condition()
        self._queue: deque[MemberChange] = deque()
        self._busy = False
        self._ended: list[dict[str, Any]] = []
        self._failure: Exception | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def open(self) -> int:
        """The number of changes that are not done yet."""
        with self._lock:
            return len(self._queue) + self._busy

    def ask(self, changes: Sequence[MemberChange]) -> None:
        """Queue ``changes`` after earlier ones.

        Raises :class:`RemoteError` if the operator failed earlier.
        """
        with self._lock:
            self._check()
            self._queue.extend(changes)
            self._lock.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="admin", daemon=True)
                self._thread.start()

    def take_ended(self) -> list[dict[str, Any]]:
        """Return the results of changes since the last call; raise like :meth:`ask`."""
        with self._lock:
            self._check()
            ended, self._ended = self._ended, []
            return ended

    def close(self, wait_s: float = 10.0) -> None:
        """Stop, and abandon open changes; returns after at most ``wait_s`` seconds."""
        self._closing.set()
        with self._lock:
            self._lock.notify()
            thread = self._thread
        if thread is not None:
            thread.join(wait_s)

    # --- inside -------------------------------------------------------------------------

    def _check(self) -> None:
        if self._failure is not None:
            why = f"{type(self._failure).__name__}: {self._failure}"
            raise RemoteError("the quorum", f"voters cannot be changed: {why}") from self._failure

    def _work(self) -> None:
        try:
            while (change := self._next()) is not None:
                result = self._carry_out(change)
                if result is None:
                    return
                with self._lock:
                    self._busy = False
                    self._ended.append(result)
        except Exception as error:
            # A failed change must not look like one that takes long.
            with self._lock:
                self._failure = error

    def _next(self) -> MemberChange | None:
        """Wait for a change; return None when closing."""
        with self._lock:
            self._lock.wait_for(lambda: self._queue or self._closing.is_set())
            if self._closing.is_set():
                return None
            self._busy = True
            return self._queue.popleft()

    def _following(self) -> MemberChange | None:
        with self._lock:
            return self._queue[0] if self._queue else None

    def _carry_out(self, change: MemberChange) -> dict[str, Any] | None:
        """Return how ``change`` ended, None if the operator closed first."""
        steps = carry_out(change, self._members, self._following)
        answer: Answer | None = None
        while not self._closing.is_set():
            try:
                step = next(steps) if answer is None else steps.send(answer)
            except StopIteration as stop:
                evidence: dict[str, Any] = stop.value.as_evidence()
                return evidence
            if isinstance(step, Pause):
                answer = None
                self._closing.wait(step.ms / 1000)
            else:
                answer = self._send(step)
        return None
