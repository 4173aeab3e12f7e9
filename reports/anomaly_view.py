"""Anomalies as the report shows them: one entry per fact, with rules, operations and events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.checkers import members
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import Anomaly, Verdict
from kraftwreck.reports.cycle_view import CyclePicture, cycles_of, draw_cycle
from kraftwreck.reports.drawing import Picture
from kraftwreck.reports.evidence import draw_evidence
from kraftwreck.reports.facts import Report, event_identity, facts_of
from kraftwreck.reports.linearization import windows_of
from kraftwreck.reports.node_lanes import Clocks
from kraftwreck.reports.operations import NEVER, TYPES, Operations, value_text
from kraftwreck.reports.plain import is_liveness, meaning
from kraftwreck.reports.window_view import draw_window
from kraftwreck.reports.words import seconds_text, span_text

MAX_OPERATIONS = 100
"""At most this many are listed per anomaly; ``results.json`` has all."""

MAX_VALUE = 2000
EVENT_FIELDS = {
    "node": "node", "incarnation": "incarnation", "seq": "number", "kind": "event",
    "state": "role", "epoch": "epoch", "leader": "leader", "leo": "log end",
    "hw": "high watermark",
}  # fmt: skip
"""The fields of trace events that have a column, and the heading of each."""


@dataclass
class ProvingOperation:
    """One operation of an anomaly's table; ``row`` is its row in :class:`Operations`."""

    row: int
    index: str
    process: int
    f: str
    type: str
    key: str
    value: str
    time: str
    latency: str
    node: str
    error: str


@dataclass
class ProvingEvent:
    """One trace event of an anomaly's table; ``at`` is history time in µs or None."""

    fields: list[str]
    time: str
    at: int | None
    node: str
    detail: str


@dataclass
class Seen:
    """A rule that reports an anomaly, with its explanation and the meaning of its type."""

    checker: str
    type: str
    explanation: str
    meaning: str


@dataclass
class AnomalyView:
    """One fact as it is shown; ``number`` counts from 1.

    ``seen`` are the rules that report it; the explanation and picture of the first are shown. The
    picture is a ``cycle`` or a ``picture`` of operations, or there is none. ``start`` and ``end``
    are history times in µs, None if no evidence has a time.
    """

    number: int
    seen: list[Seen]
    operations: list[ProvingOperation]
    more_operations: int
    missing: list[int]
    events: list[ProvingEvent]
    more_events: int
    start: int | None
    end: int | None
    when: str = ""
    picture: Picture | None = None
    cycle: CyclePicture | None = None

    @property
    def type(self) -> str:
        """The anomaly type of the first rule."""
        return self.seen[0].type

    @property
    def explanation(self) -> str:
        """The explanation by the first rule."""
        return self.seen[0].explanation

    def leave_times_out(self) -> None:
        """Remove all times, for a history without times, where they are only positions."""
        self.start = self.end = None
        self.when = ""
        for operation in self.operations:
            operation.time = operation.latency = ""

    def as_json(self) -> dict[str, Any]:
        """Return the data with which the page zooms to the anomaly and marks its evidence."""
        return {
            "type": self.type,
            "checker": ", ".join(dict.fromkeys(seen.checker for seen in self.seen)),
            "explanation": self.explanation[:400],
            "rows": [op.row for op in self.operations],
            "events": [[e.node, e.at] for e in self.events if e.at is not None],
            "start": self.start,
            "end": self.end,
        }


def _operation(ops: Operations, row: int, history: dict[int, Op]) -> ProvingOperation:
    invoke, completion = int(ops.invoke[row]), int(ops.completion[row])
    sent = history[invoke]
    seen = history.get(completion)
    latency = int(ops.latency[row])
    parts = []
    if sent.value is not None:
        parts.append(value_text(sent.value, MAX_VALUE))
    if seen is not None and seen.value is not None and seen.value != sent.value:
        parts.append(f"→ {value_text(seen.value, MAX_VALUE)}")
    elif seen is not None and seen.value is None and seen.type == "ok" and not parts:
        parts.append("→ null")
    return ProvingOperation(
        row=row,
        index=str(invoke) if completion in (-1, invoke) else f"{invoke}–{completion}",
        process=int(ops.process[row]),
        f=sent.f,
        type=TYPES[int(ops.type[row])],
        key="" if sent.key is None else value_text(sent.key),
        value=" ".join(parts),
        time=seconds_text(float(ops.start[row])),
        latency="never ended" if latency == NEVER else span_text(latency),
        node=ops.texts[int(ops.node[row])],
        error=(seen.error or "") if seen is not None else "",
    )


