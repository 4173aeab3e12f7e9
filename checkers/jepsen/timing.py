"""jepsen.checker.perf as data: latency quantiles and rates per window of time.

Points are at the middle of their window, in seconds; latencies are in milliseconds, rates in
completions per second. Never invalid: a chart is not a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, unknown
from kraftwreck.histories.events import Event

QUANTILES = (0.5, 0.95, 0.99, 1.0)
LATENCY_WINDOW_S, RATE_WINDOW_S = 30.0, 10.0
Points = dict[int, list[float]]


def check_latency(events: Iterable[Event], options: Options) -> Judgement:
    """Return quantiles of the latencies of each kind of operation and of completion."""
    window = options.get("window", LATENCY_WINDOW_S)
    quantiles = options.get("quantiles", list(QUANTILES))
    wrong = _refused(window)
    if not isinstance(quantiles, list) or not all(
        isinstance(q, int | float) and 0 <= q <= 1 for q in quantiles
    ):
        wrong = "quantiles must be a list of numbers from 0 to 1"
    if wrong:
        return unknown(wrong)
    begun: dict[int | None, Event] = {}
    found: dict[str, dict[str, Points]] = {}
    for event in events:
        if event.type == "invoke":
            begun[event.process] = event
            continue
        first = begun.pop(event.process, None)
        if first is not None:
            points = found.setdefault(event.f, {}).setdefault(event.type, {})
            place = int(first.time / 1e9 // window)
            points.setdefault(place, []).append((event.time - first.time) / 1e6)
    if not found:
        return unknown("no operation ended")
    latencies = {
        f: {
            kind: {
                str(q): [
                    [_middle(place, window), _quantile(points[place], q)]
                    for place in sorted(points)
                ]
                for q in quantiles
            }
            for kind, points in kinds.items()
        }
        for f, kinds in sorted(found.items())
    }
    return Judgement(result={"valid?": True, "window": window, "latencies": latencies})


def check_rate(events: Iterable[Event], options: Options) -> Judgement:
    """Return completions per second of each kind of operation and of completion."""
    window = options.get("window", RATE_WINDOW_S)
    wrong = _refused(window)
    if wrong:
        return unknown(wrong)
    found: dict[str, dict[str, dict[int, int]]] = {}
    last = -1
    for event in events:
        if event.type != "invoke":
            counts = found.setdefault(event.f, {}).setdefault(event.type, {})
            place = int(event.time / 1e9 // window)
            counts[place] = counts.get(place, 0) + 1
            last = max(last, place)
    if not found:
        return unknown("no operation ended")
    rates = {
        f: {
            kind: [
                [_middle(place, window), counts.get(place, 0) / window]
                for place in range(last + 1)
            ]
            for kind, counts in kinds.items()
        }
        for f, kinds in sorted(found.items())
    }  # fmt: skip
    return Judgement(result={"valid?": True, "window": window, "rates": rates})


def _refused(window: Any) -> str | None:
    if isinstance(window, bool) or not isinstance(window, int | float) or window <= 0:
        return "window must be a number of seconds above 0"
    return None


def _middle(place: int, window: float) -> float:
    return (place + 0.5) * window


def _quantile(values: list[float], q: float) -> float:
    """Return jepsen.checker.perf's quantile: the value at place n q of the sorted ones."""
    values.sort()
    return values[min(len(values) - 1, int(len(values) * q))]
