"""Findings of a checker: typed, with evidence, and limited in number per type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kraftwreck.checkers.suspicion import Limit, in_virtual_time, proves
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion

KEPT = 10
"""Findings kept per type; further ones are only counted."""


class Findings:
    """``counts`` holds the number of anomalies of each type, ``suspected`` that of suspicions, kept
    or not. ``test`` is the run's ``test.json``: its kind of time decides what is a proof."""

    def __init__(self, test: Mapping[str, Any] | None = None) -> None:
        self._virtual = test is not None and in_virtual_time(test)
        self.anomalies: list[Anomaly] = []
        self.counts: dict[str, int] = {}
        self.suspicions: list[Suspicion] = []
        self.suspected: dict[str, int] = {}
        self._broken_claims: dict[str, None] = {}

    def add(
        self,
        kind: str,
        explanation: str,
        events: list[TraceEvent] | None = None,
        operations: list[int] | None = None,
        limit: Limit | None = None,
    ) -> None:
        """Add one finding of type ``kind`` with the ``events`` and ``operations`` that show it.

        It is an anomaly, unless it depends on a ``limit`` in time that proves nothing in this run.
        """
        shown = [msgspec.to_builtins(event) for event in events or []]
        if limit is None or proves(limit, virtual=self._virtual):
            if _counted(self.counts, kind):
                self.anomalies.append(
                    Anomaly(
                        type=kind,
                        explanation=explanation,
                        operations=operations or [],
                        events=shown,
                    )
                )
            return
        if limit.claimed:
            self._broken_claims[kind] = None
        if _counted(self.suspected, kind):
            self.suspicions.append(
                Suspicion(
                    type=kind,
                    explanation=explanation,
                    operations=operations or [],
                    events=shown,
                    why=limit.why,
                )
            )

    def of(self, kinds: frozenset[str]) -> list[Anomaly]:
        """Return the anomalies of these types."""
        return [anomaly for anomaly in self.anomalies if anomaly.type in kinds]

    def merge(self, other: Findings) -> None:
        """Add the findings of ``other``."""
        _merge(self.anomalies, self.counts, other.anomalies, other.counts)
        _merge(self.suspicions, self.suspected, other.suspicions, other.suspected)
        self._broken_claims |= other._broken_claims

    def judged(self, doubt: str | None, stats: dict[str, Any]) -> CheckerResult:
        """Return the verdict: false for anomalies, else unknown for a ``doubt``, or if a promised
        limit was exceeded and that proves nothing."""
        doubts = [] if doubt is None else [doubt]
        if self._broken_claims:
            doubts.append(f"{', '.join(self._broken_claims)} exceeded, which is no proof on hosts")
        return CheckerResult(
            valid=False if self.anomalies else "unknown" if doubts else True,
            anomalies=self.anomalies,
            suspicions=self.suspicions,
            stats=stats,
            error="; ".join(doubts) or None,
        )


def _counted(counts: dict[str, int], kind: str) -> bool:
    """Count a finding, and return whether it is kept."""
    count = counts.get(kind, 0)
    counts[kind] = count + 1
    return count < KEPT


def _merge(
    found: list[Any], counts: dict[str, int], others: list[Any], their_counts: dict[str, int]
) -> None:
    for other in others:
        if sum(known.type == other.type for known in found) < KEPT:
            found.append(other)
    for kind, count in their_counts.items():
        counts[kind] = counts.get(kind, 0) + count
