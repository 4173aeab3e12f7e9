"""Draws a cycle of transactions from Elle's results, with labelled edges.

Transactions are boxes that list their micro-operations. Wide screens show them on an ellipse,
narrow ones in a column. An arrow from T1 to T2 means that T1 must come before T2. Its label is the
reason:

- ww: T2 overwrote T1
- wr: T2 read a write of T1
- rw: T1 did not see a write of T2
- process: the same process executed T1 before T2
- realtime: T1 ended before T2 began
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kraftwreck.checkers.elle.explain import SENTENCES
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.reports.drawing import CHARACTER

MAX_TRANSACTIONS = 12
MAX_LINES, MAX_TEXT = 5, 36
LINE, PADDING = 16, 8

MEANING = {
    "ww": "write–write: overwrote it",
    "wr": "write–read: read what was written",
    "rw": "read–write: did not see what was written",
    "process": "the same process ran one after the other",
    "realtime": "one had ended before the other began",
}


@dataclass
class Box:
    """A transaction: its name, and its lines (text, whether the cycle needs it)."""

    x: float
    y: float
    width: float
    height: float
    name: str
    title: str
    lines: list[tuple[str, bool]] = field(default_factory=list)


@dataclass
class Edge:
    """An arrow between two boxes: SVG path, kind, and the position of its label."""

    path: str
    head: str
    kind: str
    label: str
    width: float
    x: float
    y: float


@dataclass
class Boxes:
    """A cycle in one layout."""

    width: float
    height: float
    boxes: list[Box]
    edges: list[Edge]


@dataclass
class CyclePicture:
    """A cycle in both layouts, the meaning of its edges, and a sentence per edge."""

    wide: Boxes
    narrow: Boxes
    kinds: list[tuple[str, str]]
    words: list[str]


def cycles_of(result: CheckerResult) -> dict[int, Mapping[str, Any]]:
    """Return Elle's description of each anomaly of ``result`` that is a cycle, by position."""
    elle = result.stats.get("elle")
    cases = elle.get("anomalies") if isinstance(elle, dict) else None
    if not isinstance(cases, dict):
        return {}
    taken: dict[str, int] = {}
    found: dict[int, Mapping[str, Any]] = {}
    for position, anomaly in enumerate(result.anomalies):
        of_type = cases.get(anomaly.type)
        of_type = of_type if isinstance(of_type, list) else [of_type]
        n = taken[anomaly.type] = taken.get(anomaly.type, -1) + 1
        case = of_type[n] if n < len(of_type) else None
        if isinstance(case, dict) and case.get("steps") and len(case.get("cycle") or ()) > 1:
            found[position] = case
    return found


def draw_cycle(case: Mapping[str, Any]) -> CyclePicture | None:
    """Draw one cycle; return None when it is too long, or of an unknown structure."""
    try:
        return _drawn(case)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _drawn(case: Mapping[str, Any]) -> CyclePicture | None:
    ops, steps = list(case["cycle"][:-1]), list(case["steps"])
    if len(ops) != len(steps) or not 1 < len(ops) <= MAX_TRANSACTIONS:
        return None
    boxes = [_box(i, op, steps[i], steps[i - 1]) for i, op in enumerate(ops)]
    kinds = dict.fromkeys(str(step["type"]) for step in steps)
    return CyclePicture(
        wide=_ellipse([replace(box) for box in boxes], steps),
        narrow=_column(boxes, steps),
        kinds=[(kind, MEANING.get(kind, "comes before")) for kind in kinds],
        words=[_words(ops, step, i) for i, step in enumerate(steps)],
    )


def _words(ops: Sequence[Mapping[str, Any]], step: Mapping[str, Any], i: int) -> str:
    a, b = f"T{i + 1}", f"T{(i + 1) % len(ops) + 1}"
    kind = str(step["type"])
    head = f"{a} must come before {b} ({kind}): "
    if kind == "process":
        return f"{head}process {step.get('process')} executed {a} before {b}."
    if kind == "realtime":
        return f"{head}{a} had ended before {b} was invoked."
    appends = any(m and m[0] == "append" for op in ops for m in _mops(op))
    sentence = SENTENCES["list-append" if appends else "rw-register"]
    try:
        return f"{head}{sentence(dict(step), a, b)}."
    except (KeyError, TypeError):
        return f"{head}{MEANING.get(kind, 'comes before')}."


