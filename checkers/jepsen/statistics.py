"""jepsen.checker ``stats`` and ``unhandled-exceptions``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly


def check_stats(events: Iterable[Event], options: Options) -> Judgement:
    """Count completions, by operation too; one that never succeeds is invalid."""
    by_f: dict[str, dict[str, int]] = {}
    for event in events:
        if event.type != "invoke":
            counts = by_f.setdefault(event.f, {"ok": 0, "fail": 0, "info": 0})
            counts[event.type] += 1
    every = {kind: sum(c[kind] for c in by_f.values()) for kind in ("ok", "fail", "info")}
    tables = {f: _table(by_f[f]) for f in sorted(by_f)}
    never = [f for f, table in tables.items() if not table["valid?"]]
    result = {**_table(every), "by-f": tables, "valid?": not never}
    anomalies = [
        Anomaly(type="never-ok", explanation=f"No operation {f!r} ever succeeded.") for f in never
    ]
    return Judgement(result=result, anomalies=anomalies)


def _table(counts: dict[str, int]) -> dict[str, Any]:
    return {
        "valid?": counts["ok"] > 0,
        "count": sum(counts.values()),
        "ok-count": counts["ok"],
        "fail-count": counts["fail"],
        "info-count": counts["info"],
    }


def check_exceptions(events: Iterable[Event], options: Options) -> Judgement:
    """List the exceptions that ended operations ``info``, the most frequent first."""
    found: dict[str, list[int]] = {}
    for event in events:
        if event.type == "info" and event.fields.get("exception"):
            found.setdefault(_class_of(event.fields["exception"]), []).append(event.index)
    result: dict[str, Any] = {"valid?": True}
    if found:
        result["exceptions"] = [
            {"count": len(places), "class": kind, "example": {"op-index": places[0]}}
            for kind, places in sorted(found.items(), key=lambda item: -len(item[1]))
        ]
    return Judgement(result=result)


def _class_of(exception: Any) -> str:
    if isinstance(exception, dict):
        via = exception.get("via")
        if isinstance(via, list) and via and isinstance(via[0], dict):
            return str(via[0].get("type"))
        return str(exception.get("type", exception.get("class")))
    return str(exception)
