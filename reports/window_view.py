"""Draws the window of a contradiction as Porcupine does: bars, and orders through them.

Operations stand in their process's row. The horizontal axis is the order of invocations and
completions in the history, not time. A numbered point on a bar is the moment at which an
order lets the operation take effect; the points of an order run from left to right.
"""

from __future__ import annotations

from checkers.calls import OPEN, Call
from histories.operation import FAIL, OK
from reports.drawing import Bar, Drawing, Path, Point, fitted
from reports.linearization import Order, Window, label, name

ROW, LEFT = 34, 100
LEAST, MOST, STEP_OF_POINT = 46, 150, 21
WIDE = 1150


def draw_window(window: Window) -> Drawing:
    """Draw ``window`` with all its orders."""
    moments = sorted({m for call in window.calls for m in (call.start, call.end)})
    rank = {moment: i for i, moment in enumerate(moments)}
    slots = [_slots(window, order, rank) for order in window.orders]
    crowd = max((max(map(s.count, s), default=0) for s in slots), default=0)
    step = min(max((WIDE - LEFT) // max(len(rank) - 1, 1), LEAST), MOST)
    step = max(step, crowd * STEP_OF_POINT + 14)
    lanes = sorted({call.process for call in window.calls})
    bars = {call.start: _bar(call, rank, step, lanes, window.stuck) for call in window.calls}
    known = {call.start: call for call in window.calls}
    paths = [
        _path(window, order, slot, bars, known, step)
        for order, slot in zip(window.orders, slots, strict=True)
    ]
    return Drawing(
        width=LEFT + (len(rank) - 1) * step + 16,
        height=len(lanes) * ROW + 10,
        bars=list(bars.values()),
        rows=[(f"process {p}", 6 + i * ROW + (ROW - 8) / 2) for i, p in enumerate(lanes)],
        paths=paths,
        note=_note(window),
    )


def _note(window: Window) -> str:
    if window.placed <= 0:
        return window.origin
    before = f", after which the value is {window.before}" if window.before else ""
    noun = "operation comes" if window.placed == 1 else "operations come"
    return f"{window.placed:,} earlier {noun} before those drawn{before}. {window.origin}".strip()


def _bar(call: Call, rank: dict[int, int], step: float, lanes: list[int], stuck: int) -> Bar:
    x = LEFT + rank[call.start] * step
    width = (rank[call.end] - rank[call.start]) * step - 6
    kind = "ok" if call.type == OK else "fail" if call.type == FAIL else "info"
    text = label(call)
    return Bar(
        x=x, y=6 + lanes.index(call.process) * ROW, width=width, height=ROW - 8, type=kind,
        label=fitted(text, width - 8),
        title=f"{name(call)}, {'never certainly ended' if call.end == OPEN else kind}",
        stuck=call.start == stuck,
    )  # fmt: skip


def _slots(window: Window, order: Order, rank: dict[int, int]) -> list[int]:
    """Return for each call of ``order`` between which two moments it takes effect."""
    known = {call.start: call for call in window.calls}
    slots: list[int] = []
    now = 0
    for start in order.calls:
        now = max(now, rank[known[start].start])
        slots.append(now)
    return slots


def _path(
    window: Window,
    order: Order,
    slots: list[int],
    bars: dict[int, Bar],
    known: dict[int, Call],
    step: float,
) -> Path:
    points = []
    for n, (start, slot) in enumerate(zip(order.calls, slots, strict=True)):
        place = n - slots.index(slot)
        bar = bars[start]
        points.append(
            Point(
                x=LEFT + slot * step + 12 + place * STEP_OF_POINT,
                y=bar.y + bar.height - 2,
                number=n + 1,
            )
        )
    stuck = bars[window.stuck]
    end = None
    if window.stuck not in order.calls:
        last = points[-1].x if points else stuck.x
        x = min(max(last + STEP_OF_POINT, stuck.x + 10), stuck.x + stuck.width - 8)
        end = (max(x, stuck.x + 8), stuck.y + stuck.height / 2)
    words = [
        f"{label(known[start])} (operation {start})"
        + (f": the value is now {state}" if state else "")
        for start, state in zip(order.calls, order.states, strict=True)
    ]
    return Path(
        points=points,
        line=" ".join(f"{p.x:g},{p.y:g}" for p in points),
        words=words,
        blocked=[f"{name(known[start])} {why}." for start, why in order.blocked],
        ends=end,
    )
