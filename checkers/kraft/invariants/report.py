"""The result of each invariant in one run: the number of facts, the anomalies, the reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.suspicion import Limit
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import NOT_CHECKED

CHECKED, BROKEN = "checked", "broken"
SUSPECTED = "suspected"


class Report:
    """Facts, findings, and reasons for missing facts, by invariant id; ``test`` is the run's
    ``test.json``."""

    def __init__(self, test: Mapping[str, Any] | None = None) -> None:
        self.findings = Findings(test)
        self.facts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self.proof: Callable[[], list[TraceEvent]] = list
        """Returns the trace events of an anomaly that is reported without any evidence."""

    def held(self, invariant: str, facts: int = 1) -> None:
        """Count ``facts`` that were judged, whether they kept the invariant or not."""
        self.facts[invariant] = self.facts.get(invariant, 0) + facts

    def unseen(self, invariant: str, why: str) -> None:
        """Note why there is nothing, or too little, to judge the invariant by."""
        self._reasons.setdefault(invariant, why)

    def broken(
        self,
        invariant: str,
        explanation: str,
        events: list[TraceEvent] | None = None,
        operations: list[int] | None = None,
        limit: Limit | None = None,
    ) -> None:
        """Report a finding against the invariant, with its evidence; ``limit`` is the limit in time
        that it depends on."""
        if not events and not operations:
            events = self.proof()
        self.findings.add(invariant, explanation, events, operations, limit)

    def take(self, findings: Findings) -> None:
        """Add the findings of another pass."""
        self.findings.merge(findings)

    def of(self, invariant: str) -> dict[str, Any]:
        """Return {"status", "facts", "anomalies", "suspicions" or "why"} of one invariant: never
        ``checked`` without a fact."""
        facts = self.facts.get(invariant, 0)
        count = self.findings.counts.get(invariant, 0)
        if count:
            return {"status": BROKEN, "facts": max(facts, count), "anomalies": count}
        if suspected := self.findings.suspected.get(invariant, 0):
            return {"status": SUSPECTED, "facts": max(facts, suspected), "suspicions": suspected}
        if facts:
            return {"status": CHECKED, "facts": facts}
        why = self._reasons.get(invariant, "no such event in this run")
        return {"status": NOT_CHECKED, "facts": 0, "why": why}
