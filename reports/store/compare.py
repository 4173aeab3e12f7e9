"""Two runs side by side: verdicts, differing options, service to clients, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc

from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.verdict import Verdict
from kraftwreck.reports import words
from kraftwreck.reports.bands import Band, join_faults
from kraftwreck.reports.run_folder import RunFolderError, load_test, load_verdict, read_lines
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.gold import run_tables
from kraftwreck.reports.store.index import LARGEST_RESULTS, LARGEST_TEST, RunSummary, clip, stamp
from kraftwreck.reports.store.links import Links
from kraftwreck.reports.store.pictures import Picture, picture
from kraftwreck.reports.store.service import Service, service
from kraftwreck.reports.store.shell import Page, render

LEFT_OUT = frozenset({"schedule", "clock", "options", "digest", "start_mono_us", "store", "repeat"})
"""Keys of ``test.json`` that are too long, shown elsewhere, or always different."""
LARGEST_FAULTS = 64 << 20
MAX_OPTIONS = 200


@dataclass
class Side:
    """One of the two runs."""

    summary: RunSummary
    test: dict[str, Any]
    verdict: Verdict | None
    bands: list[Band]
    service: Service
    windows: list[dict[str, Any]] | None
    notes: list[str]
    picture: Picture | None = None


def render_compare(reader: StoreReader, a: str, b: str, links: Links | None = None) -> Page | None:
    """Return the page comparing the runs with paths ``a`` and ``b``; None if one is not a run.

    Raises :class:`~reports.run_folder.RunFolderError` when one cannot be read.
    """
    known = {run.path: run for run in reader.index.runs()}
    if a not in known or b not in known:
        return None
    reader.gold.refresh()
    left, right = (_side(reader, known[path]) for path in (a, b))
    end = max(_end(left), _end(right))
    for side in (left, right):
        side.picture = picture(side.bands, side.service, end)
    links = links or Links()
    return render(
        "compare.html.j2",
        title=f"{left.summary.run} and {right.summary.run}",
        links=links,
        store=reader.store.name,
        sides=(left, right),
        facts=_facts(left, right),
        checkers=_checkers(left, right),
        options=options_that_differ(left.test, right.test),
        service=_service(left, right),
        windows=_windows(left, right),
        faults=_faults(left, right),
    )


def _side(reader: StoreReader, summary: RunSummary) -> Side:
    folder = reader.store / summary.path
    notes: list[str] = []
    for name, largest in (("test.json", LARGEST_TEST), ("results.json", LARGEST_RESULTS)):
        size = stamp(str(folder / name))
        if size is not None and size[1] > largest:
            raise RunFolderError(f"{summary.path}/{name}: too large to be compared")
    test = load_test(folder)
    verdict = None
    if stamp(str(folder / "results.json")) is None:
        notes.append("There is no results.json: the run was not checked completely.")
    else:
        verdict = load_verdict(folder, notes)
    return Side(
        summary=summary,
        test=test,
        verdict=verdict,
        bands=_bands(folder, notes),
        service=service(folder),
        windows=_availability(reader, folder, summary.path),
        notes=notes,
    )


def _bands(folder: Path, notes: list[str]) -> list[Band]:
    path = folder / "faults.jsonl"
    size = stamp(str(path))
    if size is None or size[1] > LARGEST_FAULTS:
        notes.append("Its faults are not shown: there is no faults.jsonl, or it is too large.")
        return []
    try:
        return join_faults(read_lines(path, FaultEvent, notes))
    except OSError:
        notes.append("faults.jsonl cannot be read.")
        return []


def _availability(reader: StoreReader, folder: Path, path: str) -> list[dict[str, Any]] | None:
    columns = ["fault_window", "seconds", "available_s", "availability"]
    rows = reader.gold.rows("availability", columns, pc.field("run") == path)
    return rows or run_tables(folder, "availability")


def _end(side: Side) -> int:
    """Return the end of the time axis of ``side`` in µs."""
    moments = [len(side.service.invoked) * 1_000_000]
    moments += [band.end or band.start for band in side.bands]
    return max(*moments, 1_000_000) if len(moments) > 1 else max(moments[0], 1_000_000)


def _facts(left: Side, right: Side) -> list[tuple[str, str, str]]:
    tables = [dict(words.facts(side.test)) for side in (left, right)]
    names = [*tables[0], *(name for name in tables[1] if name not in tables[0])]
    return [(n, clip(tables[0].get(n), 400), clip(tables[1].get(n), 400)) for n in names]


def _checkers(left: Side, right: Side) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    names = [name for side in (left, right) if side.verdict for name in side.verdict.checkers]
    return [
        (clip(name, 100), _said(left.verdict, name), _said(right.verdict, name))
        for name in dict.fromkeys(names)
    ]


def _said(verdict: Verdict | None, name: str) -> dict[str, str]:
    result = verdict.checkers.get(name) if verdict else None
    if result is None:
        return {"css": "none", "text": "was not run", "first": ""}
    first = result.anomalies[0].explanation if result.anomalies else ""
    return {
        "css": words.CLASSES[result.valid],
        "text": f"{words.SIGNS[result.valid]} {words.LABELS[result.valid]}: "
        + clip(words.checker_reason(result), 200),
        "first": clip(first, 400),
    }


def options_that_differ(
    left: Mapping[str, Any], right: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Return (option, left, right) for all options that differ between two ``test.json``."""
    flat = [dict(_flat(test, "")) for test in (left, right)]
    names = sorted(flat[0].keys() | flat[1].keys())
    rows = [(name, flat[0].get(name, "–"), flat[1].get(name, "–")) for name in names]
    return [row for row in rows if row[1] != row[2]][:MAX_OPTIONS]


