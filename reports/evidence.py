"""A small picture of the operations that prove an anomaly; works in print and without script."""

from __future__ import annotations

from kraftwreck.reports.drawing import Picture, Span, draw
from kraftwreck.reports.operations import NEVER, TYPES, Operations

MAX_BARS = 24
_NEVER_ENDED = 1 << 62


def _label(ops: Operations, row: int) -> str:
    def text(number: int) -> str:
        return ops.texts[number]

    parts = [text(int(ops.f[row])), text(int(ops.key[row])).strip('"'), text(int(ops.sent[row]))]
    seen, sent = int(ops.seen[row]), int(ops.sent[row])
    if seen and seen != sent:
        parts.append(f"→ {text(seen)}")
    return " ".join(part for part in parts if part)


def draw_evidence(ops: Operations, rows: list[int]) -> Picture | None:
    """Draw the operations in ``rows``; return None for fewer than two, or for too many."""
    if not 1 < len(rows) <= MAX_BARS:
        return None
    spans = []
    for row in rows:
        start, latency = int(ops.start[row]), int(ops.latency[row])
        label = _label(ops, row)
        spans.append(
            Span(
                process=int(ops.process[row]),
                start=start,
                end=_NEVER_ENDED if latency == NEVER else start + latency,
                type=TYPES[int(ops.type[row])],
                label=label,
                title=label,
            )
        )
    return draw(spans)
