"""The network between nodes: latency by key, order per link, cuts, late retransmissions.

Hosts are numbered: nodes by their ids from 1, clients below 0. A receiver drops the messages of
senders in its grudges, so a cut may be one-way. Clients are never cut off: they run on the
control host. :mod:`simulation.disturbed` has the effects of faults of the family ``network``; an
undisturbed network does not use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.knobs import WorldKnobs

_NUMBERS = 8
"""Random numbers taken from one hash."""


@dataclass(slots=True, eq=False)
class Rpc:
    """A request between nodes on its way, being handled, or answered; or a one-way message.

    The lives are those of both ends when it was sent: a process that started later has no part
    in the connection. ``named`` is the sender's id of its destination.
    """

    source: int
    source_life: int
    destination: int
    destination_life: int
    named: int
    correlation: int
    message: Any
    sent: int
    key: int = 0
    """The sender's key of it while it waits: see ``Wires``."""
    answer: Any = None
    arrived: int = 0
    """When the destination got it; long after ``sent`` if a cut had delayed it."""


@dataclass(slots=True, eq=False)
class _Link:
    """One direction between two hosts: the number of messages, the last arrival, and random
    numbers for the next messages."""

    count: int = 0
    last: int = 0
    numbers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """Connectivity and latencies between hosts. Times are microseconds of virtual time."""

    seed: int
    knobs: WorldKnobs
    dropped: dict[int, int] = field(default_factory=dict)
    """Messages dropped on arrival, by receiver, since the last heal."""
    held: list[tuple[str, Rpc]] = field(default_factory=list)
    """(event kind, message) waiting for a heal, in the order in which they met the cut."""
    _grudges: dict[int, frozenset[int]] = field(default_factory=dict)
    _links: dict[tuple[int, int], _Link] = field(default_factory=dict)

    _least: int = 0
    _quick: int = 0
    _slow: int = 0

    def __post_init__(self) -> None:
        span = self.knobs.latency_max - self.knobs.latency_min
        self._least = self.knobs.latency_min
        self._quick, self._slow = (span >> 3) + 1, span + 1

    def cut(self, grudges: Mapping[int, Set[int]]) -> None:
        """Add ``grudges``: receiver → the senders it drops from now on."""
        for receiver in sorted(grudges):
            old = self._grudges.get(receiver, frozenset())
            self._grudges[receiver] = old | frozenset(grudges[receiver])

    def heal(self) -> list[tuple[str, Rpc]]:
        """Forget all grudges; return the held messages, which must be delivered late."""
        self._grudges.clear()
        self.dropped.clear()
        held, self.held = self.held, []
        return held

    def hears(self, receiver: int, sender: int) -> bool:
        """Whether a message from ``sender`` reaches ``receiver`` now."""
        if not self._grudges:
            return True
        grudge = self._grudges.get(receiver)
        return grudge is None or sender not in grudge

    def connected(self, one: int, other: int) -> bool:
        """Whether a connection between the two can be made now."""
        return self.hears(one, other) and self.hears(other, one)

    def arrival(
        self, now: int, source: int, destination: int, extra: int = 0, *, ordered: bool = True
    ) -> int:
        """Return when a message sent at ``now`` arrives; it takes ``extra`` longer than usual.

        An ``ordered`` message never arrives before an earlier ordered one.
        """
        link = self._links.get((source, destination))
        if link is None:
            link = self._links[source, destination] = _Link()
        numbers = link.numbers
        if not numbers:
            self._draw(link, source, destination)
        link.count += 1
        number = numbers.pop()
        # Most messages are quick; one in eight takes any time up to the maximum.
        most = self._slow if number & 7 == 0 else self._quick
        at = now + extra + self._least + (number >> 3) % most
        if ordered:
            if at <= link.last:
                at = link.last + 1
            link.last = at
        return at

    def sent(self, source: int, destination: int) -> int:
        """Return how many messages have been sent on a link."""
        link = self._links.get((source, destination))
        return 0 if link is None else link.count

    def _draw(self, link: _Link, source: int, destination: int) -> None:
        """Draw the numbers of the next messages of a link, all of them from one hash."""
        text = f"{self.seed}\x1fnet\x1f{source}\x1f{destination}\x1f{link.count}"
        digest = hashlib.blake2b(text.encode(), digest_size=8 * _NUMBERS).digest()
        link.numbers.extend(
            int.from_bytes(digest[at : at + 8], "big") for at in range(0, 8 * _NUMBERS, 8)
        )

    def reset_link(self, one: int, other: int) -> None:
        """Forget the order between two hosts: their connection is gone."""
        for pair in ((one, other), (other, one)):
            if pair in self._links:
                self._links[pair].last = 0

    def lose(self, kind: str, rpc: Rpc, receiver: int) -> None:
        """Hold a message that met a cut, for a retransmission after the heal, or lose it."""
        count = self.dropped.get(receiver, 0)
        self.dropped[receiver] = count + 1
        number = draw(self.seed, "cut", rpc.source, rpc.destination, rpc.correlation, kind)
        if number % 100 < self.knobs.retransmit:
            self.held.append((kind, rpc))

    def late(self, now: int, kind: str, rpc: Rpc) -> int:
        """Return when a held message arrives after a heal at ``now``."""
        number = draw(self.seed, "late", rpc.source, rpc.destination, rpc.correlation, kind)
        return now + self.knobs.latency_min + number % (self.knobs.retransmit_max + 1)
