"""Facts: reports of several rules that are proven by the same data, joined into one.

A rule is a checker and an anomaly type. Texts are never compared:

- Two rules report one fact when the operations and trace events of one report are a subset of
  those of the other.
- Reports of one type are one fact when they point at the same node, incarnation, epoch and high
  watermark.
- Two reports of one rule that are proven by operations are two facts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kraftwreck.histories.verdict import Anomaly, Verdict

MAX_REPORTS = 500
"""At most this many anomalies are joined and shown; ``results.json`` has all."""


@dataclass(frozen=True)
class Report:
    """One anomaly, with its checker and its position in that checker's list."""

    checker: str
    position: int
    anomaly: Anomaly
    points: frozenset[Hashable]
    """The operations and trace events that prove it."""
    positions: frozenset[Hashable]
    """The positions in nodes' logs that it points at; empty if operations prove it, too."""

    @property
    def rule(self) -> tuple[str, str]:
        """The checker and the type of anomaly."""
        return self.checker, self.anomaly.type


@dataclass
class Fact:
    """One violation, with all its reports in the verdict's order."""

    reports: list[Report] = field(default_factory=list)

    def covers(self, report: Report) -> bool:
        """Return whether ``report`` belongs to this fact."""
        return any(_same(known, report) for known in self.reports)


def facts_of(verdict: Verdict, row_of: Mapping[int, int]) -> list[Fact]:
    """Return the facts of ``verdict`` in the order of their first reports.

    ``row_of`` maps the index of an invocation or a completion to its operation. At most
    :data:`MAX_REPORTS` anomalies are used.
    """
    facts: list[Fact] = []
    for report in _reports(verdict, row_of)[:MAX_REPORTS]:
        fact = next((fact for fact in facts if fact.covers(report)), None)
        if fact is None:
            facts.append(fact := Fact())
        fact.reports.append(report)
    return facts


def _reports(verdict: Verdict, row_of: Mapping[int, int]) -> list[Report]:
    reports = []
    for checker, result in verdict.checkers.items():
        for position, anomaly in enumerate(result.anomalies):
            operations = {("operation", row_of.get(i, -1 - i)) for i in anomaly.operations}
            reports.append(
                Report(
                    checker=checker,
                    position=position,
                    anomaly=anomaly,
                    points=frozenset(operations | {event_identity(e) for e in anomaly.events}),
                    positions=frozenset()
                    if operations
                    else frozenset(place for e in anomaly.events if (place := _place(e))),
                )
            )
    return reports


def event_identity(event: Mapping[str, Any]) -> Hashable:
    """Return the identity of a trace event: node, incarnation and number, or else all fields."""
    if "seq" in event:
        return "event", event.get("node"), event.get("incarnation"), event["seq"]
    return "event", msgspec.json.encode(event, order="deterministic")


def _place(event: Mapping[str, Any]) -> Hashable:
    """Return node, incarnation, epoch and high watermark of ``event``; None if one is missing."""
    names = ("node", "incarnation", "epoch", "hw")
    return tuple(event[name] for name in names) if all(n in event for n in names) else None


def _same(a: Report, b: Report) -> bool:
    if a.anomaly.type == b.anomaly.type and _nested(a.positions, b.positions):
        return True
    return a.rule != b.rule and _nested(a.points, b.points)


def _nested(a: frozenset[Hashable], b: frozenset[Hashable]) -> bool:
    """Return whether one set of evidence is a subset of the other, and neither is empty."""
    return bool(a and b) and (a <= b or b <= a)
