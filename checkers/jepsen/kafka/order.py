"""Sends and polls compared with the order of the log.

Both faults concern two successive values of an operation (``int-``), or of the operations of one
process. *Skip*: the log has other values between them. *Nonmonotonic*: the second is not after
the first. A process starts over with the keys that it did not have before an ``assign`` or
``subscribe``. Polls of transactions that did not commit are rewound.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

from kraftwreck.checkers.jepsen.kafka.logs import Logs
from kraftwreck.checkers.jepsen.kafka.operations import Operation, Pair
from kraftwreck.checkers.linearizability.models import thaw

Errors = dict[str, list[dict[str, Any]]]


def within(operations: list[Operation], logs: Logs) -> Errors:
    """Compare the values of each operation."""
    errors: Errors = {}
    for operation in operations:
        for key, pairs in operation.reads.items():
            if key not in operation.rebalanced:
                _inside(errors, "poll", operation, key, pairs, logs)
        if operation.type != "invoke":
            for key, pairs in operation.writes.items():
                _inside(errors, "send", operation, key, pairs, logs)
    return errors


def _inside(
    errors: Errors, what: str, operation: Operation, key: str, pairs: list[Pair], logs: Logs
) -> None:
    for (_, a), (_, b) in pairwise(pairs):
        low, high = logs.index(key, a), logs.index(key, b)
        if low is None or high is None or high - low == 1:
            continue
        error = {"key": key, "values": [thaw(a), thaw(b)], "delta": high - low}
        if high > low:
            error["skipped"] = logs.between(key, low, high)
            kind = f"int-{what}-skip"
        else:
            kind = f"int-nonmonotonic-{what}"
        errors.setdefault(kind, []).append({**error, "op": operation.name})


def across(operations: list[Operation], logs: Logs) -> Errors:
    """Compare the operations of each process."""
    by_process: dict[int | None, list[Operation]] = {}
    for operation in operations:
        by_process.setdefault(operation.event.process, []).append(operation)
    errors: Errors = {}
    for own in by_process.values():
        _polls(errors, own, logs)
        _sends(errors, own, logs)
    return errors


def _polls(errors: Errors, operations: list[Operation], logs: Logs) -> None:
    last: dict[str, tuple[Operation, Hashable]] = {}
    for operation in operations:
        if operation.f in ("assign", "subscribe"):
            if operation.type in ("ok", "info"):
                last = {key: entry for key, entry in last.items() if key in operation.keys}
            continue
        for key, pairs in operation.reads.items():
            if not pairs:
                continue
            if key in last:
                before, a = last[key]
                _between(errors, "poll", before, operation, key, a, pairs[0][1], logs)
            if operation.type == "ok":
                last[key] = (operation, pairs[-1][1])


def _sends(errors: Errors, operations: list[Operation], logs: Logs) -> None:
    last: dict[str, tuple[Operation, Hashable]] = {}
    for operation in operations:
        if operation.type not in ("ok", "info"):
            continue
        if operation.f in ("assign", "subscribe"):
            last = {key: entry for key, entry in last.items() if key in operation.keys}
            continue
        for key, pairs in operation.writes.items():
            if key in last:
                before, a = last[key]
                _between(errors, "send", before, operation, key, a, pairs[0][1], logs)
            last[key] = (operation, pairs[-1][1])


def _between(
    errors: Errors,
    what: str,
    before: Operation,
    operation: Operation,
    key: str,
    a: Hashable,
    b: Hashable,
    logs: Logs,
) -> None:
    low, high = logs.index(key, a), logs.index(key, b)
    if low is None or high is None or high - low == 1:
        return
    delta = high - low
    error: dict[str, Any] = {"key": key, "delta": delta}
    if delta > 0:
        # Other producers may send between two sends of this one; that is no error.
        if what == "poll":
            error["skipped"] = logs.between(key, low, high)
            error["ops"] = [before.name, operation.name]
            errors.setdefault("poll-skip", []).append(error)
        return
    error["values"] = [thaw(a), thaw(b)]
    error["ops"] = [before.name, operation.name]
    errors.setdefault(f"nonmonotonic-{what}", []).append(error)