def _flat(value: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, entry in value.items():
        if not prefix and key in LEFT_OUT:
            continue
        name = clip(f"{prefix}{key}", 120)
        if isinstance(entry, dict) and prefix.count(".") < 3:
            rows += _flat(entry, f"{name}.")
        else:
            text = entry if isinstance(entry, str) else msgspec.json.encode(entry).decode()
            rows.append((name, clip(text, 300)))
    return rows


def _service(left: Side, right: Side) -> list[tuple[str, str, str]]:
    rows = [("Seconds with service", left.service.availability, right.service.availability)]
    names = dict.fromkeys([*left.service.rows, *right.service.rows])
    for name in sorted(names, key=lambda name: (name != "all", name)):
        pair = [side.service.rows.get(name) for side in (left, right)]
        counts = [row.counts if row else "–" for row in pair]
        latency = [row.latency if row else "–" for row in pair]
        rows.append((f"{name}: operations", counts[0], counts[1]))
        rows.append((f"{name}: latency of ok", latency[0], latency[1]))
    return rows


def _windows(left: Side, right: Side) -> list[tuple[str, str, str]] | None:
    """Return the availability by the kinds of faults in force; None if no table has it."""
    if left.windows is None and right.windows is None:
        return None
    tables = [
        {
            clip(row["fault_window"], 100): f"{100 * (row['availability'] or 0):.1f} % "
            f"({row['available_s']} of {row['seconds']} s)"
            for row in side.windows or []
        }
        for side in (left, right)
    ]
    names = sorted(tables[0].keys() | tables[1].keys(), key=lambda n: (n != "none", n))
    return [(n, tables[0].get(n, "–"), tables[1].get(n, "–")) for n in names]


def _faults(left: Side, right: Side) -> list[tuple[str, str, str]]:
    counts = [Counter(f"{b.kind}/{b.shape}" for b in side.bands) for side in (left, right)]
    names = sorted(counts[0].keys() | counts[1].keys())
    return [(clip(n, 100), str(counts[0][n]), str(counts[1][n])) for n in names]
