"""Pictures of concurrent operations, as data for an SVG template. Units are pixels.

The horizontal axis is not time but the order of invocations and completions. It is divided into
slots; the first invocation after a completion starts a new slot. Two bars overlap if and only if
their operations were concurrent. Every picture has two layouts: wide, with a row per process, and
narrow, with a row per operation and its text on a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

CHARACTER = 6.7
"""Width of a character in the pictures' font."""
WIDE, NARROW = 1150, 372
LEFT = 92
"""Space for the row names in a wide picture."""
LARGEST_SLOT = 150


@dataclass
class Span:
    """One operation from its invocation to its completion; ``type`` is a name of ``TYPES``.

    ``start`` and ``end`` are comparable moments. At equal moments invocations come before
    completions.
    """

    process: int
    start: int
    end: int
    type: str
    label: str
    title: str
    stuck: bool = False
    earlier: bool = False
    """It comes before all drawn orders."""


@dataclass
class Order:
    """An order of operations, by their positions in a picture and as text.

    ``refused`` are the operations that cannot come next; ``blocked`` gives the reasons.
    """

    spans: list[int]
    words: list[str]
    blocked: list[str]
    refused: list[int]


@dataclass
class Bar:
    """One operation as drawn; its label starts at (``label_x``, ``label_y``)."""

    x: float
    y: float
    width: float
    height: float
    type: str
    label: str
    label_x: float
    label_y: float
    title: str
    stuck: bool
    earlier: bool


@dataclass
class Point:
    """The moment at which an operation takes effect in an order; ``number`` counts from 1."""

    x: float
    y: float
    number: int


@dataclass
class Path:
    """One order drawn through the bars; ``line`` joins its points (empty in narrow layouts)."""

    points: list[Point]
    line: str
    ends: tuple[float, float] | None = None
    """Where the bar that fits nowhere is crossed out."""


@dataclass
class Drawing:
    """One layout: bars, row names (text, y, height) and the paths of the orders."""

    width: float
    height: float
    bars: list[Bar]
    rows: list[tuple[str, float, float]]
    paths: list[Path]


@dataclass
class Picture:
    """A picture in both layouts, its orders, best first, and a note on omitted operations."""

    wide: Drawing
    narrow: Drawing
    orders: list[Order]
    note: str = ""


def draw(spans: Sequence[Span], orders: Sequence[Order] = (), note: str = "") -> Picture:
    """Lay out ``spans`` and the ``orders`` through them; at least one span is required."""
    scene = _Scene.of(spans, orders)
    return Picture(_wide(scene), _narrow(scene), list(orders), note)


def fitted(text: str, width: float) -> str:
    """Return ``text``, shortened to fit into ``width`` pixels."""
    room = int(width / CHARACTER)
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


@dataclass
class _Scene:
    """Spans with their first and last slots, and the slot of each operation of each order."""

    spans: Sequence[Span]
    orders: Sequence[Order]
    slots: list[tuple[int, int]]
    places: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, spans: Sequence[Span], orders: Sequence[Order]) -> _Scene:
        moments = sorted({m for span in spans for m in ((span.start, 0), (span.end, 1))})
        slot, after_completion = 0, 0
        slot_of: dict[tuple[int, int], int] = {}
        for moment in moments:
            if after_completion and moment[1] == 0:
                slot += 1
            after_completion = moment[1]
            slot_of[moment] = slot
        slots = [(slot_of[span.start, 0], slot_of[span.end, 1]) for span in spans]
        scene = cls(spans, orders, slots)
        for order in orders:
            now, places = 0, []
            for span in order.spans:
                now = max(now, slots[span][0])
                places.append(now)
            scene.places.append(places)
        return scene

    def edges(self, left: float, width: float, step: float) -> list[float]:
        """Return the starts of all slots and the end of the last: if possible within ``width``.

        A slot is wide enough for its points, ``step`` apart.
        """
        count = max(last for _, last in self.slots) + 1
        crowds = [max((p.count(s) for p in self.places), default=0) for s in range(count)]
        least = [max(crowd * step, step / 2) + 10 for crowd in crowds]
        spare = max(width - sum(least), 0) / count
        edges = [left]
        for room in least:
            edges.append(round(edges[-1] + max(min(room + spare, LARGEST_SLOT), room), 1))
        return edges

    def paths(
        self, bars: Sequence[Bar], edges: Sequence[float], step: float, above: float
    ) -> list[Path]:
        """Return the paths of the orders; points lie ``above`` the lower edges of the bars."""
        paths = []
        for order, places in zip(self.orders, self.places, strict=True):
            points = []
            for n, (span, slot) in enumerate(zip(order.spans, places, strict=True)):
                bar, nth = bars[span], n - places.index(slot)
                x = round(edges[slot] + step / 2 + 2 + nth * step, 1)
                points.append(Point(x, bar.y + bar.height - above, n + 1))
            line = " ".join(f"{p.x:g},{p.y:g}" for p in points)
            x = points[-1].x + step if points else 0.0
            paths.append(Path(points, line, self._end(order, bars, x, above)))
        return paths

    def _end(
        self, order: Order, bars: Sequence[Bar], x: float, above: float
    ) -> tuple[float, float] | None:
        """Return the place nearest to ``x`` on the bar that fits nowhere."""
        stuck = next((i for i, span in enumerate(self.spans) if span.stuck), None)
        if stuck is None or stuck in order.spans:
            return None
        bar = bars[stuck]
        low, high = bar.x + 9, max(bar.x + bar.width - 9, bar.x + 9)
        return round(min(max(x, low), high), 1), bar.y + bar.height - above


def _wide(scene: _Scene) -> Drawing:
    row = 34 if scene.orders else 26
    edges = scene.edges(LEFT, WIDE - LEFT - 8, 21)
    lanes = sorted({span.process for span in scene.spans})
    bars = []
    for span, (first, last) in zip(scene.spans, scene.slots, strict=True):
        x, y = edges[first], 6 + lanes.index(span.process) * row
        width = round(edges[last + 1] - x - 6, 1)
        label = fitted(span.label, width - 8)
        bars.append(
            Bar(
                x, y, width, row - 8, span.type, label, x + 5, y + 14, span.title, span.stuck,
                span.earlier,
            )
        )  # fmt: skip
    return Drawing(
        width=edges[-1] + 8,
        height=len(lanes) * row + 8,
        bars=bars,
        rows=[(f"process {p}", 6 + i * row, row - 8) for i, p in enumerate(lanes)],
        paths=scene.paths(bars, edges, 21, above=2),
    )


def _narrow(scene: _Scene) -> Drawing:
    row, step = 38, 15.5
    edges = scene.edges(2, NARROW - 4, step)
    width = max(edges[-1] + 2, NARROW)
    bars = []
    for i, (span, (first, last)) in enumerate(zip(scene.spans, scene.slots, strict=True)):
        x, y = edges[first], i * row + 16
        ended = "" if span.type == "ok" else f" · {span.type}"
        label = fitted(f"process {span.process}: {span.label}{ended}", width - 4)
        bars.append(
            Bar(
                x, y, round(edges[last + 1] - x - 4, 1), 12, span.type, label, 2, y - 4, span.title,
                span.stuck, span.earlier,
            )
        )  # fmt: skip
    paths = scene.paths(bars, edges, step, above=6)
    for path in paths:  # a line would cross the text of other rows
        path.line = ""
    return Drawing(width, len(bars) * row, bars, [], paths)
