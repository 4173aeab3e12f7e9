"""All runs of a store: those with a folder, those that nights made without keeping a folder, and
those in the analysis whose folders are gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraftwreck.histories.verdict import Validity
from kraftwreck.reports.store.coverage import CoverageReader, Reached
from kraftwreck.reports.store.gold import Gold
from kraftwreck.reports.store.index import NAME_LENGTH, RunSummary, StoreIndex, clip, number
from kraftwreck.reports.store.nights import Night, NightRun, Nights, night_runs

_VALIDITY: dict[Any, Validity] = {"true": True, "false": False, "unknown": "unknown"}
_REMEMBERED = [
    "run", "system", "workload", "faults", "cluster", "seed", "mutant", "patch", "day", "valid",
    "class", "first_anomaly", "seconds", "recovered_s", "repeat", "availability", "p99_ms",
]  # fmt: skip


@dataclass
class Contents:
    """A store at one moment: all ``runs``, newest first, and its ``nights`` with their runs."""

    name: str
    runs: list[RunSummary]
    nights: list[tuple[Night, list[NightRun]]]
    reached: Reached


@dataclass
class StoreReader:
    """Reads the contents of ``store``; caches what did not change."""

    store: Path
    index: StoreIndex = field(init=False)
    nights: Nights = field(init=False)
    gold: Gold = field(init=False)
    coverage: CoverageReader = field(init=False)
    _gone: tuple[str, list[RunSummary]] | None = None

    def __post_init__(self) -> None:
        self.store = self.store.resolve()
        self.index = StoreIndex(self.store)
        self.nights = Nights(self.store)
        self.gold = Gold(self.store)
        self.coverage = CoverageReader(self.store)

    def contents(self) -> Contents:
        """Return the contents. Raises :class:`~reports.run_folder.RunFolderError`."""
        state = self.gold.refresh()
        found = self.index.runs()
        known = {run.path: run for run in found}
        nights = [(night, night_runs(night, known)) for night in self.nights.all()]
        places = {str(line.run) for night, _ in nights for line in night.lines if line.run}
        without: list[RunSummary] = []
        for _, runs in nights:
            for run in runs:
                if run.summary.path:
                    known[run.summary.path] = run.summary
                else:
                    without.append(run.summary)
        for each in known.values():
            each.availability = each.p99_ms = None
        for gone in self._remembered(state):
            path = f"{gone.name}/{gone.run}"
            kept = known.get(path)
            if kept is not None:
                kept.availability, kept.p99_ms = gone.availability, gone.p99_ms
            elif path not in places:
                without.append(gone)
        merged = [*known.values(), *without]
        merged.sort(key=lambda run: (run.day, run.run, run.path), reverse=True)
        reached = self.coverage.reached(merged, [night.id for night, _ in nights], self.gold)
        return Contents(self.store.name, merged, nights, reached)

    def night(self, name: str) -> tuple[Night, list[NightRun]] | None:
        """Return one night with its runs, None when there is no such night."""
        night = self.nights.get(name)
        if night is None:
            return None
        return night, night_runs(night, {run.path: run for run in self.index.runs()})

    def _remembered(self, state: str) -> list[RunSummary]:
        """Return the runs in the analysis."""
        if self._gone is None or self._gone[0] != state:
            rows = self.gold.rows("runs", _REMEMBERED) or []
            self._gone = (state, [_from_gold(row) for row in rows])
        return self._gone[1]


def _from_gold(row: dict[str, Any]) -> RunSummary:
    name, _, run = clip(row["run"], 2 * NAME_LENGTH).rpartition("/")
    faults = row["faults"] or []
    red = row["class"] or ""
    return RunSummary(
        path="",
        name=name,
        run=run,
        system=clip(row["system"], NAME_LENGTH),
        workload=clip(row["workload"], NAME_LENGTH),
        faults=tuple(clip(fault, NAME_LENGTH) for fault in faults[:50]),
        cluster=clip(row["cluster"], NAME_LENGTH),
        valid=_VALIDITY.get(row["valid"]),
        seed=clip(row["seed"], NAME_LENGTH),
        day=clip(row["day"], 10),
        mutant=clip(row["mutant"] or row["patch"], NAME_LENGTH),
        repeat=clip(row["repeat"], 4000),
        seconds=number(row["seconds"]),
        recovered_s=number(row["recovered_s"]),
        availability=number(row["availability"]),
        p99_ms=number(row["p99_ms"]),
        kind=clip(row["first_anomaly"], NAME_LENGTH),
        why="its folder is gone",
        red="" if red == "green" else clip(red, NAME_LENGTH),
    )
