"""A failing run on hosts as Markdown for an issue tracker: versions, commands, faults, anomaly."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraftwreck.campaigns.repeated import Shrunk
from kraftwreck.harness.options import repeat_command
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.reading import read_faults
from kraftwreck.histories.verdict import stored_verdict

FILE = "bug-report.md"
_NS = 1e9


def report(shrunk: Shrunk, failure: str) -> str:
    """Return the report of the smallest failing run. Raises OSError for an unreadable folder."""
    test: dict[str, Any] = json.loads((shrunk.failing / "test.json").read_bytes())
    checker, _, kind = failure.partition(":")
    anomalies = stored_verdict(shrunk.failing).checkers[checker].anomalies
    told = [anomaly.explanation for anomaly in anomalies if anomaly.type == kind]
    options = replace(shrunk.options, store=Path("store"), seed=int(test["seed"]))
    nodes = f"{options.nodes} nodes, {options.concurrency} client threads, {options.rate:g} op/s"
    faults = ", ".join(options.faults) or "no faults"
    counted = f"{shrunk.hits} of {shrunk.runs}" if shrunk.runs else "not counted"
    lines = [
        f"# {options.system}: {kind} under {faults}",
        "",
        f"The checker `{checker}` judges a run of {options.time_limit_s:g} s INVALID ({nodes}):",
        "",
        f"> {told[0]}",
        "",
        f"It reported {len(told)} of this kind. Runs that failed so: {counted}.",
        "",
        "## Repeat",
        "",
        "```console",
        f"$ {repeat_command(options)}",
        "```",
        "",
        "Processes on hosts do not run in lockstep, so a seed repeats the faults, not the failure.",
        "",
        "## Versions",
        "",
        *(f"- {name}: {_version(value)}" for name, value in test["versions"].items()),
        f"- machine: {platform.machine()}",
        "",
        "## Faults of the failing run",
        "",
        "| from (s) | to (s) | fault | targets |",
        "|--:|--:|---|---|",
        *_faults(read_faults(shrunk.failing)),
    ]
    if shrunk.tried:
        lines += ["", "## Smaller tests", "", *(f"- {line}" for line in shrunk.tried)]
    return "\n".join(lines) + "\n"


def _version(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _faults(events: list[FaultEvent]) -> list[str]:
    ends = {event.id: event for event in events if event.phase == "stop"}
    rows = []
    for event in events:
        if event.phase != "start":
            continue
        end = f"{ends[event.id].time / _NS:.1f}" if event.id in ends else "the end"
        targets = ", ".join(event.targets) or "–"
        fault = f"{event.kind} {event.shape}"
        rows.append(f"| {event.time / _NS:.1f} | {end} | {fault} | {targets} |")
    return rows
