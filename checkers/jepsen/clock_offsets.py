"""jepsen.checker.clock as data: the offset of each node's clock over the test.

From the nemesis' events with a field ``clock-offsets``: a map of nodes to seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, unknown
from kraftwreck.histories.tables import HistoryError

FIELDS = ("clock-offsets", "clock_offsets")


def check(records: Iterable[tuple[str, Any]], options: Any) -> Judgement:
    """Return per node ``[seconds of the test, offset in seconds]``; never invalid.

    ``records`` are (where, map) of all events, the nemesis' among them. Raises
    :class:`~histories.tables.HistoryError` for offsets that are not numbers.
    """
    offsets: dict[str, list[list[float]]] = {}
    last = 0.0
    for where, record in records:
        if not isinstance(record, dict):
            continue
        time = record.get("time")
        if isinstance(time, int) and not isinstance(time, bool):
            last = max(last, time / 1e9)
        told = next((record[name] for name in FIELDS if record.get(name)), None)
        if told is None:
            continue
        if not isinstance(told, dict) or not isinstance(time, int):
            raise HistoryError(f"{where}: clock-offsets must be a map, beside a time")
        for node, offset in told.items():
            if isinstance(offset, bool) or not isinstance(offset, int | float):
                raise HistoryError(f"{where}: the clock offset of {node} must be a number")
            offsets.setdefault(str(node), []).append([time / 1e9, float(offset)])
    if not offsets:
        return unknown("no event has clock-offsets")
    for points in offsets.values():
        points.sort()
        # An offset stays until the next event with one, and the last one to the end.
        if points[-1][0] < last:
            points.append([last, points[-1][1]])
    furthest = {n: max(abs(offset) for _, offset in points) for n, points in offsets.items()}
    return Judgement(
        result={"valid?": True, "offsets": dict(sorted(offsets.items())), "furthest": furthest}
    )
