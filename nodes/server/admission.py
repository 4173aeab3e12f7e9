"""Bounds on a process's connections: their number and their memory.

At a bound the process closes a connection and never stops itself. Of too many connections it closes
the least useful one; of too many bytes or unanswered requests, the one that holds most. So neither
idle nor greedy clients block the others, and the disk always gets a descriptor
(docs/decisions/0030-frames-that-kill.md).
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

LEAST_CONNECTIONS: Final = 8
MOST_CONNECTIONS: Final = 4096
MOST_BYTES: Final = 256 << 20
"""Bytes that all connections together may hold."""


class Held(Protocol):
    """The state of one connection."""

    @property
    def host(self) -> str:
        """The address of the client."""
        ...

    @property
    def listener_name(self) -> str: ...

    @property
    def has_asked(self) -> bool:
        """Whether a whole request has ever arrived."""
        ...

    @property
    def idle_since(self) -> float:
        """The time of the last activity, infinity while requests are unanswered."""
        ...

    @property
    def bytes_held(self) -> int:
        """Bytes of unfinished requests and unsent answers, and the weight of unanswered ones."""
        ...

    def close(self, reason: str | None = None) -> None: ...


def most_connections(listeners: int) -> int:
    """Return how many connections each of ``listeners`` may have.

    Half of the descriptors that the process may open are for clients. The others are for the disk,
    for connections to other nodes (:func:`most_calls`), and for those that the kernel accepts at
    once before any of them can be closed (:func:`backlog`). The limit may change at run time.
    """
    share = _descriptors() // 2 // max(1, listeners)
    return min(max(share, LEAST_CONNECTIONS), MOST_CONNECTIONS)


def most_calls() -> int:
    """Return how many connections to other nodes may be open for forwarded requests."""
    return max(_descriptors() // 8, LEAST_CONNECTIONS)


def backlog(listeners: int) -> int:
    """Return how many connections to accept at once; twice as many can be open in excess."""
    return min(max(_descriptors() // 16 // max(1, listeners), 1), 128)


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS * 4 if soft == resource.RLIM_INFINITY else soft


class Admission:
    """The connections of a process with ``listeners`` listeners."""

    def __init__(self, listeners: int = 1) -> None:
        self._listeners = listeners
        self._held: dict[Held, int] = {}
        """How many bytes each connection held at its last update."""
        self._total = 0

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held))

    def admit(self, newcomer: Held) -> None:
        """Accept a connection; close another one if there are too many.

        One address may have three quarters of a listener's connections.
        """
        limit = most_connections(self._listeners)
        others = [each for each in self._held if each.listener_name == newcomer.listener_name]
        of_address = [each for each in others if each.host == newcomer.host]
        if len(of_address) >= limit * 3 // 4:
            self._evict(of_address, f"{newcomer.host} has too many connections")
        elif len(others) >= limit:
            self._evict(others, "there are too many connections")
        self._held[newcomer] = 0

    def leave(self, connection: Held) -> None:
        """Forget a closed connection."""
        self._total -= self._held.pop(connection, 0)

    def note(self, connection: Held) -> None:
        """Update the bytes that ``connection`` holds."""
        known = self._held.get(connection)
        if known is not None:
            held = self._held[connection] = connection.bytes_held
            self._total += held - known
            if self._total > MOST_BYTES:
                self._relieve()

    def _relieve(self) -> None:
        """Close the connections that hold most, unless enough was sent meanwhile."""
        for each in self._held:
            self._held[each] = each.bytes_held
        self._total = sum(self._held.values())
        while self._total > MOST_BYTES:
            greediest = max(self._held, key=self._held.__getitem__)
            self.leave(greediest)
            greediest.close("too many bytes or requests are pending, most of them for this client")

    def _evict(self, connections: Iterable[Held], reason: str) -> None:
        """Close a connection: one that never sent a request, or else the longest idle."""
        least = min(connections, key=lambda each: (each.has_asked, each.idle_since))
        self.leave(least)
        least.close(reason)
