"""One self-contained HTML page per run, without network or other files.

All text is rendered here, so that the findings can be read without a script. The script draws the
charts from data embedded in the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from kraftwreck.histories.operation import INVOKE
from kraftwreck.histories.system_name import system_of
from kraftwreck.reports import words
from kraftwreck.reports.anomaly_view import EVENT_FIELDS, AnomalyView, anomaly_views
from kraftwreck.reports.bands import Band, join_faults
from kraftwreck.reports.downloads import downloads, write_downloads
from kraftwreck.reports.facts import MAX_REPORTS
from kraftwreck.reports.log_pictures import log_pictures
from kraftwreck.reports.log_positions import PartitionLogs, partition_logs
from kraftwreck.reports.messages import Diagram, diagram, moments_of
from kraftwreck.reports.node_lanes import NodeLane, clocks, node_lane
from kraftwreck.reports.operations import TYPES, Operations, join_operations, seconds
from kraftwreck.reports.packing import pack_columns, pack_json, pack_text, script_json, smallest
from kraftwreck.reports.page import ASSETS, environment, policy, style
from kraftwreck.reports.plain import circumstances
from kraftwreck.reports.run_folder import Run, load_run
from kraftwreck.reports.suspicion_view import suspicion_views
from kraftwreck.reports.tables import files, latency_words, leaders, numbers, type_counts
from kraftwreck.systems.shown import shown

SCRIPTS = (
    "data.js", "view.js", "paint.js", "faults.js", "nodes.js", "messages.js",
    "filter.js", "totals.js", "operations.js", "latency.js", "clock.js", "tooltip.js", "orders.js",
    "report.js",
)  # fmt: skip
LISTED = 25
"""Anomalies listed at first; a button shows the others."""


def write_report(run_folder: Path, *, all_downloads: bool = False) -> Path:
    """Write ``report.html`` into ``run_folder`` and return its path.

    The file is written completely or not at all. The files of
    :func:`~reports.downloads.write_downloads` are written, too; for a long run only with
    ``all_downloads``. Raises
    :class:`~reports.run_folder.RunFolderError` when the folder cannot be read.
    """
    run = load_run(run_folder)
    write_downloads(run, always=all_downloads)
    path = run.folder / "report.html"
    temporary = path.with_name("report.html.tmp")
    temporary.write_text(render_report(run), encoding="utf-8")
    temporary.replace(path)
    return path


def render_report(run: Run) -> str:
    """Return the page for ``run``."""
    notes = run.notes + _harness_notes(run.test)
    concurrency = run.test.get("concurrency")
    ops = join_operations(run.ops, concurrency if isinstance(concurrency, int) else None)
    if ops.orphans:
        notes.append(f"{words.plural(ops.orphans, 'completion')} without an invocation.")
    bands = join_faults(run.faults)
    clock = clocks(run.test, run.traces)
    if run.traces and not clock.known:
        notes.append("Node clocks were not measured; each node's first event is shown at 0 s.")
    end = _end(run, ops, bands)
    lanes = [node_lane(n, run.traces.get(n, []), run.faults, clock, end) for n in run.nodes]
    anomalies = anomaly_views(
        run.verdict, run.ops, ops, clock, lambda at: circumstances(at, lanes, bands)
    )
    if not run.timed:
        for anomaly in anomalies:
            anomaly.leave_times_out()
    suspicions = suspicion_views(run.verdict, clock)
    elections = [s.start for lane in lanes for s in lane.segments if s.state == "leader"]
    moments = moments_of(((a.start, a.end) for a in anomalies), elections)
    messages = Diagram() if run.bare else diagram(run, moments, clock)
    if messages.note:
        notes.append(messages.note)
    css, script = style(), _script()
    logs = partition_logs(run.traces, lanes, clock, end, shown(system_of(run.test)))
    drawn = _Drawn(end, ops, lanes, bands, anomalies, messages, logs)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            **_of_the_run(run, len(anomalies), _scope(run, len(ops), len(bands))),
            **_of_the_timeline(drawn),
            suspicions=suspicions,
            notes=notes,
            css=Markup(css),  # noqa: S704 - our own asset
            script=Markup(script),  # noqa: S704 - our own asset
            policy=policy(css, script),
        )
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The content of a page's timeline, which ends at ``end`` (nanoseconds)."""

    end: int
    ops: Operations
    lanes: list[NodeLane]
    bands: list[Band]
    anomalies: list[AnomalyView]
    messages: Diagram
    logs: list[PartitionLogs]


def _scope(run: Run, operations: int, faults: int) -> str:
    if run.bare:
        return words.plural(operations, "operation") + str(run.test["without"])
    final = sum(op.final and op.type == INVOKE for op in run.ops)
    events = sum(len(rows) for rows in run.traces.values())
    return words.run_scope(operations - final, final, events, faults)


