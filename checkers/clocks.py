"""Clocks of nodes against the test's clock, and when a node could not look at its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from histories.fault import FaultEvent

_FOREVER = 1 << 62


def clock_offsets(test: dict[str, Any]) -> dict[str, int]:
    """Per node, what its monotonic clock read (µs) when the test's clock read 0."""
    offsets = {}
    clock = test.get("clock")
    for node, value in clock.items() if isinstance(clock, dict) else ():
        offset = value.get("offset_us") if isinstance(value, dict) else value
        if isinstance(offset, int):
            offsets[node] = offset
    return offsets


def pauses(faults: Iterable[FaultEvent]) -> dict[str, list[tuple[int, int]]]:
    """Per node, when its process was stopped (ns): from the start's time to the stop's end."""
    begun: dict[int, FaultEvent] = {}
    spans: dict[str, list[tuple[int, int]]] = {}
    for fault in faults:
        if fault.kind != "pause":
            continue
        if fault.phase == "start":
            begun[fault.id] = fault
            continue
        start = begun.pop(fault.id, None)
        if start is not None:
            for node in {*start.targets, *fault.targets}:
                spans.setdefault(node, []).append((start.time, fault.done))
    for start in begun.values():
        for node in start.targets:
            spans.setdefault(node, []).append((start.time, _FOREVER))
    return spans
