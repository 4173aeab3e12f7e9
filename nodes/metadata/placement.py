"""The brokers of a new topic's replicas: striped over brokers and racks.

Kafka's striped placement: leaders rotate over the racks. The replicas of one partition rotate over
the racks and, within a rack, over its brokers, unfenced ones first. Random starts keep topics from
all beginning at the same broker. They are drawn by key, so the same request at the same offset is
placed the same way. Brokers in controlled shutdown, or with all directories cordoned, are no
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.protocol.errors import INVALID_REPLICATION_FACTOR

Chooser = Callable[..., int]
"""``choose(bound, *key)``: a number in [0, bound) that depends on the key."""


@dataclass(slots=True, frozen=True)
class Candidate:
    """A broker that may hold replicas."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


class _Ring:
    """Brokers of one rack and one kind, each returned once per stripe.

    It begins one broker further on with each stripe that uses it, and does not move in others. A
    ring that moved with every stripe would always give the same brokers to racks that take turns.
    """

    def __init__(self, brokers: list[int], start: int) -> None:
        self.brokers = brokers
        self.start = start
        self.taken = 0
        self.stripe = 0

    def take(self, stripe: int) -> int | None:
        if stripe != self.stripe:
            self.start += 1
            self.stripe = stripe
            self.taken = 0
        if self.taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.start + self.taken) % len(self.brokers)]
        self.taken += 1
        return broker


class StripedPlacer:
    """Places the partitions of one request, one topic in each call of :meth:`place`.

    The next topic begins at the next rack. In each topic the racks have a leader each before one of
    them has two, so brokers change places only after a round of that topic.
    """

    def __init__(self, candidates: Sequence[Candidate], choose: Chooser) -> None:
        self._choose = choose
        self._total = len(candidates)
        self._unfenced = sum(not c.fenced for c in candidates)
        names = sorted({c.rack or "" for c in candidates})
        self._racks: list[tuple[_Ring, _Ring]] = []
        for name in names:
            rings = []
            for fenced in (False, True):
                ids = sorted(
                    c.broker_id for c in candidates if (c.rack or "") == name and c.fenced == fenced
                )
                start = choose(len(ids), "start", name, fenced) if ids else 0
                rings.append(_Ring(ids, start))
            self._racks.append((rings[0], rings[1]))
        self._rack = choose(len(names), "rack") if names else 0
        self._stripe = 0
        self._shuffles = 0

    def place(self, partitions: int, replication_factor: int) -> list[list[int]]:
        """Return the replicas of each partition, preferred leader first.

        Raises ApiError (INVALID_REPLICATION_FACTOR) when there are too few brokers.
        """
        if replication_factor <= 0:
            raise ApiError(INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
        if replication_factor > self._total:
            raise ApiError(
                INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {replication_factor} cannot be reached "
                f"because only {self._total} broker(s) are registered.",
            )
        if not self._unfenced:
            raise ApiError(INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
        placed = []
        for number in range(partitions):
            if number and self._unfenced > 1 and number % self._unfenced == 0:
                self._shuffle()
            placed.append(self._partition(replication_factor))
        return placed

    def _partition(self, replication_factor: int) -> list[int]:
        count = len(self._racks)
        first_rack, leader = self._leader()
        replicas = [leader]
        rack, skipped = self._rack, False
        while len(replicas) < replication_factor:
            index = rack % count
            rack += 1
            if index == first_rack and not skipped:
                skipped = True
                continue
            unfenced, fenced = self._racks[index]
            broker = unfenced.take(self._stripe)
            if broker is None:
                broker = fenced.take(self._stripe)
            if broker is not None:
                replicas.append(broker)
        self._rack = (self._rack + 1) % count
        self._stripe += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        for step in range(len(self._racks)):
            index = (self._rack + step) % len(self._racks)
            broker = self._racks[index][0].take(self._stripe)
            if broker is not None:
                return index, broker
        raise AssertionError("no unfenced broker although one was counted")

    def _shuffle(self) -> None:
        """Permute racks and rings, so that the same brokers are not always neighbours."""
        self._shuffles += 1
        for number, rings in enumerate(self._racks):
            for fenced, ring in enumerate(rings):
                self._permute(ring.brokers, number, fenced)
        self._permute(self._racks, "racks")

    def _permute(self, items: list[Any], *key: object) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self._choose(last + 1, "shuffle", self._shuffles, *key, last)
            items[last], items[other] = items[other], items[last]
