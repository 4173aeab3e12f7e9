"""The order of a night's runs, by the knowledge at its start and its own coverage since then.

The corpus comes first, then failures of earlier nights, then cells. The cluster of each run is
fixed when the night begins, by highest averages. So after any number of runs each block has had its
share on each of its clusters. The module :mod:`nightly.steering` chooses the cell, per cluster,
just before the run begins.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kraftwreck.nightly.cells import Cell
from kraftwreck.nightly.config import SIM, Config, seed_range
from kraftwreck.nightly.known import Known
from kraftwreck.nightly.record import Kind, Record
from kraftwreck.nightly.steering import ROUND, Dealer, Weights
from kraftwreck.nodes.draw import draw

_DECIDES = ("name", "matrix", "corpus")
_Group = tuple[int, str]


class Plan(msgspec.Struct, kw_only=True):
    """The basis of a night's order; ``plan.json``. ``deciding`` is the relevant part of the
    configuration, ``corpus`` are case files in order, ``round`` is the number of simulated runs
    chosen with the same weights."""

    seed: int
    deciding: dict[str, Any]
    corpus: list[str]
    known: Known
    round: int = ROUND


@dataclass(frozen=True, slots=True)
class Slot:
    """One position in the order: the ``n``-th run, the ``place``-th on its cluster."""

    n: int
    cluster: str
    place: int


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of the plan; ``cell`` is None for a case of the corpus, which is in ``case``."""

    n: int
    kind: Kind
    cell: Cell | None
    seed: int
    case: str | None = None


def deciding(config: Config) -> dict[str, Any]:
    """Return the part of ``config`` that determines the order, as plain values."""
    plain: dict[str, Any] = {name: msgspec.to_builtins(getattr(config, name)) for name in _DECIDES}
    plain["again"] = config.limits.again
    plain["seed"] = config.seed
    # As it is after reading JSON, so that both can be compared.
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return decoded


def weights(plan: Plan, config: Config, cells: Sequence[Cell]) -> dict[str, float]:
    """Return the weight of each cell at the beginning of the night."""
    found: dict[str, float] = {}
    for cluster in dict.fromkeys(cell.cluster for cell in cells):
        here = [cell for cell in cells if cell.cluster == cluster]
        now = Weights(config, here, plan.known).now
        found.update(zip((cell.key for cell in here), now, strict=True))
    return found


def length(plan: Plan, config: Config, cells: Sequence[Cell]) -> int | None:
    """Return the number of runs in the order; None if it is endless."""
    most = config.budget.runs
    total = len(plan.corpus) + len(plan.known.again)
    for index in range(len(config.matrix)):
        bound = _bound(config, index, [cell for cell in cells if cell.block == index])
        if bound is None:
            return most
        total += bound
    return total if most is None else min(most, total)


def _bound(config: Config, index: int, cells: Sequence[Cell]) -> int | None:
    """Return the largest number of runs that ``cells`` of block ``index`` may have together."""
    block = config.matrix[index]
    seeds = seed_range(block.seeds)
    bounds = (block.runs, None if seeds is None else len(seeds) * len(cells))
    return min((bound for bound in bounds if bound is not None), default=None)