def _event(event: dict[str, Any], clock: Clocks) -> ProvingEvent:
    node, mono = str(event.get("node", "")), event.get("mono")
    at = clock.history_time(node, mono) if isinstance(mono, int) else None
    detail = {
        k: v
        for k, v in event.items()
        if k not in (*EVENT_FIELDS, "mono", "wall", "detail") and not (k == "voted" and v == -1)
    }
    if isinstance(event.get("detail"), dict):
        detail |= event["detail"]
    return ProvingEvent(
        fields=["" if event.get(name) is None else str(event[name]) for name in EVENT_FIELDS],
        time="" if at is None else seconds_text(at),
        at=at,
        node=node,
        detail=value_text(detail, MAX_VALUE) if detail else "",
    )


def anomaly_views(
    verdict: Verdict | None,
    history: list[Op],
    ops: Operations,
    clock: Clocks,
    circumstances: Callable[[int | None], str],
) -> list[AnomalyView]:
    """Return the facts of ``verdict``, the most important first (:func:`_rank`).

    ``circumstances`` describes the state of the system at a time in µs.
    """
    if verdict is None:
        return []
    named = {
        index
        for result in verdict.checkers.values()
        for anomaly in result.anomalies
        for index in anomaly.operations
    }
    row_of = ops.rows_of(named)
    facts = facts_of(verdict, row_of)
    windows = {n: windows_of(result, history) for n, result in verdict.checkers.items()}
    cycles = {n: cycles_of(result) for n, result in verdict.checkers.items()}
    rows = sorted(set(row_of.values()))
    indices = {*ops.invoke[rows].tolist(), *ops.completion[rows].tolist()}
    by_index = {op.index: op for op in history if op.index in indices}
    views = []
    for fact in facts:
        reports = sorted(
            fact.reports,
            key=lambda r: (
                r.position not in windows[r.checker] and r.position not in cycles[r.checker],
                not r.anomaly.operations,
            ),
        )
        lead = reports[0]
        view = _view([r.anomaly for r in reports], ops, by_index, row_of, clock)
        view.seen = _seen(reports)
        view.when = circumstances(view.start)
        window = windows[lead.checker].get(lead.position)
        cycle = cycles[lead.checker].get(lead.position)
        view.cycle = None if cycle is None else draw_cycle(cycle)
        if window is not None:
            view.picture = draw_window(window)
        elif view.cycle is None:
            view.picture = draw_evidence(ops, [op.row for op in view.operations])
        views.append(view)
    views.sort(key=_rank)
    for number, view in enumerate(views, 1):
        view.number = number
    return views


def _rank(view: AnomalyView) -> tuple[int, float]:
    """Sort key: members that differ come first, as they explain what clients saw; then
    contradictions among operations, other operations, nodes, liveness."""
    if view.type == members.DIFFER:
        return -1, 0.0
    contradiction = view.cycle or (view.picture and view.picture.orders)
    group = 0 if contradiction else 1 if view.operations else 2
    group = 3 if is_liveness(view.type) else group
    return group, math.inf if view.start is None else view.start


def _seen(reports: Sequence[Report]) -> list[Seen]:
    """Return the rules of ``reports``, each once, with its first explanation."""
    seen: dict[tuple[str, str], Seen] = {}
    for report in reports:
        kind = report.anomaly.type
        explanation = report.anomaly.explanation
        seen.setdefault(report.rule, Seen(report.checker, kind, explanation, meaning(kind)))
    return list(seen.values())


def _view(
    anomalies: Sequence[Anomaly],
    ops: Operations,
    by_index: dict[int, Op],
    row_of: Mapping[int, int],
    clock: Clocks,
) -> AnomalyView:
    """Return the evidence of one fact, with each operation and trace event once."""
    named = dict.fromkeys(i for anomaly in anomalies for i in anomaly.operations)
    # A rule may name the invocation, the completion or both: show one row each.
    rows = sorted({row_of[i] for i in named if i in row_of})
    told = {event_identity(e): e for anomaly in anomalies for e in anomaly.events}
    events = [_event(e, clock) for e in list(told.values())[:MAX_OPERATIONS]]
    events.sort(key=lambda e: math.inf if e.at is None else e.at)
    times = [e.at for e in events if e.at is not None]
    for row in rows:
        start, latency = int(ops.start[row]), int(ops.latency[row])
        times += [start, start + (0 if latency == NEVER else latency)]
    if not times:
        times = [anomaly.time for anomaly in anomalies if anomaly.time is not None]
    return AnomalyView(
        number=0,
        seen=[],
        operations=[_operation(ops, row, by_index) for row in rows[:MAX_OPERATIONS]],
        more_operations=max(len(rows) - MAX_OPERATIONS, 0),
        missing=[i for i in named if i not in row_of],
        events=events,
        more_events=max(len(told) - MAX_OPERATIONS, 0),
        start=min(times, default=None),
        end=max(times, default=None),
    )