def _mops(op: Mapping[str, Any]) -> list[Any]:
    value = op.get("value")
    return [m for m in value if isinstance(m, list | tuple)] if isinstance(value, list) else []


def _box(
    i: int, op: Mapping[str, Any], leaving: Mapping[str, Any], coming: Mapping[str, Any]
) -> Box:
    needed = {leaving.get("a-mop-index"), coming.get("b-mop-index")} - {None}
    mops = [(_mop_text(mop), n in needed) for n, mop in enumerate(_mops(op))]
    if len(mops) > MAX_LINES:  # keep the micro-operations of the cycle
        kept = {n for n, (_, is_needed) in enumerate(mops) if is_needed}
        for n in range(len(mops)):
            if len(kept) < MAX_LINES - 1:
                kept.add(n)
        left_out = len(mops) - len(kept)
        mops = [mops[n] for n in sorted(kept)] + [(f"… {left_out} more", False)]
    ended = "" if op.get("type") == "ok" else f" · {op.get('type')}"
    name = f"T{i + 1} · operation {op.get('index')} · process {op.get('process')}{ended}"
    longest = max([len(name) + 1, *(len(text) for text, _ in mops)])
    return Box(
        x=0, y=0, width=longest * CHARACTER + 2 * PADDING,
        height=(len(mops) + 1) * LINE + 2 * PADDING, name=name,
        title=msgspec.json.encode(op.get("value"), enc_hook=repr).decode()[:2000], lines=mops,
    )  # fmt: skip


def _mop_text(mop: Sequence[Any]) -> str:
    f, key, *rest = [*mop, None][:3] if len(mop) < 3 else mop
    value = msgspec.json.encode(rest[0] if rest else None, enc_hook=repr).decode()
    subject = msgspec.json.encode(key, enc_hook=repr).decode()
    text = f"{f} {subject} → {value}" if f == "r" else f"{f} {subject} ← {value}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _ellipse(boxes: list[Box], steps: Sequence[Mapping[str, Any]]) -> Boxes:
    width, height = _place(boxes)
    edges = [
        _edge(boxes[i], boxes[(i + 1) % len(boxes)], step, len(boxes) == 2)
        for i, step in enumerate(steps)
    ]
    return Boxes(width, height, boxes, edges)


def _column(boxes: list[Box], steps: Sequence[Mapping[str, Any]]) -> Boxes:
    """Put the boxes below each other; draw the last edge back up on their right."""
    gap, y = 46.0, 4.0
    widest = max(box.width for box in boxes)
    for box in boxes:
        box.x, box.y = 4, y
        y += box.height + gap
    edges = []
    for i, step in enumerate(steps[:-1]):
        top, bottom = boxes[i].y + boxes[i].height, boxes[i + 1].y
        x = 4 + min(boxes[i].width, boxes[i + 1].width) / 2
        head = _head((x, bottom), math.pi / 2)
        middle = (x, (top + bottom) / 2 - 3)
        edges.append(_labelled(f"M{x:.1f},{top:.1f} L{x:.1f},{bottom:.1f}", head, step, middle))
    first, last = boxes[0], boxes[-1]
    low, high = last.y + last.height / 2, first.y + first.height / 2
    start, end = last.x + last.width, first.x + first.width
    back = _labelled("", _head((end, high), math.pi), steps[-1], (0, (low + high) / 2))
    back.x = 4 + widest + back.width / 2 + 6
    back.path = (
        f"M{start:.1f},{low:.1f} L{back.x:.1f},{low:.1f} "
        f"L{back.x:.1f},{high:.1f} L{end:.1f},{high:.1f}"
    )
    return Boxes(back.x + back.width / 2 + 4, y - gap + 4, boxes, [*edges, back])


