"""Pictures as data: what the page's template draws as SVG. Positions are pixels."""

from __future__ import annotations

from dataclasses import dataclass, field

CHARACTER = 6.7
"""Width of a character of the pictures' type, in pixels."""


@dataclass
class Bar:
    """One operation: position, ending (a name of ``TYPES``) and texts."""

    x: float
    y: float
    width: float
    height: float
    type: str
    label: str
    title: str
    stuck: bool = False


@dataclass
class Point:
    """Where an operation stands in an order: its number in it, from 1."""

    x: float
    y: float
    number: int


@dataclass
class Path:
    """One order drawn through the bars: points, the line that joins them, and words."""

    points: list[Point]
    line: str
    words: list[str]
    blocked: list[str]
    ends: tuple[float, float] | None = None
    """From the last point to the bar that fits nowhere: where that bar is struck."""


@dataclass
class Drawing:
    """Bars and row names (text, y) of one anomaly, and the orders through them."""

    width: float
    height: float
    bars: list[Bar]
    rows: list[tuple[str, float]]
    paths: list[Path] = field(default_factory=list)
    note: str = ""


def fitted(text: str, width: float) -> str:
    """Return ``text``, cut so that it fits into ``width`` pixels."""
    room = int(width / CHARACTER)
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"
