"""Spread items over brokers as evenly as possible, and of these ways choose the cheapest.

An item is placed on ``count`` different brokers. Each broker that it does not hold already costs
``weight``. :func:`spread` minimizes, in this order,

1. the sum of the squares of the brokers' loads, where a load is a number of items;
2. the total cost.

The sum of squares is smallest exactly if no unit of load can go from one broker to another that has
at least two units less. Where every item may be on every broker, loads then differ by at most one.

Racks: an item covers as many of its brokers' racks as it can, ``min(count, racks)``.

Why the result is optimal: the sets of brokers that an item may have are the bases of a matroid.
Without racks these are all sets of ``count`` brokers. With racks the number of members beyond the
first of each rack is bounded, which is the elongation of a partition matroid. Choosing one base per
item with convex costs of loads is a valuated matroid intersection. Successive shortest paths solve
it:

* The start gives each item the base that costs least, which a greedy choice finds. No other choice
  with any loads is cheaper, so the exchange graph has no negative cycle.
* An arc from broker x to broker y is the cheapest item that may give up x for y. A path moves one
  unit of load from its first broker to its last; the brokers between keep their loads. Taking the
  cheapest of all paths, and of these one with the fewest arcs, keeps the exchange graph free of
  negative cycles and the sets bases. Fewest arcs matter where an item occurs twice on a path.
* The cost as a function of the units moved is convex. So the first path that does not lower the
  cost is also the proof that none will.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

Racks = Mapping[int, str | None]
"""Broker id → rack; brokers without one share a rack of their own, as in Apache Kafka's placer."""


@dataclass(slots=True, frozen=True)
class Item:
    """Something to place on ``count`` of the brokers ``allowed``.

    ``held`` are the brokers that have it now, those that it would rather keep first; brokers that
    are not allowed are ignored.
    """

    held: tuple[int, ...]
    allowed: tuple[int, ...]
    count: int
    weight: int = 1


def covered(brokers: Sequence[int], racks: Racks) -> int:
    """Return the number of racks that ``brokers`` are in."""
    return len({racks.get(broker) or "" for broker in brokers})


def spread(items: Sequence[Item], brokers: Sequence[int], racks: Racks) -> list[tuple[int, ...]]:
    """Return the brokers of each item: those kept, in the order of ``held``, then the new ones.

    Raises ValueError if an item has fewer allowed brokers than its count.
    """
    return _Spread(items, sorted(brokers), racks).run()


