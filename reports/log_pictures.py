"""Pictures of the logs of a partition's replicas, as data for an SVG template. Units are pixels.

Each replica has a lane. Time runs to the right and offsets upwards, on the same scale for all lanes
of a picture. Every picture has two layouts: wide and narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kraftwreck.reports.drawing import NARROW, WIDE, fitted
from kraftwreck.reports.log_positions import Lead, PartitionLogs, Replica, Sample
from kraftwreck.reports.words import plural, seconds_text

DRAWN: Final = 6
"""Partitions in a page: the most eventful ones."""
LISTED: Final = 12
"""Events listed for a partition."""
LEFT: Final = 46
HEAD: Final = 18
PLOT: Final = 78
GAP: Final = 12
LINES: Final = ("checkpoint", "end", "hw")
"""The offsets that are lines, the most important one on top."""


@dataclass
class Strip:
    """A period in which a replica led, with its label."""

    x: float
    width: float
    label: str


@dataclass
class Lane:
    """One replica: its areas and lines as SVG paths, its leadership, and when it was down."""

    node: str
    y: float
    log: str
    flushed: str
    lines: list[tuple[str, str]]
    leads: list[Strip]
    down: list[tuple[float, float]]
    cuts: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class Layout:
    """One layout. ``marks`` are (x, text) of the time axis; ``low`` and ``high`` are offsets."""

    width: float
    height: float
    plot: float
    lanes: list[Lane]
    marks: list[tuple[float, str]]
    low: int
    high: int


@dataclass
class LogPicture:
    """A partition in both layouts, in words, and as a table of the last offsets."""

    name: str
    summary: str
    wide: Layout
    narrow: Layout
    events: list[tuple[str, str]]
    more: int
    rows: list[list[str]]


def log_pictures(partitions: Sequence[PartitionLogs], end: int) -> list[LogPicture]:
    """Return the pictures of the first partitions of a run that ends at ``end`` (µs)."""
    return [_picture(each, end) for each in partitions[:DRAWN]]


def _picture(logs: PartitionLogs, end: int) -> LogPicture:
    return LogPicture(
        logs.name,
        _summary(logs),
        _layout(logs, end, WIDE, 6),
        _layout(logs, end, NARROW, 3),
        [(seconds_text(at), text) for at, text in logs.events[:LISTED]],
        max(len(logs.events) - LISTED, 0),
        [[r.node, *(f"{offset:,}" for offset in r.last[1:])] for r in logs.replicas],
    )  # fmt: skip


def _summary(logs: PartitionLogs) -> str:
    leads = sum(len(replica.leads) for replica in logs.replicas)
    parts = [plural(logs.end, "record"), plural(leads, "leadership")]
    cuts = sum(len(replica.cuts) for replica in logs.replicas)
    if cuts:
        parts.append(plural(cuts, "truncation"))
    if logs.removed:
        parts.append(f"{plural(logs.removed, 'record')} removed from replicas")
    return ", ".join(parts)


@dataclass
class _Scale:
    """Turns times and offsets into pixels of a lane whose plot begins at ``top``."""

    end: int
    low: int
    high: int
    width: float
    top: float = 0

    def x(self, time: int) -> float:
        return round(LEFT + time / self.end * (self.width - LEFT), 1)

    def y(self, offset: int) -> float:
        share = (offset - self.low) / max(self.high - self.low, 1)
        return round(self.top + PLOT * (1 - share), 1)


def _layout(logs: PartitionLogs, end: int, width: float, marks: int) -> Layout:
    scale = _Scale(end, logs.start, logs.end, width)
    lanes = []
    for number, replica in enumerate(logs.replicas):
        y = number * (HEAD + PLOT + GAP)
        scale.top = y + HEAD
        lanes.append(_lane(replica, y, scale))
    times = [end * i // (marks - 1) for i in range(marks)]
    return Layout(
        width + 2,
        len(lanes) * (HEAD + PLOT + GAP) + 14,
        PLOT,
        lanes,
        [(scale.x(at), f"{at / 1e6:.0f} s") for at in times],
        logs.start,
        logs.end,
    )  # fmt: skip


def _lane(replica: Replica, y: float, scale: _Scale) -> Lane:
    log, flushed = [], []
    lines: dict[str, list[str]] = {name: [] for name in LINES}
    for life in replica.lives:
        kept = _per_pixel(life.samples, scale)
        until = scale.x(life.until)
        log.append(_area(kept, "end", until, scale))
        flushed.append(_area(kept, "flushed", until, scale))
        for name, parts in lines.items():
            parts.append(_line(kept, name, until, scale))
    return Lane(
        replica.node,
        y,
        "".join(log),
        "".join(flushed),
        [(name, "".join(parts)) for name, parts in lines.items()],
        [_strip(lead, scale) for lead in replica.leads],
        [(scale.x(since), _wide(since, until, scale)) for since, until in replica.down],
        [(scale.x(at), scale.y(after)) for at, _, after in replica.cuts],
    )  # fmt: skip


def _wide(since: int, until: int, scale: _Scale) -> float:
    return round(max(scale.x(until) - scale.x(since), 1), 1)


def _strip(lead: Lead, scale: _Scale) -> Strip:
    width = _wide(lead.since, lead.until, scale)
    text = f"leads epoch {lead.epoch}"
    for shorter in (text, f"epoch {lead.epoch}", str(lead.epoch)):
        if fitted(shorter, width - 6) == shorter:
            return Strip(scale.x(lead.since), width, shorter)
    return Strip(scale.x(lead.since), width, "")


def _per_pixel(samples: Sequence[Sample], scale: _Scale) -> list[tuple[float, Sample]]:
    """Return samples with their x; of those in one pixel, the last."""
    kept: list[tuple[float, Sample]] = []
    for sample in samples:
        x = scale.x(sample.time)
        if kept and int(kept[-1][0]) == int(x):
            kept[-1] = (kept[-1][0], sample)
        else:
            kept.append((x, sample))
    return kept


def _line(samples: Sequence[tuple[float, Sample]], name: str, until: float, scale: _Scale) -> str:
    """Return the steps of one offset as the path of a line."""
    parts: list[str] = []
    last = None
    for x, sample in samples:
        y = scale.y(getattr(sample, name))
        if last is None:
            parts.append(f"M{x:g},{y:g}")
        elif y != last:
            parts.append(f"H{x:g}V{y:g}")
        last = y
    return "".join(parts) + f"H{until:g}"


def _area(samples: Sequence[tuple[float, Sample]], name: str, until: float, scale: _Scale) -> str:
    """Return the area from the log start to one offset, as a closed path."""
    below: list[str] = []
    previous = until
    for x, sample in reversed(samples):
        top = max(getattr(sample, name), sample.start)
        y, floor = scale.y(top), scale.y(sample.start)
        if y != floor:
            below.append(f"M{x:g},{floor:g}V{y:g}H{previous:g}V{floor:g}Z")
        previous = x
    return "".join(reversed(below))
