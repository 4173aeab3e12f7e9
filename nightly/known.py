"""Results of earlier nights that influence the next one: coverage and failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import product
from pathlib import Path

import msgspec

from kraftwreck.harness.clusters.providers import SIMULATOR_LACKS
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nemesis.registry import families
from kraftwreck.nightly.cells import Cell
from kraftwreck.nightly.config import SIM
from kraftwreck.nightly.record import Record, read_records

NIGHTS = "nights"
COVERAGE = "coverage.json"


class Known(msgspec.Struct, kw_only=True):
    """The knowledge at the beginning of a night.

    ``met`` are, by kind of cluster, the ordered pairs of fault classes of its cells that occurred
    before. ``failed`` are cells that failed before; ``again`` the runs that failed, newest first,
    as (cell, seed).
    """

    met: dict[str, list[str]] = {}
    failed: list[str] = []
    again: list[tuple[str, int]] = []


def gather(nights: Sequence[Path], cells: Sequence[Cell], most_again: int) -> Known:
    """Return what the folders ``nights`` (oldest first) contain about ``cells``.

    An unreadable night is ignored: it must not keep the next one from starting.
    """
    met: dict[str, set[str]] = {}
    failed: dict[str, None] = {}
    again: dict[tuple[str, int], None] = {}
    by_key = {cell.key: cell for cell in cells}
    for folder in reversed(nights):
        for kind, counted in read_coverage(folder).items():
            met.setdefault(kind, set()).update(counted.follows)
        for record in reversed(_records(folder)):
            if not record.red or record.cell not in by_key:
                continue
            failed[record.cell] = None
            if not record.planted:
                again[record.cell, record.seed] = None
    wanted: dict[str, set[str]] = {}
    for kind, faults in {(cell.kind, cell.faults) for cell in cells}:
        wanted.setdefault(kind, set()).update(fault_pairs(faults, kind == SIM))
    return Known(
        met={kind: sorted(pairs & met.get(kind, set())) for kind, pairs in sorted(wanted.items())},
        failed=sorted(failed),
        again=list(again)[:most_again],
    )


def _records(folder: Path) -> list[Record]:
    try:
        return read_records(folder)
    except ValueError:
        return []


def read_coverage(folder: Path) -> dict[str, Coverage]:
    """Return the counters of the night in ``folder`` by kind of cluster; empty if they are missing
    or unreadable."""
    try:
        return msgspec.json.decode((folder / COVERAGE).read_bytes(), type=dict[str, Coverage])
    except (OSError, *UNDECODABLE):
        return {}


def fault_pairs(kinds: Iterable[str], simulated: bool) -> Iterator[str]:
    """Yield the ordered pairs of fault classes of these families, as named in counters."""
    classes = [
        f"{name}/{shape}"
        for name in kinds
        for shape in families()[name].shapes
        if not (simulated and families()[name].features(shape).intersection(SIMULATOR_LACKS))
    ]
    for first, second in product(classes, classes):
        yield f"{first} > {second}"


def uncovered(cell: Cell, met: Set[str]) -> float:
    """Return the share of the pairs of ``cell`` that are not in ``met``; 0 if it has none."""
    pairs = list(fault_pairs(cell.faults, cell.kind == SIM))
    return round(sum(pair not in met for pair in pairs) / len(pairs), 4) if pairs else 0.0