def _place(boxes: list[Box]) -> tuple[float, float]:
    """Place the boxes; return width and height of the picture."""
    widest = max(box.width for box in boxes)
    tallest = max(box.height for box in boxes)
    n = len(boxes)
    if n == 2:
        gap, top = 240.0, 34.0
        boxes[0].x, boxes[1].x = 6, 6 + boxes[0].width + gap
        for box in boxes:
            box.y = top + (tallest - box.height) / 2
        return 12 + boxes[0].width + gap + boxes[1].width, tallest + 2 * top
    rx, ry = widest * 0.7, tallest * 0.9
    while True:  # widen until no two boxes are close
        for i, box in enumerate(boxes):
            angle = -math.pi / 2 + 2 * math.pi * i / n
            box.x = rx * math.cos(angle) - box.width / 2
            box.y = ry * math.sin(angle) - box.height / 2
        if all(_apart(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]):
            break
        rx, ry = rx * 1.08, ry * 1.08
    left, top = min(b.x for b in boxes) - 8, min(b.y for b in boxes) - 8
    for box in boxes:
        box.x, box.y = box.x - left, box.y - top
    return max(b.x + b.width for b in boxes) + 8, max(b.y + b.height for b in boxes) + 8


def _apart(a: Box, b: Box) -> bool:
    """Return whether an arrow with its label fits between two boxes."""
    across = max(a.x, b.x) - min(a.x + a.width, b.x + b.width)
    down = max(a.y, b.y) - min(a.y + a.height, b.y + b.height)
    return across > 60 or down > 42


def _edge(a: Box, b: Box, step: Mapping[str, Any], bent: bool) -> Edge:
    ax, ay = a.x + a.width / 2, a.y + a.height / 2
    bx, by = b.x + b.width / 2, b.y + b.height / 2
    if bent:  # two boxes side by side: one arrow above, one below
        up = -1 if a.x < b.x else 1
        y = a.y + a.height / 2 + up * min(a.height, b.height) * 0.3
        x0 = a.x + a.width if a.x < b.x else a.x
        x1 = b.x if a.x < b.x else b.x + b.width
        cx, cy = (x0 + x1) / 2, y + up * 46
        start, end = (x0, y), (x1, y)
        middle = (cx, y + up * 23)
    else:
        start, end = _border(a, bx, by), _border(b, ax, ay)
        cx, cy = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        middle = (cx, cy)
    path = f"M{start[0]:.1f},{start[1]:.1f} Q{cx:.1f},{cy:.1f} {end[0]:.1f},{end[1]:.1f}"
    return _labelled(path, _head(end, math.atan2(end[1] - cy, end[0] - cx)), step, middle)


def _labelled(path: str, head: str, step: Mapping[str, Any], middle: tuple[float, float]) -> Edge:
    kind, key = str(step["type"]), step.get("key")
    label = kind if key is None else f"{kind} · key {_short(key)}"
    return Edge(
        path=path, head=head, kind=kind, label=label, width=len(label) * CHARACTER + 10,
        x=middle[0], y=middle[1],
    )  # fmt: skip


def _short(key: Any) -> str:
    text = msgspec.json.encode(key, enc_hook=repr).decode().strip('"')
    return text if len(text) <= 16 else f"{text[:15]}…"


def _border(box: Box, x: float, y: float) -> tuple[float, float]:
    """Return where the line from the middle of ``box`` towards (x, y) leaves it."""
    cx, cy = box.x + box.width / 2, box.y + box.height / 2
    dx, dy = x - cx, y - cy
    scale = min(
        box.width / 2 / abs(dx) if dx else math.inf, box.height / 2 / abs(dy) if dy else math.inf
    )
    return cx + dx * scale, cy + dy * scale


def _head(tip: tuple[float, float], angle: float) -> str:
    points = [tip]
    for side in (2.7, -2.7):
        points.append((tip[0] + 11 * math.cos(angle + side), tip[1] + 11 * math.sin(angle + side)))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
