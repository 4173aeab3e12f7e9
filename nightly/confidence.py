"""How many runs without a failure make it unlikely that the failure still exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kraftwreck.nightly.record import Record

CONFIDENCE = 0.99
_FEW = 20
_Z = 1.96


def runs_needed(rate: float, confidence: float = CONFIDENCE) -> int:
    """Return the least n with (1 - ``rate``)^n <= 1 - ``confidence``: ln(1 - c) / ln(1 - p).

    If a run still failed with probability ``rate``, this many runs in a row would pass with a
    probability of at most 1 - ``confidence``. Raises ValueError unless 0 < rate <= 1 and
    0 < confidence < 1.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"a failure rate must be above 0 and at most 1, not {rate:g}")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must be between 0 and 1, not {confidence:g}")
    if rate == 1:
        return 1
    return max(1, math.ceil(round(math.log(1 - confidence) / math.log1p(-rate), 9)))


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure that occurred in ``failed`` of ``runs`` runs."""

    failed: int
    runs: int

    @property
    def rate(self) -> float:
        """The share of runs that failed."""
        return self.failed / self.runs

    @property
    def least(self) -> float:
        """The lower end of the 95 % confidence interval of the rate (Wilson 1927)."""
        n, p = self.runs, self.rate
        middle = p + _Z**2 / (2 * n)
        half = _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return max(0.0, (middle - half) / (1 + _Z**2 / n))


def alike(record: Record) -> Callable[[Record], bool]:
    """Return a predicate for runs that failed like ``record``: with the same checker and anomaly
    type, or otherwise with the same class."""
    if record.klass == "system" and record.failures:
        first = record.failures[0]
        return lambda other: any(failure.same(first) for failure in other.failures)
    wanted = record.was or record.klass
    return lambda other: wanted is not None and wanted in (other.klass, other.was)


def seen(record: Record, records: Sequence[Record]) -> Seen:
    """Return how often the failure of ``record`` occurred in its night.

    The runs of its cell are counted. If they are few, all runs of its build on that kind of cluster
    are counted, if that gives a lower rate: one failure in one run says little.
    """
    same = alike(record)

    def counted(among: Sequence[Record]) -> Seen:
        return Seen(max(1, sum(map(same, among))), max(1, len(among)))

    cell = counted([r for r in records if r.cell == record.cell and r.kind == record.kind])
    if cell.runs >= _FEW or record.kind == "corpus":
        return cell
    kind = record.cluster.partition(":")[0]
    wider = counted(
        [
            r
            for r in records
            if r.tree == record.tree and r.kind != "corpus" and r.cluster.partition(":")[0] == kind
        ]
    )
    return min(cell, wider, key=lambda each: each.rate)
