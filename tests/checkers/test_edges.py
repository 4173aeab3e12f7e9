"""Comparisons of the generic checkers, judged right at their edges.

With ``<`` in the place of ``<=`` one of these tests fails (``bench/checker_mutants.py``).
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers import drained
from kraftwreck.checkers.calls import HistoryShapeError, pair
from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.floor import NONE, Floor, FloorError, parse_floor
from kraftwreck.checkers.members import check as check_members
from kraftwreck.checkers.recorded.clocks import NodeClock, running_since
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.strength import below, strength
from kraftwreck.histories.members import Member
from kraftwreck.histories.operation import Op

SECOND = 1_000_000_000


def test_two_events_of_one_index_are_no_history() -> None:
    first = Op(index=3, process=0, type="invoke", f="read", value=None, time=0)
    second = Op(index=3, process=0, type="ok", f="read", value=1, time=1)
    with pytest.raises(HistoryShapeError, match="operation 3 comes after operation 3"):
        pair([first, second])


@pytest.mark.parametrize(("lost", "more"), [(12, False), (13, True)])
def test_twelve_lost_elements_are_named(lost: int, more: bool) -> None:
    ops = []
    for number in range(lost + 1):
        f, value = ("drain", []) if number == lost else ("enqueue", number)
        ops += [
            Op(index=2 * number, process=0, type="invoke", f=f, value=value, time=number),
            Op(index=2 * number + 1, process=0, type="ok", f=f, value=value, time=number),
        ]
    (anomaly,) = drained.check(RunData.from_memory(ops, [], [], [], {})).anomalies
    assert (" and 1 more" in anomaly.explanation) is more
    assert (" more" in anomaly.explanation) is more


def test_ten_findings_of_a_type_are_kept_alone_and_merged() -> None:
    many, others = Findings(), Findings()
    for _ in range(11):
        many.add("lost", "an element")
    others.add("lost", "an element")
    many.merge(others)
    assert len(many.anomalies) == 10
    assert many.counts == {"lost": 12}


@pytest.mark.parametrize("share", ["0", "1"])
def test_a_share_of_a_floor_may_be_all_or_nothing(share: str) -> None:
    assert parse_floor(f"share={share}", NONE).share == float(share)
    with pytest.raises(FloorError):
        parse_floor("share=1.01", NONE)


def test_a_run_right_at_its_floor_is_valid() -> None:
    floor = Floor(acknowledged=10, share=0.5, led=0.25, elections=2, faults=1)
    stats: dict[str, Any] = {
        "seconds": 4.0, "operations": 20, "acknowledged": 10, "led_s": 1.0, "elections": 2,
        "faults": {"kill": 1},
    }  # fmt: skip
    recorded = {name: getattr(floor, name) for name in Floor.__struct_fields__}
    assert below(stats, recorded) == []
    worse = {"acknowledged": 9, "led_s": 0.9, "elections": 1, "faults": {"kill": 0}}
    assert len(below({**stats, **worse}, recorded)) == 4


def test_an_election_at_the_end_of_the_run_counts(history: Any, traces: Any, make_run: Any) -> None:
    traces.elect("n1", 1)
    [elected] = [event for event in traces.events if event.kind == "elected"]
    at_the_end = make_run(history, traces, healed=elected.mono * 1000)
    assert strength(at_the_end).elections == 1
    before = make_run(history, traces, healed=elected.mono * 1000 - 1)
    assert strength(before).elections == 0


def members_of(count: int, value: str) -> dict[str, Member]:
    state = {str(number): value for number in range(count)}
    return {"n1": Member(7, state), "n2": Member(7, dict.fromkeys(state, "b"))}


@pytest.mark.parametrize(
    ("count", "places", "more"),
    [(1, "1 place:", False), (2, "2 places:", False), (5, "5 places:", False), (6, "6", True)],
)
def test_five_differences_of_members_are_shown(count: int, places: str, more: bool) -> None:
    run = RunData.from_memory([], [], [], [], {})
    run.members = members_of(count, "a")
    (anomaly,) = check_members(run).anomalies
    assert f"differ in {places}" in anomaly.explanation
    assert ("more." in anomaly.explanation) is more


@pytest.mark.parametrize(("length", "whole"), [(58, True), (59, False)])
def test_sixty_characters_of_a_value_are_shown(length: int, whole: bool) -> None:
    run = RunData.from_memory([], [], [], [], {})
    run.members = members_of(1, "a" * length)
    (anomaly,) = check_members(run).anomalies
    assert ("…" not in anomaly.explanation) is whole
    shown = f'"{"a" * 58}"' if whole else f'"{"a" * 58}…'
    assert f"0: n1 has {shown}, n2 has" in anomaly.explanation


@pytest.mark.parametrize(("count", "valid"), [(1, "unknown"), (2, True)])
def test_two_members_with_one_state_are_enough_to_compare(count: int, valid: Any) -> None:
    run = RunData.from_memory([], [], [], [], {})
    run.members = {f"n{number}": Member(7, "a") for number in range(count)}
    assert check_members(run).valid == valid


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(ValueError, match="from 5 to 5 us"):
        NodeClock([(0, 5), (10, 5)])


def test_a_stop_that_only_touches_the_span_does_not_extend_it() -> None:
    assert running_since(100, 10, [(80, 90)]) == 90
    assert running_since(100, 10, [(80, 91)]) == 79
    assert running_since(100, 10, [(100, 120)]) == 90
