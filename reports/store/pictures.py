"""A run as a small picture: fault bands, and below them the successful operations per second.

Coordinates are rounded numbers, and the template escapes texts, so that no text of a run can
become markup.
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftwreck.reports import words
from kraftwreck.reports.bands import Band
from kraftwreck.reports.store.index import clip
from kraftwreck.reports.store.service import Service

WIDTH, LEFT = 1000, 90
ROW, RATE = 14, 70
MAX_LANES, MAX_BANDS = 12, 500
KNOWN = frozenset({"partition", "kill", "pause"})


@dataclass(frozen=True)
class Bar:
    """A fault in force: its place in the picture, and its description."""

    x: float
    y: int
    width: float
    css: str
    title: str


@dataclass(frozen=True)
class Picture:
    """The data that the template draws, in a box of :attr:`width` by :attr:`height`."""

    width: int
    height: int
    lanes: list[tuple[str, int]]
    bars: list[Bar]
    dark: list[tuple[float, float]]
    rate: str
    top: int
    most: int
    ticks: list[tuple[float, str]]
    hidden: int


def picture(bands: list[Band], service: Service, end: int) -> Picture:
    """Return the picture of a run from 0 to ``end`` µs."""
    scale = (WIDTH - LEFT - 10) / end

    def x(moment: float) -> float:
        return round(LEFT + min(max(moment, 0), end) * scale, 1)

    kinds = sorted({band.kind for band in bands})
    shown = kinds[:MAX_LANES]
    bars: list[Bar] = []
    for band in bands:
        if band.kind not in shown or len(bars) >= MAX_BANDS:
            continue
        until = end if band.end is None else band.end
        left = x(band.start)
        bars.append(
            Bar(
                left,
                4 + ROW * shown.index(band.kind),
                max(round(x(until) - left, 1), 1.5),
                band.kind if band.kind in KNOWN else "other",
                clip(
                    f"{band.kind}/{band.shape} on {', '.join(band.targets) or 'no node'}, "
                    f"{words.seconds_text(band.start)} to "
                    + (words.seconds_text(band.end) if band.end is not None else "the end"),
                    300,
                ),
            )
        )
    top = 10 + ROW * len(shown)
    most = max(service.ok, default=0)
    points = [
        f"{x((i + 0.5) * 1e6)},{round(top + RATE * (1 - count / max(most, 1)), 1)}"
        for i, count in enumerate(service.ok)
    ]
    dark = [
        (x(i * 1e6), round(x((i + 1) * 1e6) - x(i * 1e6), 1))
        for i, (invoked, ok) in enumerate(zip(service.invoked, service.ok, strict=True))
        if invoked and not ok
    ]
    step = next((s for s in (1, 2, 5, 10, 20, 60, 120, 300) if end / 1e6 / s <= 12), 600)
    ticks = [(x(s * 1e6), f"{s} s") for s in range(0, int(end / 1e6) + 1, step)]
    return Picture(
        WIDTH,
        top + RATE + 20,
        [(clip(kind, 14), 4 + ROW * i + 10) for i, kind in enumerate(shown)],
        bars,
        dark,
        " ".join(points),
        top,
        most,
        ticks,
        len(bands) - len(bars),
    )