class _Spread:
    def __init__(self, items: Sequence[Item], brokers: list[int], racks: Racks) -> None:
        self._items = items
        self._brokers = brokers
        self._racks = racks
        self._held = [frozenset(item.held) for item in items]
        self._slack = [item.count - self._goal(item) for item in items]
        self._load = dict.fromkeys(brokers, 0)
        self._placed: list[set[int]] = []
        for number in range(len(items)):
            placed = self._start(number)
            self._placed.append(placed)
            for broker in placed:
                self._load[broker] += 1
        # One unit of unevenness outweighs all costs together.
        self._unit: Final = 1 + sum(item.weight * item.count for item in items)
        self._exchanges: dict[int, dict[int, list[int]]] = {
            one: {other: [] for other in brokers if other != one} for one in brokers
        }
        for number in range(len(items)):
            self._offer(number)
        for heaps in self._exchanges.values():
            for heap in heaps.values():
                heapq.heapify(heap)
        self._best: dict[int, dict[int, tuple[int, int]]] = {}

    def _goal(self, item: Item) -> int:
        if item.count > len(item.allowed):
            raise ValueError(f"{item.count} of {len(item.allowed)} brokers were wanted")
        return min(item.count, covered(item.allowed, self._racks))

    def _fits(self, number: int, brokers: Sequence[int]) -> bool:
        """Return whether ``brokers`` are part of a set that the item may have."""
        return len(brokers) - covered(brokers, self._racks) <= self._slack[number]

    def _start(self, number: int) -> set[int]:
        item = self._items[number]
        placed: list[int] = []
        kept = [broker for broker in item.held if broker in item.allowed]
        new = sorted(
            (broker for broker in item.allowed if broker not in self._held[number]),
            key=lambda broker: (self._load[broker], broker),
        )
        for broker in (*kept, *new):
            if len(placed) < item.count and self._fits(number, (*placed, broker)):
                placed.append(broker)
        assert len(placed) == item.count, "a greedy choice ends with a base"
        return set(placed)

    def _cost(self, number: int, old: int, new: int) -> int:
        held = self._held[number]
        return self._items[number].weight * ((new not in held) - (old not in held))

    def _allows(self, number: int, old: int, new: int) -> bool:
        placed = self._placed[number]
        if old not in placed or new in placed:
            return False
        return self._fits(number, [*(broker for broker in placed if broker != old), new])

    def _offer(self, number: int, push: bool = False) -> None:
        """Add the item's exchanges; a stale one stays until it is first in its heap."""
        for old in self._placed[number]:
            for new in self._items[number].allowed:
                if not self._allows(number, old, new):
                    continue
                heap = self._exchanges[old][new]
                entry = self._cost(number, old, new) * len(self._items) + number
                if push:
                    heapq.heappush(heap, entry)
                else:
                    heap.append(entry)

    def _row(self, old: int) -> dict[int, tuple[int, int]]:
        """Return the cheapest exchange from ``old`` to each other broker: cost and item."""
        row: dict[int, tuple[int, int]] = {}
        for new, heap in self._exchanges[old].items():
            while heap:
                cost, number = divmod(heap[0], len(self._items))
                if self._allows(number, old, new):
                    row[new] = cost, number
                    break
                heapq.heappop(heap)
        return row

    def run(self) -> list[tuple[int, ...]]:
        for broker in self._brokers:
            self._best[broker] = self._row(broker)
        while path := self._path():
            self._follow(path)
        return [self._ordered(number) for number in range(len(self._items))]

    def _path(self) -> list[int]:
        """Return the brokers along the cheapest path, none unless it lowers the cost."""
        reach: dict[int, tuple[int, int]] = {}
        before: dict[int, int] = {}
        queue: deque[int] = deque()
        for broker in self._brokers:
            if self._load[broker]:
                reach[broker] = (1 - 2 * self._load[broker]) * self._unit, 0
                queue.append(broker)
        waiting = set(queue)
        while queue:
            broker = queue.popleft()
            waiting.discard(broker)
            cost, arcs = reach[broker]
            for new, (step, _) in self._best[broker].items():
                found = cost + step, arcs + 1
                if new not in reach or found < reach[new]:
                    reach[new] = found
                    before[new] = broker
                    if new not in waiting:
                        waiting.add(new)
                        queue.append(new)
        ends = [
            (cost + (2 * self._load[broker] + 1) * self._unit, arcs, broker)
            for broker, (cost, arcs) in reach.items()
            if arcs
        ]
        if not ends or min(ends)[0] >= 0:
            return []
        path = [min(ends)[2]]
        while reach[path[-1]][1]:
            path.append(before[path[-1]])
        return path[::-1]

    def _follow(self, path: list[int]) -> None:
        touched: set[int] = set()
        rows: set[int] = set()
        for old, new in pairwise(path):
            _, number = self._best[old][new]
            placed = self._placed[number]
            rows |= placed
            placed.remove(old)
            placed.add(new)
            rows.add(new)
            touched.add(number)
        self._load[path[0]] -= 1
        self._load[path[-1]] += 1
        for number in sorted(touched):
            assert self._fits(number, sorted(self._placed[number])), "an exchange keeps bases"
            self._offer(number, push=True)
        for broker in rows:
            self._best[broker] = self._row(broker)

    def _ordered(self, number: int) -> tuple[int, ...]:
        item, placed = self._items[number], self._placed[number]
        kept = [broker for broker in item.held if broker in placed]
        return (*kept, *sorted(placed - set(kept)))
