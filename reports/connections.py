"""A limited number of connections; a new client replaces the slowest one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Seat:
    """One open connection, and when its client last sent or received data (monotonic seconds).

    While ``working``, the server prepares a response, and the connection keeps its seat.
    """

    connection: socket.socket
    progress: float = field(default_factory=time.monotonic)
    working: bool = False

    def moved(self) -> None:
        """Record that the client sent a request or received a part of a response."""
        self.progress = time.monotonic()


class Seats:
    """At most ``most`` connections; a new one takes the seat of the one that is idle longest.

    So slow and idle clients never block a new one. A new client waits only while the server
    prepares a response on every seat.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[int, Seat] = {}
        self._changed = threading.Condition()
        self.evicted = 0
        """Number of connections that were closed in favour of new ones."""

    def take(self, connection: socket.socket) -> Seat:
        """Return a seat for ``connection``, if necessary one taken from a slow client."""
        seat = Seat(connection)
        with self._changed:
            while len(self._taken) >= self._most:
                waiting = [each for each in self._taken.values() if not each.working]
                if waiting:
                    self._evict(min(waiting, key=lambda each: each.progress))
                else:
                    self._changed.wait()
            self._taken[id(connection)] = seat
        return seat

    def of(self, connection: socket.socket) -> Seat:
        """Return the seat of ``connection``; a dummy one if it was evicted."""
        with self._changed:
            return self._taken.get(id(connection)) or Seat(connection)

    @property
    def open(self) -> list[Seat]:
        """All taken seats."""
        with self._changed:
            return list(self._taken.values())

    def leave(self, connection: socket.socket) -> None:
        """Free the seat of a closed connection."""
        with self._changed:
            self._taken.pop(id(connection), None)
            self._changed.notify_all()

    @contextlib.contextmanager
    def work(self, seat: Seat) -> Iterator[None]:
        """Keep ``seat`` while the server prepares a response."""
        seat.working = True
        try:
            yield
        finally:
            with self._changed:
                seat.working = False
                seat.moved()
                self._changed.notify_all()

    def _evict(self, seat: Seat) -> None:
        # Shut down instead of close: the thread that serves it still owns the descriptor.
        self._taken.pop(id(seat.connection), None)
        self.evicted += 1
        with contextlib.suppress(OSError):
            seat.connection.shutdown(socket.SHUT_RDWR)
