"""Values that never decrease.

There are two kinds of histories. In the first, ``add`` operations precede a final ``read`` of all
rows, each a map of ``val``, ``sts`` (the database's own time), ``proc``, ``node``, ``tb``. Rows are
in the order of time, and so must be the values, globally (option ``global?``, default true) and per
process. No value is lost, duplicated, or present although its add failed
(jepsen.cockroach.monotonic). In the second, reads return one number per key: no process may see it
decrease. With ``linearizable?`` no read may return less than a read that ended before it began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import Any

from kraftwreck.checkers.jepsen.judgement import (
    Judgement,
    Options,
    interval_text,
    name,
    pairs,
    plain_list,
    some,
    unknown,
)
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly

Row = dict[str, Any]
_GROUPS = (("process", "proc"), ("node", "node"), ("table", "tb"))


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Check rows or numbers, whichever the reads return."""
    history = list(events)
    reads = [e for e in history if e.f == "read" and e.type == "ok" and e.value is not None]
    if not reads:
        return unknown("Set was never read")
    if isinstance(reads[-1].value, list):
        return _rows(history, reads[-1], options)
    return _numbers(history, options)


def _rows(history: list[Event], final: Event, options: Options) -> Judgement:
    rows: list[Row] = final.value
    for row in rows:
        if not isinstance(row, dict) or "val" not in row:
            raise final.refuse("must be a list of rows with a 'val'")
    added: dict[str, set[Hashable]] = {"ok": set(), "fail": set(), "info": set()}
    for event in history:
        if event.f == "add" and event.type != "invoke":
            added[event.type].add(freeze(_value_of(event)))
    counts = Counter(freeze(row["val"]) for row in rows)
    read = set(counts)
    twice = {value for value, count in counts.items() if count > 1}
    lost = added["ok"] - read
    revived = read & added["fail"]
    recovered = read & added["info"]
    stamps = _descents([row for row in rows if row.get("sts") is not None], "sts", _not_less)
    values = _descents(rows, "val", _less)
    result: dict[str, Any] = {
        "revived": interval_text(revived),
        "recovered": interval_text(recovered),
        "lost": interval_text(lost),
        "duplicates": plain_list(twice),
        "order-by-errors": stamps,
        "value-reorders": values,
    }
    for label, field in _GROUPS:
        result[f"value-reorders-per-{label}"] = _descents_by(rows, field)
    whole = options.get("global?", True) or options.get("linearizable?")
    per_process = result["value-reorders-per-process"]
    faults = (
        ("lost", lost, f"Certainly added, but not in the last read: {some(lost)}."),
        ("duplicates", twice, f"More than once in the last read: {some(twice)}."),
        ("revived", revived, f"Read although the add failed: {some(revived)}."),
        ("order-by-errors", stamps, f"The rows are not in the order of their times: {stamps[:1]}."),
        (
            "value-reorders",
            values if whole else None,
            f"Later rows have smaller or equal values: {values[:1]}.",
        ),
        (
            "value-reorders-per-process",
            any(per_process.values()),
            "Later rows of one process have smaller or equal values.",
        ),
    )
    anomalies = [
        Anomaly(type=kind, explanation=text, operations=[final.index])
        for kind, found, text in faults
        if found
    ]
    result["valid?"] = not anomalies
    return Judgement(result=result, anomalies=anomalies)


def _value_of(event: Event) -> Any:
    return event.value.get("val") if isinstance(event.value, dict) else event.value


def _less(a: Any, b: Any) -> bool:
    return bool(a < b)


def _not_less(a: Any, b: Any) -> bool:
    return bool(a <= b)


def _descents(rows: list[Row], field: str, holds: Callable[[Any, Any], bool]) -> list[list[Row]]:
    """Return the pairs of successive rows whose ``field`` is not in order."""
    return [[a, b] for a, b in pairwise(rows) if not holds(_key(a[field]), _key(b[field]))]


def _key(value: Any) -> Any:
    # Times may be decimals in text form.
    if isinstance(value, str):
        try:
            whole, _, fraction = value.partition(".")
            return (int(whole), fraction.ljust(32, "0"))
        except ValueError:
            return (0, value)
    return value


def _descents_by(rows: list[Row], field: str) -> dict[str, list[list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get(field)), []).append(row)
    return {group: _descents(groups[group], "val", _less) for group in sorted(groups)}


def _numbers(history: list[Event], options: Options) -> Judgement:
    partner = pairs(history)
    last: dict[tuple[Hashable, int | None], Event] = {}
    ended: dict[Hashable, list[tuple[int, Event]]] = {}
    place = {id(event): position for position, event in enumerate(history)}
    errors = []
    anomalies = []
    for position, event in enumerate(history):
        if event.f != "read" or event.type != "ok" or event.value is None:
            continue
        if isinstance(event.value, bool) or not isinstance(event.value, int | float):
            raise event.refuse("must be a number")
        key = freeze(event.key)
        before = last.get((key, event.process))
        if options.get("linearizable?"):
            # The greatest value that any read had returned before this one began.
            begun = partner.get(position)
            start = place[id(begun)] if begun is not None else position
            tops = ended.setdefault(key, [])
            at = bisect_left(tops, start, key=lambda top: top[0])
            before = tops[at - 1][1] if at else None
            if not tops or event.value > tops[-1][1].value:
                tops.append((position, event))
        if before is not None and event.value < before.value:
            errors.append([{"op-index": before.index}, {"op-index": event.index}])
            text = (
                f"The read {event.index} of key {name(key)} returned {event.value}, "
                f"after read {before.index} had returned {before.value}."
            )
            anomalies.append(
                Anomaly(
                    type="nonmonotonic", explanation=text, operations=[before.index, event.index]
                )
            )
        last[key, event.process] = event
    return Judgement(result={"valid?": not errors, "errors": errors}, anomalies=anomalies)