class Order:
    """The runs of a night: its positions in order, and the run at each.

    ``records`` are the runs that are already finished. Positions on one cluster must be requested
    in order, each as soon as it is :meth:`ready`.
    """

    def __init__(
        self, plan: Plan, config: Config, cells: Sequence[Cell], records: Sequence[Record] = ()
    ) -> None:
        self._plan = plan
        self._most = config.budget.runs
        self._by_key = {cell.key: cell for cell in cells}
        start = weights(plan, config, cells)
        self._groups: dict[_Group, float] = {}
        for cell in cells:
            group = (cell.block, cell.cluster)
            self._groups[group] = self._groups.get(group, 0.0) + start[cell.key]
        self._quotas = self._share_out(config, cells)
        again = [self._by_key[key].cluster for key, _ in plan.known.again]
        self._fixed = [SIM] * len(plan.corpus) + again
        self._dealers = {
            cluster: Dealer(
                cluster, config, cells, plan.known,
                seed=plan.seed, round_size=plan.round, fixed=self._fixed.count(cluster),
                quotas={block: q for (block, c), q in self._quotas.items() if c == cluster},
            )
            for cluster in dict.fromkeys([*(cell.cluster for cell in cells), *self._fixed])
        }  # fmt: skip
        self._slots: dict[int, Slot] = {}
        self._before = {record.n: record for record in records}

    def _share_out(self, config: Config, cells: Sequence[Cell]) -> dict[_Group, int]:
        """Return how many runs of a limited block each of its clusters gets."""
        quotas: dict[_Group, int] = {}
        for index in range(len(config.matrix)):
            here = [cell for cell in cells if cell.block == index]
            bound = _bound(config, index, here)
            if bound is None:
                continue
            most: dict[_Group, int | None] = {
                group: _bound(config, index, [cell for cell in here if cell.cluster == group[1]])
                for group in self._groups
                if group[0] == index
            }
            quotas.update(dict.fromkeys(most, 0))
            for group in self._dealt(most, bound):
                quotas[group] += 1
        return quotas

    def _dealt(
        self, most: Mapping[_Group, int | None], runs: int | None = None
    ) -> Iterator[_Group]:
        """Deal runs to groups by highest averages; the night's seed breaks ties."""
        heap = [
            (1.0 / self._groups[group], draw(self._plan.seed, "tie", *map(str, group)), group, 0)
            for group in most
        ]
        heapq.heapify(heap)
        while heap and (runs is None or runs > 0):
            _, tie, group, given = heapq.heappop(heap)
            bound = most[group]
            if bound is not None and given >= bound:
                continue
            if runs is not None:
                runs -= 1
            yield group
            heapq.heappush(heap, ((2 * given + 3) / self._groups[group], tie, group, given + 1))

    def slots(self) -> Iterator[Slot]:
        """Yield the positions of the night in order, within its budget, or endlessly."""
        places = dict.fromkeys(self._dealers, 0)
        for n, cluster in enumerate(self._clusters()):
            if self._most is not None and n >= self._most:
                return
            slot = self._slots[n] = Slot(n, cluster, places[cluster])
            places[cluster] += 1
            record = self._before.pop(n, None)
            if record is not None:
                self._finish(slot, record, None)
            yield slot

    def _clusters(self) -> Iterator[str]:
        yield from self._fixed
        most = {group: self._quotas.get(group) for group in self._groups}
        for _, cluster in self._dealt(most):
            yield cluster

    def ready(self, slot: Slot) -> bool:
        """Return whether the run at ``slot`` can be determined."""
        return self._dealers[slot.cluster].ready(slot.place)

    def planned(self, slot: Slot) -> Planned:
        """Return the run at ``slot``."""
        plan, n = self._plan, slot.n
        if n < len(plan.corpus):
            return Planned(n, "corpus", None, 0, plan.corpus[n])
        if n < len(self._fixed):
            key, seed = plan.known.again[n - len(plan.corpus)]
            return Planned(n, "again", self._by_key[key], seed)
        cell, seed = self._dealers[slot.cluster].deal(slot.place)
        return Planned(n, "cell", cell, seed)

    def finished(self, record: Record, pairs: Mapping[str, int]) -> None:
        """Process a run's result before it is written: set ``record.met`` to the new ones of its
        ordered ``pairs`` of fault classes."""
        self._finish(self._slots[record.n], record, pairs)

    def _finish(self, slot: Slot, record: Record, pairs: Mapping[str, int] | None) -> None:
        del self._slots[slot.n]
        self._dealers[slot.cluster].finish(slot.place, record, pairs)


def order(plan: Plan, config: Config, cells: Sequence[Cell]) -> Iterator[Planned]:
    """Yield the runs of a night without coverage and failures, that is, with the weights at its
    beginning."""
    found = Order(plan, config, cells)
    for slot in found.slots():
        planned = found.planned(slot)
        found.finished(_nothing(planned), {})
        yield planned


def _nothing(planned: Planned) -> Record:
    cell = planned.cell
    return Record(
        n=planned.n, kind=planned.kind, cell="" if cell is None else cell.key, system="",
        workload="", faults=[], cluster="", tree="", planted=False, seed=planned.seed, valid=True,
    )  # fmt: skip
