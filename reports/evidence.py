"""A small drawing of the operations that prove an anomaly, for page, print and no script.

Operations stand in their process's row; the horizontal axis is the *order* of their
invocations and completions, not time: two bars overlap if and only if the operations were
concurrent, however many seconds lie between.
"""

from __future__ import annotations

from reports.drawing import Bar, Drawing, fitted
from reports.operations import NEVER, Operations

MAX_BARS = 24
ROW, LEFT = 26, 92
WIDTH, NARROW, WIDE = 1150, 44, 125


def _label(ops: Operations, row: int) -> str:
    def text(number: int) -> str:
        return ops.texts[number]

    parts = [text(int(ops.f[row])), text(int(ops.key[row])).strip('"'), text(int(ops.sent[row]))]
    seen, sent = int(ops.seen[row]), int(ops.sent[row])
    if seen and seen != sent:
        parts.append(f"→{text(seen)}")
    return " ".join(part for part in parts if part)


def draw_evidence(ops: Operations, rows: list[int]) -> Drawing | None:
    """Draw the operations in ``rows``; None when there are none or too many to read."""
    if not 0 < len(rows) <= MAX_BARS:
        return None
    moments: list[tuple[int, int]] = []  # a completion sorts after an invocation at one time
    for row in rows:
        start, latency = int(ops.start[row]), int(ops.latency[row])
        moments += [(start, 0), (1 << 62 if latency == NEVER else start + latency, 1)]
    rank = {moment: i for i, moment in enumerate(sorted(set(moments)))}
    step = min(max((WIDTH - LEFT) // len(rank), NARROW), WIDE)
    lanes = sorted({int(ops.process[row]) for row in rows})
    bars = []
    for row in rows:
        start, latency = int(ops.start[row]), int(ops.latency[row])
        begin = rank[(start, 0)]
        end = rank[(1 << 62 if latency == NEVER else start + latency, 1)]
        label = _label(ops, row)
        width = (end - begin) * step - 6
        bars.append(
            Bar(
                x=LEFT + begin * step,
                y=4 + lanes.index(int(ops.process[row])) * ROW,
                width=width,
                height=ROW - 6,
                type=("ok", "fail", "info", "open")[int(ops.type[row])],
                label=fitted(label, width - 8),
                title=label,
            )
        )
    return Drawing(
        width=LEFT + (len(rank) - 1) * step + 8,
        height=len(lanes) * ROW + 6,
        bars=bars,
        rows=[(f"process {p}", 4 + i * ROW + ROW / 2) for i, p in enumerate(lanes)],
    )