def _of_the_run(run: Run, anomalies: int, scope: str) -> dict[str, Any]:
    """Return the template's values about the run as a whole."""
    beside, missing = ([], []) if run.bare else downloads(run.folder)
    return {
        **_verdict_words(run, anomalies, scope),
        "bare": run.bare,
        "traced": bool(run.traces),
        "timed": run.timed,
        "name": words.run_name(run.test),
        "seed": run.test.get("seed", "unknown"),
        "started": words.started(run.test),
        "brief_facts": "" if run.bare else words.brief_facts(run.test),
        "facts": run.test["facts"] if run.bare else words.facts(run.test),
        "repeat": words.repeat_command(run.test),
        "left_out": max(_anomaly_count(run) - MAX_REPORTS, 0),
        "files": [] if run.bare else files(run.folder),
        "downloads": beside,
        "missing_downloads": missing,
        "test": run.test,
    }


def _of_the_timeline(drawn: _Drawn) -> dict[str, Any]:
    """Return the template's values about operations, nodes, faults, anomalies and messages."""
    ops, lanes = drawn.ops, drawn.lanes
    fs = {int(i): ops.texts[int(i)] for i in np.unique(ops.f)}
    data = {
        "end": drawn.end,
        "lanes": ops.lanes,
        "types": TYPES,
        "fs": fs,
        "nodes": [lane.as_json() for lane in lanes],
        "faults": [band.as_json() for band in drawn.bands],
        "anomalies": [anomaly.as_json() for anomaly in drawn.anomalies],
        "seconds": seconds(ops),
        "messages": pack_json(drawn.messages.as_json()),
    }
    return {
        "lanes": lanes,
        "anomalies": drawn.anomalies,
        "listed": LISTED,
        "event_fields": list(EVENT_FIELDS.values()),
        "bands": drawn.bands,
        "operation_count": f"{len(ops):,}",
        "type_counts": type_counts(ops),
        "latency_words": latency_words(ops),
        "fs": fs,
        "numbers": numbers(ops),
        "messages": drawn.messages,
        "any_clock": any(lane.ahead for lane in lanes),
        "leaders": leaders(lanes),
        "partitions": log_pictures(drawn.logs, drawn.end),
        "partition_count": len(drawn.logs),
        "data": script_json(data),
        "plot": script_json(_plot(ops)),
        "details": script_json(_details(ops)),
    }


def _script() -> str:
    parts = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    if "</script" in parts.lower():
        raise ValueError("an asset would end its own script element")
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _end(run: Run, ops: Operations, bands: list[Band]) -> int:
    """Return the end of the time axis in µs, after the last operation and the last fault."""
    moments = [ops.end, *(b.start for b in bands), *(b.end for b in bands if b.end)]
    limit = run.test.get("time_limit_s")
    if not len(ops) and isinstance(limit, int | float):
        moments.append(int(limit * 1e6))
    return max(max(moments, default=0), 1_000_000)


def _harness_notes(test: dict[str, Any]) -> list[str]:
    """Return the problems that the harness recorded."""
    errors = test.get("errors")
    notes = [f"Harness: {error}" for error in errors] if isinstance(errors, list) else []
    if test.get("interrupted"):
        notes.append("The run was interrupted before its time limit.")
    return notes


def _verdict_words(run: Run, found: int, scope: str) -> dict[str, Any]:
    valid = None if run.verdict is None else run.verdict.valid
    checkers = {} if run.verdict is None else run.verdict.checkers
    return {
        "verdict_label": words.LABELS[valid],
        "verdict_class": words.CLASSES[valid],
        "verdict_sign": words.SIGNS[valid],
        "sentence": words.verdict_sentence(run.verdict, found, scope),
        "checkers": [
            {
                "name": name,
                "css": words.CLASSES[result.valid],
                "sign": words.SIGNS[result.valid],
                "label": words.LABELS[result.valid],
                "anomalies": f"{len(result.anomalies):,}",
                "reason": words.checker_reason(result),
                "stats": result.stats,
            }
            for name, result in checkers.items()
        ],
    }


def _anomaly_count(run: Run) -> int:
    return sum(len(c.anomalies) for c in run.verdict.checkers.values()) if run.verdict else 0


def _plot(ops: Operations) -> dict[str, Any]:
    """Return the columns for all charts."""
    gaps = np.diff(ops.start, prepend=0)
    large = bool(len(gaps)) and int(gaps.max()) > 0xFFFFFFFF
    return pack_columns(
        {
            "gap": gaps.astype(np.float64) if large else smallest(gaps),
            "latency": ops.latency.astype(np.uint32),
            "type": ops.type.astype(np.uint8),
            "lane": smallest(ops.lane),
            "f": smallest(ops.f),
        }
    )


def _details(ops: Operations) -> dict[str, Any]:
    """Return the columns for tooltips and labels, which the page unpacks on first use."""
    packed = pack_columns(
        {
            "process": ops.process.astype(np.int32),
            "node": smallest(ops.node),
            "key": smallest(ops.key),
            "sent": smallest(ops.sent),
            "seen": smallest(ops.seen),
            "error": smallest(ops.error),
            "invoke": smallest(ops.invoke),
            "completion": smallest(ops.completion + 1),
        }
    )
    return {**packed, "texts": pack_text(ops.texts)}
