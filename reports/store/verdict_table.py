"""One table of all runs of stores, by system, workload and faults.

It is Markdown, for a page that keeps it between two comments (:data:`BEGIN`, :data:`END`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.reports.store.index import RunSummary

BEGIN, END = "<!-- verdicts -->", "<!-- end of verdicts -->"
COLUMNS = ("system", "workload", "faults", "runs", "valid", "INVALID", "unknown")
LAST = ("anomalies (runs)", "last run")
KINDS = 4
"""Types of anomalies that a row names, the most frequent first."""
_UNJUDGED = "unknown"


@dataclass(slots=True)
class Row:
    """All runs of one system, workload and set of faults."""

    verdicts: Counter[bool | str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    day: str = ""

    def add(self, run: RunSummary) -> None:
        """Count one run; without a verdict it is unknown."""
        self.verdicts[_UNJUDGED if run.valid is None else run.valid] += 1
        self.kinds.update(run.kinds)
        self.day = max(self.day, run.day)


def table(runs: Iterable[RunSummary]) -> str:
    """Return the table of all finished ``runs``, in order of system, workload and faults."""
    rows: dict[tuple[str, str, str], Row] = {}
    for run in runs:
        if run.finished:
            rows.setdefault(_names(run), Row()).add(run)
    lines = [_line([*COLUMNS, *LAST]), "|---|---|---|--:|--:|--:|--:|---|---|"]
    lines += [_line([*names, *_cells(row)]) for names, row in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def placed(page: str, table: str, name: str) -> str:
    """Return ``page`` with ``table`` between the two comments.

    Raises :class:`~histories.exit_codes.BadInputError`, one line, if they are missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInputError(f"{name} has no lines {BEGIN} and {END} for the table")
    return f"{before}{BEGIN}\n{table}{END}{after}"


def _names(run: RunSummary) -> tuple[str, str, str]:
    system = " ".join([run.system, *run.options])
    planted = f" with {run.mutant}" if run.mutant else ""
    return system + planted, run.workload, ", ".join(run.faults) or "none"


def _cells(row: Row) -> list[str]:
    counts = [row.verdicts[valid] for valid in (True, False, _UNJUDGED)]
    kinds = [f"{kind} ({count})" for kind, count in row.kinds.most_common(KINDS)]
    if len(row.kinds) > KINDS:
        kinds.append(f"{len(row.kinds) - KINDS} more")
    return [str(sum(counts)), *map(str, counts), ", ".join(kinds) or "–", row.day]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
