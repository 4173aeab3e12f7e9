"""The history of each node: its states, when it was down or paused, its high watermark.

A node's monotonic clock is translated to history time by its reading at time 0 of the test
(``test.json`` key ``clock``). Times are microseconds since the start of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.checkers.recorded.clocks import NodeClock, node_clocks
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.trace import TraceEvent

GONE = frozenset({"fatal", "stop"})
"""Trace kinds after which the process has ended."""

MAX_STEPS = 2000

Span = tuple[int, int]


@dataclass
class Segment:
    """A period in which state, epoch, leader and incarnation did not change."""

    start: int
    end: int
    state: str
    epoch: int
    leader: int
    incarnation: int


@dataclass
class NodeLane:
    """One node's row of the chart.

    ``watermarks`` are (time, high watermark) steps, ``ends`` (time, log end offset) steps.
    ``ahead`` are (time, drift) points: µs that the wall clock has gained on the test's clock
    since the node's first event.
    """

    node: str
    segments: list[Segment] = field(default_factory=list)
    down: list[Span] = field(default_factory=list)
    paused: list[Span] = field(default_factory=list)
    watermarks: list[Span] = field(default_factory=list)
    ends: list[Span] = field(default_factory=list)
    ahead: list[Span] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the data for the page's charts."""
        return {
            "node": self.node,
            "segments": [
                [s.start, s.end, s.state, s.epoch, s.leader, s.incarnation] for s in self.segments
            ],
            "down": self.down,
            "paused": self.paused,
            "hw": self.watermarks,
            "leo": self.ends,
            "ahead": self.ahead,
        }


@dataclass
class Clocks:
    """Translates node clocks to history time."""

    of: Mapping[str, NodeClock]
    known: bool

    def history_time(self, node: str, mono: int) -> int:
        """Return the history time of the node's clock reading ``mono``."""
        clock = self.of.get(node)
        return mono if clock is None else clock.time(mono)

    def reading(self, node: str, time: int) -> int:
        """Return the reading of the node's clock at ``time`` of the history."""
        clock = self.of.get(node)
        return time if clock is None else clock.reading(time)


def clocks(test: Mapping[str, Any], traces: Mapping[str, list[TraceEvent]]) -> Clocks:
    """Return the clocks of a run.

    Without measured clocks each node's first event is put at time 0, and ``known`` is False.
    """
    measured = node_clocks(test)
    if measured:
        return Clocks(measured, known=True)
    first = {n: NodeClock([(0, events[0].mono)]) for n, events in traces.items() if events}
    return Clocks(first, known=False)


def _hit(event: FaultEvent, node: str) -> bool:
    """Return whether the fault affected ``node``, which may have been down already."""
    skipped = event.detail.get("skipped")
    return node in event.targets and not (isinstance(skipped, dict) and node in skipped)


def killed_at(faults: Sequence[FaultEvent], node: str) -> list[int]:
    """Return the times at which faults killed ``node``."""
    return [
        e.time // 1000 for e in faults if e.kind == "kill" and e.phase == "start" and _hit(e, node)
    ]


def paused_spans(faults: Sequence[FaultEvent], node: str, end: int) -> list[Span]:
    """Return the periods in which the process of ``node`` was paused; a kill ends them, too."""
    spans: list[Span] = []
    since: int | None = None
    for event in sorted(faults, key=lambda e: e.time):
        if not _hit(event, node):
            continue
        if event.kind == "pause" and event.phase == "start":
            since = event.time // 1000 if since is None else since
        elif since is not None and (
            (event.kind in ("pause", "heal") and event.phase == "stop")
            or (event.kind == "kill" and event.phase == "start")
        ):
            spans.append((since, event.done // 1000))
            since = None
    return spans if since is None else [*spans, (since, end)]


def _steps(
    events: list[TraceEvent],
    value: Callable[[TraceEvent], int],
    at: Callable[[TraceEvent], int],
    end: int,
) -> list[Span]:
    """Reduce a mostly growing value to its steps, about one per pixel column at most."""
    gap = end // MAX_STEPS
    kept: list[Span] = []
    for event in events:
        now_value = value(event)
        if now_value < 0 or (kept and now_value == kept[-1][1]):
            continue
        now = at(event)
        if len(kept) > 1 and now - kept[-2][0] < gap and now_value >= kept[-1][1] >= kept[-2][1]:
            kept.pop()
        kept.append((max(now, 0), now_value))
    return kept


def _ahead(events: list[TraceEvent], at: Callable[[TraceEvent], int], end: int) -> list[Span]:
    """Return the drift of the wall clock against the test's clock: its jumps and its slope.

    A point is kept if it differs by a millisecond from the line through the last two, and at
    least one per five-hundredth of the run.
    """
    gap = end // 500
    kept: list[Span] = []
    first: int | None = None
    last: Span | None = None
    for event in events:
        now = at(event)
        first = event.wall - now if first is None else first
        off = event.wall - now - first
        if kept and abs(off - kept[-1][1]) < 1000 and now - kept[-1][0] < gap:
            last = (max(now, 0), off)
            continue
        if last is not None and abs(off - last[1]) >= 1000:
            kept.append(last)  # a jump: keep the last point before it
        kept.append((max(now, 0), off))
        last = None
    return kept if last is None else [*kept, last]


def node_lane(
    node: str,
    events: list[TraceEvent],
    faults: Sequence[FaultEvent],
    clock: Clocks,
    end: int,
) -> NodeLane:
    """Build one node's lane from its events, which are ordered by (incarnation, seq).

    The lane ends at ``end``. A process ends when a fault kills it, when its last event says so, or
    (if it crashed by itself) at its last event before the next incarnation's first.
    """

    def at(event: TraceEvent) -> int:
        return clock.history_time(node, event.mono)

    lane = NodeLane(node, paused=paused_spans(faults, node, end))
    killed = killed_at(faults, node)
    lives: dict[int, list[TraceEvent]] = {}
    for event in events:
        lives.setdefault(event.incarnation, []).append(event)
    numbers = sorted(lives)
    for position, number in enumerate(numbers):
        life = lives[number]
        born = at(life[0])
        last = position + 1 == len(numbers)
        limit = end if last else at(lives[numbers[position + 1]][0])
        ends = [at_time for at_time in killed if born <= at_time < limit]
        if ends:
            died = min(ends)
        elif life[-1].kind in GONE or not last:
            died = at(life[-1])
        else:
            died = limit
        if died < limit:
            lane.down.append((max(died, 0), min(limit, end)))
        _add_segments(lane, life, at, died, end)
    lane.watermarks = _steps(events, lambda e: e.hw, at, end)
    lane.ends = _steps(events, lambda e: e.leo, at, end)
    lane.ahead = _ahead(events, at, end)
    return lane


def _add_segments(
    lane: NodeLane,
    life: list[TraceEvent],
    at: Callable[[TraceEvent], int],
    died: int,
    end: int,
) -> None:
    current: Segment | None = None
    for event in life:
        now = min(max(at(event), 0), end)
        shape = (event.state, event.epoch, event.leader)
        if current is not None:
            if (current.state, current.epoch, current.leader) == shape:
                continue
            current.end = now
        current = Segment(now, now, *shape, incarnation=event.incarnation)
        lane.segments.append(current)
    if current is not None:
        current.end = max(min(died, end), current.start)
    # A node passes through several states in one instant when it starts before time 0.
    lane.segments = [s for s in lane.segments if s.end > s.start or s.start > 0]
