"""Grouping of reports into facts: by operations and places in logs, never by words."""

from __future__ import annotations

from typing import Any

from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.reports.facts import facts_of

ROWS = {index: index // 2 for index in range(40)}
"""Operation n has the invocation 2n and the completion 2n + 1."""


def event(seq: int, node: str = "n1", epoch: int = 3, hw: int = 7) -> dict[str, Any]:
    """A trace event as anomalies carry it."""
    return {"node": node, "incarnation": 1, "seq": seq, "epoch": epoch, "hw": hw, "kind": "hw"}


def grouped(**checkers: list[Anomaly]) -> list[list[str]]:
    """The facts of a verdict, each as the explanations of its reports."""
    verdict = Verdict.of({n: CheckerResult(valid=False, anomalies=a) for n, a in checkers.items()})
    return [[r.anomaly.explanation for r in fact.reports] for fact in facts_of(verdict, ROWS)]


def of(kind: str, text: str, *events: dict[str, Any], operations: tuple[int, ...] = ()) -> Anomaly:
    """An anomaly with this evidence."""
    return Anomaly(type=kind, explanation=text, events=list(events), operations=list(operations))


def test_rules_of_several_checkers_with_one_trace_event_are_one_fact() -> None:
    assert grouped(
        invariants=[of("I12", "a", event(7))],
        conformance=[of("nonconformant", "b", event(6, hw=6), event(7))],
        simulator=[of("I12", "c", event(7))],
    ) == [["a", "b", "c"]]


def test_repeats_at_one_high_watermark_are_one_fact() -> None:
    assert grouped(
        simulator=[of("I12", "a", event(7)), of("I12", "b", event(8)), of("I12", "c", event(9))]
    ) == [["a", "b", "c"]]


def test_other_nodes_epochs_and_offsets_are_other_facts() -> None:
    assert (
        grouped(
            simulator=[
                of("I12", "a", event(7)),
                of("I12", "a", event(7, node="n2")),
                of("I12", "a", event(9, epoch=4)),
                of("I12", "a", event(11, hw=8)),
            ]
        )
        == [["a"]] * 4
    ), "though all say the same"


def test_rules_about_different_events_of_one_place_are_two_facts() -> None:
    assert grouped(
        invariants=[of("I12", "a", event(7)), of("I18", "b", event(8))],
    ) == [["a"], ["b"]]


def test_operations_are_compared_as_operations_not_as_indices() -> None:
    assert grouped(
        linearizable=[of("nonlinearizable", "a", operations=(2, 3, 8))],
        invariants=[of("C9", "b", operations=(3,))],
    ) == [["a", "b"]]


def test_one_rule_about_one_read_twice_reports_two_facts() -> None:
    assert grouped(
        committed=[of("lost", "a", operations=(4,)), of("lost", "b", operations=(4,))],
    ) == [["a"], ["b"]]


def test_overlapping_but_different_evidence_is_two_facts() -> None:
    assert grouped(
        committed=[of("lost", "a", operations=(0, 4))], epochs=[of("stale", "b", operations=(4, 6))]
    ) == [["a"], ["b"]]


def test_reports_without_evidence_stay_apart() -> None:
    assert grouped(recovery=[of("L1", "a")], simulator=[of("L1", "a")]) == [["a"], ["a"]]


def test_unknown_operations_and_events_without_numbers_are_compared_too() -> None:
    disk = {"node": "n1", "offset": 4}
    assert grouped(
        a=[of("X", "a", disk), of("Y", "b", operations=(999,))],
        b=[of("Z", "c", dict(reversed(disk.items()))), of("Z", "d", operations=(998,))],
    ) == [["a", "c"], ["b"], ["d"]]
