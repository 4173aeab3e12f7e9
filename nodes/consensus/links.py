"""Requests to other members: at most one in flight per destination, with back-off.

A response counts only if it carries the correlation id of the request in flight. A state transition
forgets all requests, so a late response is never taken for a new one.
"""

from __future__ import annotations

from typing import Final, Protocol

NEVER: Final = 2**63 - 1
"""The deadline of nothing."""
_MS = 1000


class Waits(Protocol):
    """The settings of timeouts and back-offs, in milliseconds."""

    @property
    def request_timeout_ms(self) -> int:
        """The time after which a request without response counts as failed."""
        ...

    @property
    def retry_backoff_ms(self) -> int:
        """The pause after an unsuccessful response."""
        ...

    @property
    def reconnect_backoff_ms(self) -> int:
        """The pause after the first transport failure; each further one doubles it."""
        ...

    @property
    def reconnect_backoff_max_ms(self) -> int:
        """The longest pause after a transport failure."""
        ...


class Links:
    """The requests in flight and the back-offs, by destination. Times are microseconds."""

    __slots__ = ("_backoff", "_config", "_correlation", "_failures", "_next", "_out")

    def __init__(self, config: Waits) -> None:
        self._config = config
        self._out: dict[int, tuple[int, int]] = {}
        self._backoff: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._correlation = 0
        # The result of next_event(), None while it is not known.
        self._next: int | None = NEVER

    def clear(self) -> None:
        """Forget all requests in flight (state transition)."""
        self._out.clear()
        self._next = None

    def forget(self, destination: int) -> None:
        """Free the slot of ``destination``, whatever request holds it, and end its back-off."""
        self._out.pop(destination, None)
        self._backoff.pop(destination, None)
        self._next = None

    @property
    def idle(self) -> bool:
        """Whether nothing at all is in flight."""
        return not self._out

    def is_ready(self, destination: int, now: int) -> bool:
        """Whether a request may be sent to ``destination`` now."""
        return destination not in self._out and self._backoff.get(destination, 0) <= now

    def open(self, destination: int, now: int) -> int | None:
        """Take the slot of ``destination``; None if it is taken or backing off."""
        if not self.is_ready(destination, now):
            return None
        self._correlation += 1
        deadline = now + self._config.request_timeout_ms * _MS
        self._out[destination] = (self._correlation, deadline)
        if self._next is not None and deadline < self._next:
            self._next = deadline
        return self._correlation

    def close(self, destination: int, correlation: int) -> bool:
        """Free the slot; False if this response is not the one waited for."""
        slot = self._out.get(destination)
        if slot is None or slot[0] != correlation:
            return False
        del self._out[destination]
        self._next = None
        return True

    def succeeded(self, destination: int) -> None:
        """Record a usable response: the back-off ends."""
        self._failures.pop(destination, None)
        if self._backoff.pop(destination, None) is not None:
            self._next = None

    def refused(self, destination: int, now: int) -> None:
        """Record an unsuccessful response: wait for the retry back-off."""
        self._failures.pop(destination, None)
        self._backoff[destination] = now + self._config.retry_backoff_ms * _MS
        self._next = None

    def failed(self, destination: int, now: int) -> None:
        """Record a transport failure: wait for the reconnect back-off, doubled up to its bound."""
        failures = self._failures.get(destination, 0)
        self._failures[destination] = failures + 1
        config = self._config
        wait = min(
            config.reconnect_backoff_ms << min(failures, 10), config.reconnect_backoff_max_ms
        )
        self._backoff[destination] = now + wait * _MS
        self._next = None

    def expire(self, now: int) -> None:
        """Free slots whose response is overdue (a transport failure) and end back-offs."""
        if self.next_event() > now:
            return
        self._next = None
        for destination, (_, deadline) in list(self._out.items()):
            if deadline <= now:
                del self._out[destination]
                self.failed(destination, now)
        for destination, until in list(self._backoff.items()):
            if until <= now:
                del self._backoff[destination]

    def is_open(self, destination: int) -> bool:
        """Whether nothing is in flight to ``destination`` and no back-off runs."""
        return destination not in self._out and destination not in self._backoff

    def next_event(self) -> int:
        """Return when the next slot or back-off expires; it depends on the state, not on now."""
        wake = self._next
        if wake is None:
            wake = NEVER
            for _, deadline in self._out.values():
                if deadline < wake:
                    wake = deadline
            for until in self._backoff.values():
                if until < wake:
                    wake = until
            self._next = wake
        return wake
