"""The choice of a cell for each run, by the results of earlier nights and of this one so far.

Each cluster has its own sequence of runs. Its cells take turns, each after an interval that is
inversely proportional to its weight (stride scheduling; with constant weights these are the
highest averages of Sainte-Laguë). The coverage of runs changes the weights of later ones: on hosts
from the next run on, in the simulator from the next round but one. Parallel runs end in any order,
and the order of the night must not depend on that. So it is a function of the plan and the results
of the runs, however often the night was interrupted.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from kraftwreck.nightly.cells import Cell
from kraftwreck.nightly.config import SIM, Config, seed_range
from kraftwreck.nightly.known import Known, uncovered
from kraftwreck.nightly.record import Record
from kraftwreck.nodes.draw import draw, draw_below

SEEDS = 1 << 31
ROUND = 16
"""The least number of simulated runs chosen with the same weights."""


def weight(cell: Cell, config: Config, uncovered: float, failed: bool) -> float:
    """Return the relative frequency of ``cell``: its block's weight, increased for a large
    ``uncovered`` share and if something ``failed``."""
    return config.matrix[cell.block].weight * (1.0 + 3.0 * uncovered + failed)


class Weights:
    """The weights of the cells on one cluster, as results arrive."""

    def __init__(self, config: Config, cells: Sequence[Cell], known: Known) -> None:
        self._config = config
        self._cells = cells
        self._met: set[str] = set()
        for kind in {cell.kind for cell in cells}:
            self._met.update(known.met.get(kind, ()))
        self._failed = set(known.failed)
        self.now = self._weigh()

    def _weigh(self) -> list[float]:
        shares: dict[tuple[str, ...], float] = {}
        found = []
        for cell in self._cells:
            share = shares.get(cell.faults)
            if share is None:
                share = shares[cell.faults] = uncovered(cell, self._met)
            found.append(weight(cell, self._config, share, cell.key in self._failed))
        return found

    def learn(self, records: Sequence[Record]) -> bool:
        """Process finished runs; return whether a weight changed."""
        met, failed = len(self._met), len(self._failed)
        for record in records:
            self._met.update(record.met)
            if record.red:
                self._failed.add(record.cell)
        if (met, failed) == (len(self._met), len(self._failed)):
            return False
        before, self.now = self.now, self._weigh()
        return before != self.now

    def new(self, pairs: Mapping[str, int]) -> list[str]:
        """Return the ``pairs`` that are new, sorted."""
        return sorted(pairs.keys() - self._met)


class Dealer:
    """The sequence of one cluster's runs.

    ``fixed`` runs come first: stored cases and failures of earlier nights, whose results count,
    too. ``quotas`` limits the runs here by block; blocks without an entry are unlimited.
    """

    def __init__(
        self,
        cluster: str,
        config: Config,
        cells: Sequence[Cell],
        known: Known,
        *,
        seed: int,
        round_size: int,
        fixed: int,
        quotas: Mapping[int, int],
    ) -> None:
        self._round = round_size if cluster == SIM else 0
        self._cells = [cell for cell in cells if cell.cluster == cluster]
        self._seed = seed
        self._seeds = [seed_range(block.seeds) for block in config.matrix]
        self._left = dict(quotas)
        self._weights = Weights(config, self._cells, known)
        self._given = [0] * len(self._cells)
        ties = [draw(seed, "tie", cell.key) for cell in self._cells]
        self._heap = [(1.0 / w, ties[at], at) for at, w in enumerate(self._weights.now)]
        heapq.heapify(self._heap)
        self._clock = 0.0
        self._learned = 0
        self._results: dict[int, Record] = {}
        self._whole = 0
        self._fixed = fixed
        self._next = fixed
        self._dealt: dict[int, tuple[Cell, int]] = {}

    def needs(self, place: int) -> int:
        """Return how many runs of this cluster, from the first one, determine that at ``place``."""
        if place < self._fixed:
            return 0
        return self._round * max(0, place // self._round - 1) if self._round else place

    def ready(self, place: int) -> bool:
        """Return whether the results that determine the run at ``place`` are available."""
        return self.needs(place) <= self._whole

    def finish(self, place: int, record: Record, reached: Mapping[str, int] | None) -> None:
        """Process the result of the run at ``place``; store in ``record`` the new pairs that it
        ``reached`` (None: its line is on disk already), which influence later runs."""
        if reached is not None:
            record.met = self._weights.new(reached)
        self._results[place] = record
        while self._whole in self._results:
            self._whole += 1

    def deal(self, place: int) -> tuple[Cell, int]:
        """Return cell and seed of the run at ``place``.

        Raises IndexError when no cell may have another run.
        """
        while self._next <= place:
            self._dealt[self._next] = self._deal(self._next)
            self._next += 1
        return self._dealt.pop(place)

    def _deal(self, place: int) -> tuple[Cell, int]:
        self._learn(min(self.needs(place), self._whole))
        while True:
            if not self._heap:
                raise IndexError(f"no cell is left for the run at {place}")
            at, tie, index = heapq.heappop(self._heap)
            cell, given = self._cells[index], self._given[index]
            seeds = self._seeds[cell.block]
            if self._left.get(cell.block) == 0 or (seeds is not None and given >= len(seeds)):
                continue
            break
        if cell.block in self._left:
            self._left[cell.block] -= 1
        self._given[index] += 1
        self._clock = at
        heapq.heappush(self._heap, (at + 2.0 / self._weights.now[index], tie, index))
        seed = seeds[given] if seeds else draw_below(SEEDS, self._seed, "seed", cell.key, given)
        return cell, seed

    def _learn(self, until: int) -> None:
        """Process results before position ``until``: the rest of a cell's interval is scaled by
        its new weight."""
        if until <= self._learned:
            return
        before = self._weights.now
        # Results are no longer needed once the weights include them.
        found = [self._results.pop(place) for place in range(self._learned, until)]
        self._learned = until
        if not self._weights.learn(found):
            return
        now = self._weights.now
        self._heap = [
            (self._clock + (at - self._clock) * before[index] / now[index], tie, index)
            for at, tie, index in self._heap
        ]
        heapq.heapify(self._heap)
