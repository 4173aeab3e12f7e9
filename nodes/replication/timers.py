"""Times at which partitions are to be looked at, each for one purpose."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Protocol

from kraftwreck.nodes.replication.headers import PartitionKey

NEVER: Final = 1 << 62


class Timed(Protocol):
    """The state of a partition that a time belongs to; ``timer`` is its next look, µs."""

    timer: int


@dataclass(slots=True)
class Timers:
    """When which partitions are to be looked at."""

    _heap: list[tuple[int, PartitionKey]] = field(default_factory=list)

    @property
    def deadline(self) -> int:
        """The time of the next look, NEVER if there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def add(self, key: PartitionKey, timed: Timed, due: int) -> None:
        """Look at a partition at ``due``, unless it will be looked at before."""
        if due < timed.timer:
            timed.timer = due
            heappush(self._heap, (due, key))

    def take(self, now: int) -> list[PartitionKey]:
        """Return the partitions to look at now."""
        found = []
        while self.deadline <= now:
            found.append(heappop(self._heap)[1])
        return found
