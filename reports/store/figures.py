"""Figures over many runs: counts and medians per group, flakes, slow runs, the page's data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from kraftwreck.histories.verdict import Validity
from kraftwreck.reports import words
from kraftwreck.reports.store.index import RunSummary

MAX_ROWS = 20_000
"""At most this many runs are sent to the browser, the newest ones."""
CODES: dict[Validity | None, int] = {True: 0, False: 1, "unknown": 2, None: 3}


@dataclass
class Group:
    """Runs with a common property, counted by verdict, and their median time.

    ``invalid`` counts runs of the clean build, ``planted`` those with a planted bug or a patch.
    """

    label: str
    runs: int = 0
    valid: int = 0
    invalid: int = 0
    planted: int = 0
    unknown: int = 0
    flakes: int = 0
    times: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)

    def add(self, run: RunSummary) -> None:
        """Count ``run``."""
        self.runs += 1
        self.valid += run.valid is True
        self.invalid += run.valid is False and not run.mutant
        self.planted += run.valid is False and bool(run.mutant)
        self.unknown += run.valid not in (True, False)
        self.flakes += run.red == "flake"
        if run.seconds is not None:
            self.times.append(run.seconds)
        if run.availability is not None:
            self.shares.append(run.availability)
        if run.p99_ms is not None:
            self.tails.append(run.p99_ms)

    @property
    def median(self) -> str:
        """The median duration, or a dash."""
        return f"{median(self.times):.1f} s" if self.times else "–"

    @property
    def service(self) -> str:
        """The mean share of seconds with service, or a dash."""
        return f"{100 * mean(self.shares):.1f} %" if self.shares else "–"

    @property
    def tail(self) -> str:
        """The median of the runs' 99th percentiles of latency, or a dash."""
        return words.span_text(1000 * median(self.tails)) if self.tails else "–"


def group(runs: Iterable[RunSummary], labels: Callable[[RunSummary], Iterable[str]]) -> list[Group]:
    """Return the groups that ``labels`` assigns runs to, sorted by label."""
    groups: dict[str, Group] = {}
    for run in runs:
        for label in labels(run):
            groups.setdefault(label, Group(label)).add(run)
    return [groups[label] for label in sorted(groups)]


def systems(run: RunSummary) -> list[str]:
    """Return the tested system."""
    return [run.system or "unknown"]


def workloads(run: RunSummary) -> list[str]:
    """Return system and workload."""
    return [f"{run.system or 'unknown'} · {run.workload or 'unknown'}"]


def faults(run: RunSummary) -> list[str]:
    """Return all fault families; a run counts under each of its own."""
    return sorted(set(run.faults)) or ["none"]


@dataclass
class Flakes:
    """Tests that ran at least twice, and those of them whose verdicts differ."""

    repeated: int
    flaky: list[dict[str, Any]]
    same_code: bool
    """Whether only runs of the same code were compared."""

    @property
    def rate(self) -> str:
        """The share of flaky tests, or a dash."""
        return f"{100 * len(self.flaky) / self.repeated:.1f} %" if self.repeated else "–"


def flakes_of_runs(runs: Sequence[RunSummary]) -> Flakes:
    """Return the flakes among ``runs`` by options and seed; the code version is unknown."""
    tests: dict[tuple[Any, ...], list[RunSummary]] = {}
    for run in runs:
        if run.valid in (True, False) and run.seed and run.system:
            key = (
                run.system, run.workload, run.faults, run.cluster, run.seed, run.mutant,
                run.repeat.partition(" --store")[0],
            )  # fmt: skip
            tests.setdefault(key, []).append(run)
    repeated = [found for found in tests.values() if len(found) > 1]
    flaky = []
    for found in repeated:
        valid = [run for run in found if run.valid is True]
        invalid = [run for run in found if run.valid is False]
        if valid and invalid:
            flaky.append(
                {
                    "system": found[0].system,
                    "workload": found[0].workload,
                    "cluster": found[0].cluster,
                    "seed": found[0].seed,
                    "runs": len(found),
                    "valid": len(valid),
                    "invalid": len(invalid),
                    "last_run": next((r.path for r in invalid + valid if r.path), ""),
                    "other": next((r.path for r in valid if r.path), ""),
                    "repeat": found[0].repeat,
                }
            )
    return Flakes(len(repeated), flaky, same_code=False)


def slowest(runs: Iterable[RunSummary], count: int = 10) -> list[RunSummary]:
    """Return the runs whose healed clusters took longest to elect a leader."""
    timed = [run for run in runs if run.recovered_s is not None]
    return sorted(timed, key=lambda run: -(run.recovered_s or 0))[:count]


class _Names:
    """Numbers texts, so that each is sent once."""

    def __init__(self) -> None:
        self.texts: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, text: Any) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def page_data(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the data that the page's script filters and draws: a row per run."""
    names = {
        key: _Names()
        for key in (
            "system", "workload", "faults", "cluster", "day", "night", "mutant", "red", "why",
            "kind", "group",
        )
    }  # fmt: skip
    rows = []
    for run in runs[:MAX_ROWS]:
        group_name, _, name = run.path.rpartition("/")
        rows.append(
            [
                names["group"].number(group_name),
                name if run.path else "",
                int(run.has_report),
                CODES[run.valid] if run.finished else 3,
                names["system"].number(run.system),
                names["workload"].number(run.workload),
                names["faults"].number(run.faults),
                names["cluster"].number(run.cluster),
                names["day"].number(run.day),
                names["night"].number(run.night),
                run.seed,
                None if run.seconds is None else round(run.seconds, 2),
                None if run.recovered_s is None else round(run.recovered_s, 3),
                names["mutant"].number(run.mutant),
                names["red"].number(run.red),
                names["why"].number(reason(run)),
                names["kind"].number(run.kind),
                None if run.availability is None else round(run.availability, 4),
                None if run.p99_ms is None else round(run.p99_ms, 3),
            ]
        )
    return {
        "rows": rows,
        "total": len(runs),
        **{key: found.texts for key, found in names.items()},
    }


def reason(run: RunSummary) -> str:
    """Return in one line why a run is not valid; empty for a valid run."""
    if not run.finished:
        return "did not finish"
    if run.valid is True:
        return run.harness
    return run.first or run.why or run.harness
