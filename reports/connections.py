"""A bounded number of connections, where slow clients make room for new ones."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Seat:
    """One open connection, and when its client last sent or took something (monotonic seconds).

    While ``working`` the server prepares an answer, and the connection keeps its seat.
    """

    connection: socket.socket
    progress: float = field(default_factory=time.monotonic)
    working: bool = False

    def moved(self) -> None:
        """Note that the client sent a request or took a piece of an answer."""
        self.progress = time.monotonic()


class Seats:
    """At most ``most`` connections; a new one takes the seat of the one that waits longest.

    Slow and idle clients therefore never keep a new client waiting. Only while the server works
    on as many answers as there are seats does a new client wait for one of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[int, Seat] = {}
        self._changed = threading.Condition()
        self.evicted = 0
        """Connections that were closed because their client was slow and others came."""

    def take(self, connection: socket.socket) -> Seat:
        """Return a seat for ``connection``, which may be that of a slow client."""
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
        """Return the seat of ``connection``; one that counts for nothing after an eviction."""
        with self._changed:
            return self._taken.get(id(connection)) or Seat(connection)

    @property
    def open(self) -> list[Seat]:
        """All seats that are taken."""
        with self._changed:
            return list(self._taken.values())

    def leave(self, connection: socket.socket) -> None:
        """Give the seat of a closed connection to others."""
        with self._changed:
            self._taken.pop(id(connection), None)
            self._changed.notify_all()

    @contextlib.contextmanager
    def work(self, seat: Seat) -> Iterator[None]:
        """Keep ``seat`` while the server prepares an answer."""
        seat.working = True
        try:
            yield
        finally:
            with self._changed:
                seat.working = False
                seat.moved()
                self._changed.notify_all()

    def _evict(self, seat: Seat) -> None:
        # Shut down, not closed: the thread that serves it still owns the descriptor.
        self._taken.pop(id(seat.connection), None)
        self.evicted += 1
        with contextlib.suppress(OSError):
            seat.connection.shutdown(socket.SHUT_RDWR)
