"""One strong component of the dependency graph, and shortest walks in it.

Walks count transactions: the moments of the time chain cost nothing, and a walk through them
is one step of real time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import thread_time

import numpy as np

from kraftwreck.checkers.elle.components import strong_components
from kraftwreck.checkers.elle.graph import Graph
from kraftwreck.checkers.elle.transactions import Ints

Step = tuple[int, int, int]
"""From one transaction to another by an edge of one kind."""

PREFERRED = (1, 2, 64, 8, 16, 4, 32)
"""The kind to name where an edge has several: data before order, rw last."""


class OutOfTimeError(Exception):
    """A component is too large to be searched in the time allowed."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of processor time of this thread."""

    end: float

    def spend(self) -> None:
        """Raise :class:`OutOfTimeError` when the time is over."""
        if thread_time() > self.end:
            raise OutOfTimeError


class Component:
    """``out[a][b]`` is the set (bits) of the kinds of edges from a to b."""

    def __init__(self, graph: Graph, edges: Ints, budget: Budget) -> None:
        self.transactions = graph.transactions
        self.budget = budget
        self.source, self.target = graph.source[edges], graph.target[edges]
        self.kind = graph.kind[edges].astype(np.int64)
        self.out: dict[int, dict[int, int]] = {}
        self.into: dict[int, set[int]] = {}
        rows = zip(self.source.tolist(), self.target.tolist(), self.kind.tolist(), strict=True)
        for a, b, kind in rows:
            targets = self.out.setdefault(a, {})
            targets[b] = targets.get(b, 0) | kind
            self.into.setdefault(b, set()).add(a)
        self._local, numbers = np.unique(
            np.concatenate([self.source, self.target]), return_inverse=True
        )
        self._a, self._b = numbers[: len(edges)], numbers[len(edges) :]
        self.events = [v for v in self._local.tolist() if v < self.transactions]

    def kinds(self) -> int:
        """Return the kinds of edges that exist."""
        return int(np.bitwise_or.reduce(self.kind)) if len(self.kind) else 0

    def cyclic(self, mask: int) -> list[set[int]]:
        """Return the strong components left by the edges of ``mask``, the smallest first."""
        keep = (self.kind & mask) != 0
        label = strong_components(len(self._local), self._a[keep], self._b[keep])
        return self._groups(label, len(self._local))

    def cyclic_apart(self, mask: int, rw: int) -> list[set[int]]:
        """As :meth:`cyclic`, with edges of ``rw`` too, but never two of them in a row.

        Each vertex is there twice: reached by an rw edge, or by another.
        """
        size = len(self._local)
        plain, lone = (self.kind & mask) != 0, (self.kind & rw) != 0
        a, b = self._a, self._b
        source = np.concatenate([a[plain], a[plain] + size, a[lone]])
        target = np.concatenate([b[plain], b[plain], b[lone] + size])
        return self._groups(strong_components(2 * size, source, target), size)

    def _groups(self, label: Ints, size: int) -> list[set[int]]:
        times = np.bincount(label)
        some = np.flatnonzero(times[label] > 1)
        groups: dict[int, set[int]] = {}
        for at in some.tolist():
            groups.setdefault(int(label[at]), set()).add(int(self._local[at % size]))
        return sorted(groups.values(), key=lambda group: (len(group), min(group)))

    def edges(self, mask: int) -> Iterator[tuple[int, int]]:
        """Return the edges that have a kind of ``mask``."""
        for a, targets in self.out.items():
            for b, kinds in targets.items():
                if kinds & mask:
                    yield a, b

    def walk(
        self, start: int, goals: Iterable[int], mask: int, rw: int = 0
    ) -> dict[int, list[Step]]:
        """Return a shortest walk from ``start`` to each of ``goals`` that can be reached.

        ``mask`` says by which edges. Those of ``rw`` may be taken too, but not first, nor
        last, nor after each other.
        """
        apart = rw != 0
        self.budget.spend()
        wanted = set(goals)
        begin = (start, apart)
        cost = {begin: 0}
        parent: dict[tuple[int, bool], tuple[tuple[int, bool], int]] = {}
        queue = deque([begin])
        done: set[tuple[int, bool]] = set()
        found: dict[int, list[Step]] = {}
        while queue and wanted:
            here = queue.popleft()
            if here in done:
                continue
            done.add(here)
            vertex, after_rw = here
            if vertex in wanted and here != begin and not (apart and after_rw):
                wanted.discard(vertex)
                found[vertex] = self._steps(parent, begin, here)
            for other, kinds in self.out.get(vertex, {}).items():
                usable = kinds & mask
                if usable:
                    self._reach(here, (other, False), usable, cost, parent, queue)
                if apart and not after_rw and kinds & rw:
                    self._reach(here, (other, True), kinds & rw, cost, parent, queue)
        return found

    def _reach(
        self,
        here: tuple[int, bool],
        there: tuple[int, bool],
        kinds: int,
        cost: dict[tuple[int, bool], int],
        parent: dict[tuple[int, bool], tuple[tuple[int, bool], int]],
        queue: deque[tuple[int, bool]],
    ) -> None:
        price = 1 if here[0] < self.transactions else 0
        total = cost[here] + price
        if there in cost and cost[there] <= total:
            return
        cost[there] = total
        parent[there] = (here, next(kind for kind in PREFERRED if kinds & kind))
        if price:
            queue.append(there)
        else:
            queue.appendleft(there)

    def _steps(
        self,
        parent: dict[tuple[int, bool], tuple[tuple[int, bool], int]],
        begin: tuple[int, bool],
        end: tuple[int, bool],
    ) -> list[Step]:
        steps: list[Step] = []
        here, last = end, end[0]
        while True:
            before, kind = parent[here]
            if before[0] < self.transactions:
                steps.append((before[0], last, kind))  # An edge to a moment is REALTIME.
                last = before[0]
            here = before
            if here == begin:
                return steps[::-1]
