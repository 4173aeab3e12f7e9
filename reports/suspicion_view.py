"""Suspicions as the report shows them: findings that prove nothing, with their reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraftwreck.histories.verdict import Suspicion, Verdict
from kraftwreck.reports.node_lanes import Clocks
from kraftwreck.reports.plain import meaning
from kraftwreck.reports.words import seconds_text

MOST_LINES = 10
"""At most this many lines of evidence are shown per suspicion; ``results.json`` has all."""


@dataclass(frozen=True, slots=True)
class SuspicionView:
    """One suspicion.

    ``rule`` is the sentence of its rule, ``why`` the reason that it is no proof. ``evidence`` are
    its operations and trace events in words.
    """

    checker: str
    type: str
    explanation: str
    rule: str
    why: str
    evidence: list[str]


def suspicion_views(verdict: Verdict | None, clock: Clocks) -> list[SuspicionView]:
    """Return the suspicions of ``verdict`` in its order."""
    checkers = {} if verdict is None else verdict.checkers
    return [
        SuspicionView(
            checker=name,
            type=suspicion.type,
            explanation=suspicion.explanation,
            rule=meaning(suspicion.type).replace("It breaks the", "If true, it breaks the", 1),
            why=suspicion.why,
            evidence=_evidence(suspicion, clock),
        )
        for name, result in checkers.items()
        for suspicion in result.suspicions
    ]


def _evidence(suspicion: Suspicion, clock: Clocks) -> list[str]:
    lines = [_event(event, clock) for event in suspicion.events[:MOST_LINES]]
    if suspicion.operations:
        indices = ", ".join(map(str, suspicion.operations[:MOST_LINES]))
        lines.append(f"operations {indices}")
    return lines


def _event(event: dict[str, Any], clock: Clocks) -> str:
    """Return a trace event in words: time, node, kind, position."""
    node, mono = str(event.get("node", "")), event.get("mono")
    at = clock.history_time(node, mono) if isinstance(mono, int) else None
    when = "" if at is None else f"{seconds_text(at)}: "
    return (
        f"{when}{node} {event.get('kind', 'event')}, {event.get('state', 'unknown state')} of epoch"
        f" {event.get('epoch')}"
    )
