"""Requests that wait for progress of partitions, or for their time-out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Protocol

from kraftwreck.nodes.replication.headers import PartitionKey

NEVER = 1 << 62


class Parked(Protocol):
    """A request that cannot be answered yet; ``deadline`` is in µs."""

    deadline: int

    def watched(self) -> tuple[PartitionKey, ...]:
        """Return the partitions whose progress may complete the request."""
        ...

    def attempt(self, *, late: bool) -> bool:
        """Answer the request if that is possible, or because it is ``late``; return whether it
        was answered."""
        ...


class Waiting:
    """All parked requests of a broker, by partition and by deadline."""

    def __init__(self) -> None:
        self._by_key: dict[PartitionKey, dict[int, Parked]] = {}
        self._by_id: dict[int, Parked] = {}
        self._due: list[tuple[int, int]] = []
        self._numbers = 0

    @property
    def deadline(self) -> int:
        """The time at which the next request is late, µs."""
        while self._due and self._due[0][1] not in self._by_id:
            heappop(self._due)
        return self._due[0][0] if self._due else NEVER

    def add(self, parked: Parked) -> None:
        """Keep a request until it is answered."""
        self._numbers += 1
        number = self._numbers
        self._by_id[number] = parked
        heappush(self._due, (parked.deadline, number))
        for key in parked.watched():
            self._by_key.setdefault(key, {})[number] = parked

    def keys(self) -> Iterable[PartitionKey]:
        """Return the partitions that requests wait for."""
        return self._by_key.keys()

    def progressed(self, key: PartitionKey) -> None:
        """Attempt the requests that wait for a partition, oldest first."""
        for number, parked in list(self._by_key.get(key, {}).items()):
            if parked.attempt(late=False):
                self._remove(number, parked)

    def expire(self, now: int) -> None:
        """Answer the requests that are late."""
        for number, parked in self._late(now):
            parked.attempt(late=True)
            self._remove(number, parked)

    def _late(self, now: int) -> Iterator[tuple[int, Parked]]:
        while self.deadline <= now:
            number = self._due[0][1]
            yield number, self._by_id[number]

    def _remove(self, number: int, parked: Parked) -> None:
        del self._by_id[number]
        for key in parked.watched():
            watching = self._by_key[key]
            watching.pop(number, None)
            if not watching:
                del self._by_key[key]
