"""The failures of a night in plain words; similar red runs are one break."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kraftwreck.reports import words
from kraftwreck.reports.store.index import number
from kraftwreck.reports.store.links import Links
from kraftwreck.reports.store.nights import UNDECIDED, Night, NightRun

CLASSES = {
    "system": "the system under test violated a guarantee",
    "harness": "kraftwreck itself failed; this proves nothing about the system",
    "environment": "the machine was unsuitable; this proves nothing about the system",
    "flake": "did not happen again when the run was repeated",
    UNDECIDED: "no proof either way: a checker lacked time, memory or evidence",
}
_RANK = {name: place for place, name in enumerate(CLASSES)}


@dataclass
class Break:
    """Red runs with the same class, build, checker and kind; the first one represents them."""

    red: str
    first: NightRun
    runs: list[NightRun] = field(default_factory=list)

    @property
    def planted(self) -> bool:
        """Whether it is a planted bug."""
        return self.first.planted

    @property
    def what(self) -> str:
        """The class in plain words."""
        return CLASSES.get(self.red, "of a class this version does not know")

    @property
    def headline(self) -> str:
        """Test and failure: ``raft, workload register: nonlinearizable (linearizable)``."""
        run = self.first.summary
        name = f"{run.system or 'unknown'}, workload {run.workload or 'unknown'}"
        if run.kind:
            name += f": {run.kind}"
            if run.checker:
                name += f" (found by {run.checker})"
        return name

    @property
    def explanation(self) -> str:
        """The explanation by the checker or by the night."""
        run = self.first.summary
        return run.first or run.why or "The night gave no reason."

    @property
    def shrunk(self) -> NightRun | None:
        """The first run with a shrunk case."""
        return next((run for run in self.runs if isinstance(run.line.shrunk, str)), None)


def breaks(runs: list[NightRun]) -> list[Break]:
    """Return the breaks: of the clean build first, of the system first, then by time."""
    found: dict[tuple[Any, ...], Break] = {}
    for run in runs:
        if not run.summary.red:
            continue
        summary = run.summary
        alike = summary.kind or (summary.first if summary.red != "system" else "")
        key = (summary.red, summary.mutant, summary.system, summary.checker, alike)
        if key not in found:
            found[key] = Break(summary.red, run)
        found[key].runs.append(run)
    return sorted(found.values(), key=lambda b: (b.planted, _RANK.get(b.red, len(_RANK))))


def night_title(night: Night) -> str:
    """Return ``Night of 2026-11-21`` or the night's id."""
    name = str(night.facts.get("name") or "")
    day = f"Night of {night.day}" if night.day else f"Night {night.id}"
    return f"{day}, {name}" if name else day


def night_banner(night: Night, runs: list[NightRun], links: Links) -> dict[str, Any]:
    """Return sign, verdict, sentence and counts of a night."""
    found = breaks(runs)
    real = [b for b in found if not b.planted and b.red == "system"]
    other = [b for b in found if not b.planted and b.red != "system"]
    planted = {run.summary.mutant for run in runs if run.planted}
    caught = {b.first.summary.mutant for b in found if b.planted and b.red == "system"}
    undecided = sum(r.summary.valid not in (True, False) for r in runs)
    if real:
        css, sign, title = "invalid", "✗", f"{words.plural(len(real), 'thing')} broke"
    elif any(b.red != UNDECIDED for b in other):
        css, sign = "unknown", "?"
        title = "The system did not fail; " + (
            f"{words.plural(sum(b.red != UNDECIDED for b in other), 'other failure')}"
        )
    elif undecided:
        css, sign, title = "unknown", "?", f"{words.plural(undecided, 'run')} not decided"
    elif runs:
        css, sign, title = "valid", "✓", "Nothing broke"
    else:
        css, sign, title = "unknown", "?", "No run yet"
    text = _sentence(night, runs)
    if planted:
        text += f" {len(caught)} of {words.plural(len(planted), 'planted bug')} found."
    return {
        "id": night.id,
        "name": night_title(night),
        "day": night.day,
        "css": css,
        "sign": sign,
        "title": title,
        "text": text,
        "href": links.night(night.id),
        "state": str(night.facts.get("state") or "unknown")[:40],
        "runs": len(runs),
        "valid": sum(r.summary.valid is True for r in runs),
        "invalid": sum(r.summary.valid is False and not r.planted for r in runs),
        "unknown": undecided,
        "reds": {name: sum(r.summary.red == name for r in runs) for name in CLASSES},
        "breaks": found,
        "real": real,
        "other": other,
        "planted": [b for b in found if b.planted],
        "planted_builds": len(planted),
        "caught": len(caught),
        "first": next(iter(real + other), None),
    }


def _sentence(night: Night, runs: list[NightRun]) -> str:
    spent = number(night.facts.get("spent_s"))
    if night.facts.get("state") == "running":
        spent = max((number(run.line.at_s) or 0 for run in runs), default=spent)
    time = f" in {time_text(spent)}" if spent is not None else ""
    state = night.facts.get("state")
    not_over = "" if state in ("complete", None) else f" The night is {str(state)[:40]}."
    valid = sum(run.summary.valid is True for run in runs)
    invalid = sum(run.summary.valid is False and not run.planted for run in runs)
    planted = sum(run.summary.valid is False and run.planted for run in runs)
    undecided = len(runs) - valid - invalid - planted
    as_planted = f", {planted:,} INVALID with a planted bug" if planted else ""
    return (
        f"{words.plural(len(runs), 'run')}{time}: {valid:,} valid, {invalid:,} "
        f"INVALID{as_planted}, {undecided:,} not decided.{not_over}"
    )


def time_text(seconds: float) -> str:
    """Return a duration of a night: ``42 s``, ``12 min``, ``5 h 07 min``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
