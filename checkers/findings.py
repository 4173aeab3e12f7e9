"""Anomalies as they are found: typed, with proof, and limited in number per type."""

from __future__ import annotations

import msgspec

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import Anomaly

KEPT = 10
"""Anomalies kept per type; further ones are only counted."""


class Findings:
    """``counts`` holds the number of anomalies of each type, kept or not."""

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self.counts: dict[str, int] = {}

    def add(
        self,
        kind: str,
        explanation: str,
        events: list[TraceEvent] | None = None,
        operations: list[int] | None = None,
    ) -> None:
        """Add one anomaly of type ``kind`` with the ``events`` and ``operations`` that prove it."""
        count = self.counts.get(kind, 0)
        self.counts[kind] = count + 1
        if count < KEPT:
            self.anomalies.append(
                Anomaly(
                    type=kind,
                    explanation=explanation,
                    operations=operations or [],
                    events=[msgspec.to_builtins(event) for event in events or []],
                )
            )

    def of(self, kinds: frozenset[str]) -> list[Anomaly]:
        """Return the anomalies of these types."""
        return [anomaly for anomaly in self.anomalies if anomaly.type in kinds]

    def merge(self, other: Findings) -> None:
        """Add the findings of ``other``."""
        for anomaly in other.anomalies:
            if sum(known.type == anomaly.type for known in self.anomalies) < KEPT:
                self.anomalies.append(anomaly)
        for kind, count in other.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
