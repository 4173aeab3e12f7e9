"""The lag of polls: the least time for which newer messages had certainly existed.

Source: jepsen.tests.kafka (``realtime-lag``). Offset n is out of date from the first event
that shows that offset n + 1 exists.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.jepsen.judgement import pairs
from kraftwreck.checkers.jepsen.kafka.operations import Operation


def worst_lag(operations: list[Operation]) -> dict[str, Any]:
    """Return the greatest lag of any completed poll, times in nanoseconds."""
    shown: dict[str, list[tuple[int, int]]] = {}
    """Per key (offset, time): increasing offsets, each known to exist from that time on."""
    highest = [_offsets(operation) for operation in operations]
    for operation, offsets in zip(operations, highest, strict=True):
        for key, offset in offsets.items():
            steps = shown.setdefault(key, [])
            if not steps or offset > steps[-1][0]:
                steps.append((offset, operation.event.time))
    partner = pairs(operation.event for operation in operations)
    positions: dict[int | None, dict[str, int]] = {}
    worst: dict[str, Any] = {"time": 0, "lag": 0}
    found = False
    for operation, offsets in zip(operations, highest, strict=True):
        process = operation.event.process
        if operation.type != "ok":
            continue
        if operation.f == "assign":
            held = positions.get(process, {})
            positions[process] = {key: held.get(key, -1) for key in sorted(operation.keys)}
        elif operation.f == "subscribe":
            positions[process] = {}
        elif operation.f in ("poll", "txn"):
            begun = partner.get(operation.number)
            moment = (begun or operation.event).time
            at = positions.setdefault(process, {})
            for key, offset in offsets.items():
                at[key] = max(at.get(key, offset), offset)
            for key, offset in at.items():
                lag = max(moment - _expired(shown.get(key, []), offset), 0)
                if not found or lag > worst["lag"]:
                    worst = {"time": moment, "process": process, "key": key, "lag": lag}
                    found = True
    return worst


def _offsets(operation: Operation) -> dict[str, int]:
    """Return the highest offset of each key that the operation shows to exist."""
    highest: dict[str, int] = {}
    for _, _, key, (offset, _) in operation.moves:
        if offset is not None:
            highest[key] = max(highest.get(key, offset), offset)
    return highest


def _expired(steps: list[tuple[int, int]], offset: int) -> float:
    """Return when ``offset`` was no longer the last one."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if steps[middle][0] > offset:
            high = middle
        else:
            low = middle + 1
    return steps[low][1] if low < len(steps) else float("inf")
