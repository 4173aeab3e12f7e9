"""Failures that the watchers of a simulated world report, in a bounded list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kraftwreck.histories.trace import TraceEvent

MOST_FAILURES = 50


@dataclass(slots=True)
class Failure:
    """An invariant did not hold. ``type`` is its id (``I1``), ``time`` virtual microseconds,
    ``events`` the trace events that show it. A ``traced`` rule is one over traces alone, which
    checkers judge again from the recorded trace."""

    type: str
    time: int
    explanation: str
    events: list[dict[str, Any]] = field(default_factory=list)
    traced: bool = False


class Failures:
    """A list of failures that stops growing: after the first, the rest are consequences."""

    def __init__(self) -> None:
        self.items: list[Failure] = []
        self.dropped = 0

    def add(
        self, kind: str, time: int, explanation: str, *events: TraceEvent, traced: bool = False
    ) -> None:
        """Report that invariant ``kind`` broke at ``time``."""
        if len(self.items) >= MOST_FAILURES:
            self.dropped += 1
            return
        shown = [msgspec.to_builtins(event) for event in events]
        self.items.append(Failure(kind, time, explanation, shown, traced))

    def __bool__(self) -> bool:
        return bool(self.items)
