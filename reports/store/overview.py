"""The first page of a store: failures, trend, coverage, and all runs."""

from __future__ import annotations

from typing import Any

from kraftwreck.nemesis.coverage import fault_classes
from kraftwreck.reports import words
from kraftwreck.reports.packing import script_json
from kraftwreck.reports.store import figures
from kraftwreck.reports.store.breaks import night_banner
from kraftwreck.reports.store.coverage import all_classes, pairs_map, struck_map
from kraftwreck.reports.store.coverage_data import coverage_data
from kraftwreck.reports.store.entries import Contents
from kraftwreck.reports.store.gold import Gold
from kraftwreck.reports.store.index import RunSummary
from kraftwreck.reports.store.links import Links
from kraftwreck.reports.store.nights import Night, NightRun
from kraftwreck.reports.store.shell import Page, render

FIRST_ROWS = 100
"""Number of runs in the page itself; the script shows the others."""
SCRIPTS = (
    "store_data.js", "store_lines.js", "store_trend.js", "store_heat.js", "store_runs.js",
    "store.js",
)  # fmt: skip
RECOVERY_COLUMNS = [
    "system", "kind", "shape", "simulated", "faults", "healed", "recovered", "failover_p50_s",
    "recovery_p50_s", "recovery_p95_s", "recovery_max_s",
]  # fmt: skip
FLAKE_COLUMNS = [
    "system", "workload", "cluster", "seed", "runs", "valid", "invalid", "flaky", "last_run",
    "repeat",
]  # fmt: skip


def render_overview(contents: Contents, gold: Gold, links: Links | None = None) -> Page:
    """Return the page about ``contents``, with the tables that ``gold`` has."""
    links = links or Links()
    runs = contents.runs
    classes = all_classes(contents.reached, fault_classes())
    data = figures.page_data(runs)
    data["live"] = links.live
    data["coverage"] = coverage_data(contents.reached, classes)
    data["copied"] = None if links.copied is None else sorted(links.copied)
    return render(
        "store.html.j2",
        title=f"{len(runs):,} runs · {contents.name}",
        links=links,
        data=script_json(data),
        scripts=(
            "store_data.js",
            "store_lines.js",
            "store_trend.js",
            "store_heat.js",
            "store_runs.js",
            "store.js",
        ),
        store=contents.name,
        banner=_banner(contents, links),
        counts=_counts(runs),
        nights=[night_banner(night, found, links) for night, found in contents.nights[:60]],
        hidden_nights=max(0, len(contents.nights) - 60),
        groups=_groups(runs),
        measured=any(run.availability is not None for run in runs),
        reds=[run for run in runs if run.valid is False or run.red][:10],
        reason=figures.reason,
        slowest=figures.slowest(runs),
        recoveries=_recoveries(gold),
        flakes=_flakes(runs, gold),
        reached=contents.reached,
        pairs=pairs_map(contents.reached, classes),
        struck=struck_map(contents.reached, classes),
        runs=runs[:FIRST_ROWS],
        total=len(runs),
        limit=figures.MAX_ROWS,
        notes=gold.notes + contents.reached.notes,
        quarantined=sorted(gold.quarantined.items())[:50],
    )


def _banner(contents: Contents, links: Links) -> dict[str, Any]:
    """Return the verdict of the newest night, or of the whole store if there is no night."""
    if contents.nights:
        night, runs = headline(contents.nights)
        newest = night is contents.nights[0][0]
        of = "The newest night" if newest else "The newest finished night"
        return {**night_banner(night, runs, links), "of": of}
    runs_ = contents.runs
    invalid = [run for run in runs_ if run.valid is False and not run.mutant]
    undecided = [run for run in runs_ if run.valid not in (True, False)]
    total = words.plural(len(runs_), "run")
    if not runs_:
        title, css, text = "No run yet", "unknown", "Start one with kraftwreck run."
    elif invalid:
        title = f"{words.plural(len(invalid), 'run')} INVALID"
        css, text = "invalid", f"of {total}. The newest: {figures.reason(invalid[0])}"
    elif undecided:
        title, css = f"{words.plural(len(undecided), 'run')} not decided", "unknown"
        text = f"of {total}; none is INVALID."
    else:
        title, css, text = "Nothing is broken", "valid", f"{total}; none is INVALID."
    sign = {"valid": "✓", "invalid": "✗", "unknown": "?"}[css]
    href = links.run(invalid[0]) if invalid else ""
    return {"of": "All runs", "title": title, "css": css, "sign": sign, "text": text, "href": href}


def headline(nights: list[tuple[Night, list[NightRun]]]) -> tuple[Night, list[NightRun]]:
    """Return the newest night, skipping nights that are still running without a failure."""
    for night, runs in nights:
        red = any(run.summary.red == "system" and not run.planted for run in runs)
        if red or night.facts.get("state") != "running":
            return night, runs
    return nights[0]


def _counts(runs: list[RunSummary]) -> list[tuple[str, int]]:
    return [
        ("runs", len(runs)),
        ("valid", sum(r.valid is True for r in runs)),
        ("INVALID", sum(r.valid is False and not r.mutant for r in runs)),
        ("INVALID with a planted bug", sum(r.valid is False and bool(r.mutant) for r in runs)),
        ("not decided", sum(r.valid not in (True, False) for r in runs)),
    ]


def _groups(runs: list[RunSummary]) -> list[tuple[str, str, list[figures.Group]]]:
    return [
        ("systems", "System", figures.group(runs, figures.systems)),
        ("workloads", "System and workload", figures.group(runs, figures.workloads)),
        ("faults", "Fault", figures.group(runs, figures.faults)),
    ]


def _recoveries(gold: Gold) -> list[dict[str, Any]] | None:
    rows = gold.rows("recovery_by_fault", RECOVERY_COLUMNS)
    if rows is None:
        return None
    rows.sort(key=lambda row: -(row["recovery_p95_s"] or -1))
    return rows[:200]


def _flakes(runs: list[RunSummary], gold: Gold) -> figures.Flakes:
    rows = gold.rows("flakes", FLAKE_COLUMNS)
    if rows is None:
        return figures.flakes_of_runs(runs)
    flaky = [{**row, "other": ""} for row in rows if row["flaky"]]
    paths = {run.path for run in runs if run.path}
    for row in flaky:
        row["last_run"] = row["last_run"] if row["last_run"] in paths else ""
    return figures.Flakes(len(rows), flaky, same_code=True)
