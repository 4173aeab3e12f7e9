"""The order of a night's runs: a pure function of what was known when it began.

The corpus comes first, then what failed in earlier nights, then cells, dealt out by highest
averages: after any number of runs each cell has had its share.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nightly.cells import Cell
from nightly.config import Config, seed_range
from nightly.known import Known
from nightly.record import Kind
from nodes.draw import draw, draw_below

SEEDS = 1 << 31
_DECIDES = ("name", "matrix", "corpus")


class Plan(msgspec.Struct, kw_only=True):
    """What a night's order is made of; ``plan.json``. ``deciding`` is what the configuration
    said of it, ``corpus`` are case files in order."""

    seed: int
    deciding: dict[str, Any]
    corpus: list[str]
    known: Known


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of the plan: ``cell`` is None for a case of the corpus, which is in ``case``."""

    n: int
    kind: Kind
    cell: Cell | None
    seed: int
    case: str | None = None


def deciding(config: Config) -> dict[str, Any]:
    """Return the part of ``config`` that an order depends on, as plain values."""
    plain: dict[str, Any] = {name: msgspec.to_builtins(getattr(config, name)) for name in _DECIDES}
    plain["again"] = config.limits.again
    plain["seed"] = config.seed
    # As JSON would give it back, so that both can be compared.
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return decoded


def weight(cell: Cell, config: Config, known: Known) -> float:
    """Return how many runs ``cell`` gets beside others: its block's weight, more where much
    is uncovered or something failed."""
    factor = 1.0 + 3.0 * known.uncovered.get(cell.key, 0.0) + (cell.key in known.failed)
    return config.matrix[cell.block].weight * factor


def order(plan: Plan, config: Config, cells: Sequence[Cell]) -> Iterator[Planned]:
    """Yield the runs of a night in order, as many as its budget has, or without end."""
    most = config.budget.runs
    for n, (kind, cell, seed, case) in enumerate(_runs(plan, config, cells)):
        if most is not None and n >= most:
            return
        yield Planned(n, kind, cell, seed, case)


def length(plan: Plan, config: Config, cells: Sequence[Cell]) -> int | None:
    """Return how many runs :func:`order` yields; None where there is no end."""
    most = config.budget.runs
    total = len(plan.corpus) + len(plan.known.again)
    for index, block in enumerate(config.matrix):
        seeds = seed_range(block.seeds)
        here = sum(cell.block == index for cell in cells)
        most_here = None if seeds is None else len(seeds) * here
        bounds = [bound for bound in (block.runs, most_here) if bound is not None]
        if not bounds:
            return most
        total += min(bounds)
    return total if most is None else min(most, total)


def _runs(
    plan: Plan, config: Config, cells: Sequence[Cell]
) -> Iterator[tuple[Kind, Cell | None, int, str | None]]:
    for case in plan.corpus:
        yield "corpus", None, 0, case
    by_key = {cell.key: cell for cell in cells}
    for key, seed in plan.known.again:
        yield "again", by_key[key], seed, None
    for cell, seed in _dealt(plan, config, cells):
        yield "cell", cell, seed, None


def _dealt(plan: Plan, config: Config, cells: Sequence[Cell]) -> Iterator[tuple[Cell, int]]:
    """Deal runs to cells by highest averages; ties go by the night's seed."""
    weights = [weight(cell, config, plan.known) for cell in cells]
    seeds = [seed_range(block.seeds) for block in config.matrix]
    left = {index: block.runs for index, block in enumerate(config.matrix)}
    heap = [
        (1.0 / weights[place], draw(plan.seed, "tie", cell.key), place, 0)
        for place, cell in enumerate(cells)
    ]
    heapq.heapify(heap)
    while heap:
        _, tie, place, given = heapq.heappop(heap)
        cell = cells[place]
        rest, here = left[cell.block], seeds[cell.block]
        if rest == 0 or (here is not None and given >= len(here)):
            continue
        if rest is not None:
            left[cell.block] = rest - 1
        seed = here[given] if here else draw_below(SEEDS, plan.seed, "seed", cell.key, given)
        yield cell, seed
        heapq.heappush(heap, ((2 * given + 3) / weights[place], tie, place, given + 1))
