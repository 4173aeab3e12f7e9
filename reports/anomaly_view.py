"""Anomalies as people read them: explanation, proving operations, proving trace events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from histories.operation import Op
from histories.verdict import Verdict
from reports.cycle_view import CycleDrawing, cycles_of, draw_cycle
from reports.drawing import Drawing
from reports.evidence import draw_evidence
from reports.linearization import windows_of
from reports.node_lanes import Clocks
from reports.operations import NEVER, TYPES, Operations, value_text
from reports.plain import meaning
from reports.window_view import draw_window
from reports.words import seconds_text, span_text

MAX_ANOMALIES = 500
MAX_OPERATIONS = 100
"""More than these are counted, not listed; ``results.json`` has all."""

MAX_VALUE = 2000
EVENT_FIELDS = (
    "node", "incarnation", "seq", "kind", "state", "epoch", "leader", "leo", "hw",
)  # fmt: skip


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
class AnomalyView:
    """One anomaly, ready to be shown. ``number`` counts from 1. It has a ``window`` or a
    ``cycle`` where its checker told of one, else a ``drawing`` of its operations."""

    number: int
    checker: str
    type: str
    explanation: str
    operations: list[ProvingOperation]
    more_operations: int
    missing: list[int]
    events: list[ProvingEvent]
    more_events: int
    start: int | None
    end: int | None
    meaning: str = ""
    drawing: Drawing | None = None
    window: Drawing | None = None
    cycle: CycleDrawing | None = None

    def as_json(self) -> dict[str, Any]:
        """What the page needs to zoom to it and to mark what proves it."""
        return {
            "type": self.type,
            "checker": self.checker,
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
        index=str(invoke) if completion < 0 else f"{invoke}–{completion}",
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
    verdict: Verdict | None, history: list[Op], ops: Operations, clock: Clocks
) -> list[AnomalyView]:
    """Return the anomalies of ``verdict`` in checker order, at most :data:`MAX_ANOMALIES`."""
    if verdict is None:
        return []
    found = [
        (name, position, anomaly)
        for name, result in verdict.checkers.items()
        for position, anomaly in enumerate(result.anomalies)
    ]
    windows = {n: windows_of(result, history) for n, result in verdict.checkers.items()}
    cycles = {n: cycles_of(result) for n, result in verdict.checkers.items()}
    wanted = {index for _, _, anomaly in found[:MAX_ANOMALIES] for index in anomaly.operations}
    row_of = ops.rows_of(wanted)
    rows_wanted = sorted(set(row_of.values()))
    indices = {*ops.invoke[rows_wanted].tolist(), *ops.completion[rows_wanted].tolist()}
    by_index = {op.index: op for op in history if op.index in indices}
    views = []
    for number, (checker, position, anomaly) in enumerate(found[:MAX_ANOMALIES], 1):
        # An anomaly may name the invocation, the completion or both: one row each.
        rows = sorted({row_of[i] for i in anomaly.operations if i in row_of})
        events = [_event(e, clock) for e in anomaly.events[:MAX_OPERATIONS]]
        times = [e.at for e in events if e.at is not None]
        for row in rows:
            start, latency = int(ops.start[row]), int(ops.latency[row])
            times += [start, start + (0 if latency == NEVER else latency)]
        window = windows[checker].get(position)
        cycle = cycles[checker].get(position)
        views.append(
            AnomalyView(
                number=number,
                checker=checker,
                type=anomaly.type,
                explanation=anomaly.explanation,
                operations=[_operation(ops, row, by_index) for row in rows[:MAX_OPERATIONS]],
                more_operations=max(len(rows) - MAX_OPERATIONS, 0),
                missing=[i for i in anomaly.operations if i not in row_of],
                events=events,
                more_events=max(len(anomaly.events) - MAX_OPERATIONS, 0),
                start=min(times, default=None),
                end=max(times, default=None),
                meaning=meaning(anomaly.type),
                drawing=draw_evidence(ops, rows) if window is None and cycle is None else None,
                window=None if window is None else draw_window(window),
                cycle=None if cycle is None else draw_cycle(cycle),
            )
        )
    return views
