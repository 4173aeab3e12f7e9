"""Clocks of nodes compared with the test's clock, and when a node did not run.

``test.json`` describes a node's monotonic clock as ``{"offset_us": o}``: its reading when the
test's clock read 0. If its rate was changed it also has ``"samples"``: pairs ``[time, reading]`` in
microseconds, taken at every change of its rate. Between two samples the clock runs evenly; before
the first and after the last one it runs as fast as the test's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from kraftwreck.histories.fault import FaultEvent

_FOREVER = 1 << 62
FLUSH_NS = 1_000_000_000
"""How long a flush that began on a slow disk may last; the simulator's are no longer."""

Sample = tuple[int, int]
"""The test's time and the node's monotonic clock at one moment, in microseconds."""


class NodeClock:
    """Translates between one node's monotonic clock and the test's, in microseconds."""

    __slots__ = ("_ahead", "_readings", "_times", "squeeze", "stretch")

    def __init__(self, samples: Iterable[Sample]) -> None:
        """``samples`` has at least one entry. Raises ValueError when a clock goes back."""
        ordered = sorted(set(samples))
        self._times = [time for time, _ in ordered]
        self._readings = [reading for _, reading in ordered]
        # The offset between a clock of unchanged rate and the test's.
        self._ahead = self._readings[0] - self._times[0] if len(ordered) == 1 else None
        self.stretch = 1.0
        """How long one of its microseconds takes where the clock is slowest, at least 1."""
        self.squeeze = 1.0
        """The same where it is fastest, at most 1."""
        for (t0, r0), (t1, r1) in pairwise(ordered):
            if r1 <= r0:
                raise ValueError(f"the clock goes from {r0} to {r1} us in {t1 - t0} us")
            self.stretch = max(self.stretch, (t1 - t0) / (r1 - r0))
            self.squeeze = min(self.squeeze, (t1 - t0) / (r1 - r0))

    def time(self, reading: int) -> int:
        """Return the test's time when the node's clock showed ``reading``."""
        if self._ahead is not None:
            return reading - self._ahead
        return _along(self._readings, self._times, reading)

    def reading(self, time: int) -> int:
        """Return what the node's clock showed at the test's ``time``."""
        if self._ahead is not None:
            return time + self._ahead
        return _along(self._times, self._readings, time)

    def after(self, time: int, span: int) -> int:
        """Return the test's time when ``span`` of the node's own time has passed after ``time``."""
        return self.time(self.reading(time) + span)


def _along(xs: list[int], ys: list[int], x: int) -> int:
    place = bisect_right(xs, x)
    if place == 0:
        return ys[0] + x - xs[0]
    if place == len(xs):
        return ys[-1] + x - xs[-1]
    x0, x1, y0, y1 = xs[place - 1], xs[place], ys[place - 1], ys[place]
    return y0 + (x - x0) * (y1 - y0) // (x1 - x0)


def node_clocks(test: Mapping[str, Any]) -> dict[str, NodeClock]:
    """Return the clock of every node whose clock was compared with the test's, by name."""
    clocks = {}
    told = test.get("clock")
    for node, value in told.items() if isinstance(told, dict) else ():
        offset, samples = value, list[Any]()
        if isinstance(value, dict):
            offset, samples = value.get("offset_us"), value.get("samples") or []
        if isinstance(offset, int):
            # The offset is valid for the first part of a clock that was changed later.
            clocks[node] = NodeClock([(time, at) for time, at in samples] or [(0, offset)])
    return clocks


def after(clock: NodeClock | None, since: int, span: int) -> int:
    """Return when (ns) ``span`` ns by ``clock`` (None: by the test's) are over after ``since``."""
    if clock is None:
        return since + span
    return max(since, clock.after(since // 1000, span // 1000) * 1000)


def fastest(test: Mapping[str, Any]) -> float:
    """Return the factor by which the fastest clock of the run shortens a timeout, at most 1."""
    return min((clock.squeeze for clock in node_clocks(test).values()), default=1.0)


def slowest(test: Mapping[str, Any]) -> float:
    """Return the factor by which the slowest clock of the run extends a timeout, at least 1."""
    return max((clock.stretch for clock in node_clocks(test).values()), default=1.0)


def running_since(time: int, span: int, stopped: Iterable[tuple[int, int]]) -> int:
    """Return the latest time (ns) since which a node had run for ``span`` ns at ``time``;
    :func:`pauses` do not count."""
    since = time - span
    for begin, end in sorted(stopped, reverse=True):
        if begin < time and end > since:
            since -= min(end, time) - begin
    return since


def pauses(faults: Iterable[FaultEvent]) -> dict[str, list[tuple[int, int]]]:
    """Return per node when its process was stopped (ns), from the stop's start to its end.

    A process that waits for a slow disk, or for a CPU, does nothing else, and counts as stopped
    too. A flush that began on a slow disk may last :data:`FLUSH_NS` longer than that.
    """
    begun: dict[int, FaultEvent] = {}
    spans: dict[str, list[tuple[int, int]]] = {}
    for fault in faults:
        slow_disk = fault.kind == "disk" and fault.shape.startswith("slow")
        if fault.kind not in ("pause", "squeeze") and not slow_disk:
            continue
        if fault.phase == "start":
            begun[fault.id] = fault
            continue
        start = begun.pop(fault.id, None)
        if start is not None:
            end = fault.done + (FLUSH_NS if slow_disk else 0)
            for node in {*start.targets, *fault.targets}:
                spans.setdefault(node, []).append((start.time, end))
    for start in begun.values():
        for node in start.targets:
            spans.setdefault(node, []).append((start.time, _FOREVER))
    return spans
