"""Coverage is computed from what a run leaves, and adds up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.recorded import stored_events
from kraftwreck.checkers.recorded.stored_events import StoredEvents
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.tables import TRACE_SCHEMA, to_table
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nemesis.coverage import Coverage, coverage, fault_classes, load, store

NAMES = ("n1", "n2", "n3")
TEST: dict[str, Any] = {
    "electing": list(NAMES),
    "clock": {name: {"offset_us": 1_000_000 * place} for place, name in enumerate(NAMES)},
}
MS = 1_000_000


def event(node: str, at_ms: int, kind: str, state: str, **fields: Any) -> TraceEvent:
    offset = 1_000_000 * NAMES.index(node)
    known: dict[str, Any] = {"epoch": 1, "leader": 1, "voted": -1, "leo": 5, "hw": 5}
    return TraceEvent(
        node=node,
        incarnation=1,
        seq=at_ms,
        mono=at_ms * 1000 + offset,
        wall=0,
        kind=kind,
        state=state,
        **{**known, **fields},
    )


def fault(
    number: int, phase: str, at_ms: int, name: str, *targets: str, **fields: Any
) -> FaultEvent:
    kind, _, shape = name.partition("/")
    return FaultEvent(
        id=number,
        phase="start" if phase == "start" else "stop",
        kind=kind,
        shape=shape,
        targets=list(targets),
        time=at_ms * MS,
        done=at_ms * MS,
        **fields,
    )


def cut(number: int, at_ms: int, leader: str, grudge: dict[str, list[str]]) -> FaultEvent:
    detail = {"leader": leader, "grudge": grudge}
    return fault(number, "start", at_ms, "partition/links", *grudge, detail=detail)


def test_a_fault_meets_its_target_in_its_last_reported_state() -> None:
    events = [event("n3", 10, "state", "follower"), event("n3", 20, "elected", "leader")]
    faults = [
        fault(0, "start", 15, "pause/one", "n3"),
        fault(0, "stop", 16, "pause/one", "n3"),
        fault(1, "start", 25, "kill/one", "n3"),
        fault(2, "start", 26, "kill/all", "n3"),
        fault(3, "start", 5, "partition/one", "n3"),
    ]
    reached = coverage(events, faults, TEST)
    assert set(reached.struck) == {
        "follower pause/one",
        "leader kill/one",
        "down kill/all",
        "down partition/one",
    }


def test_pairs_are_ordered_and_overlap_while_the_first_is_in_force() -> None:
    faults = [
        fault(0, "start", 1, "kill/one", "n1"),
        fault(1, "start", 2, "pause/one", "n2"),
        fault(0, "stop", 3, "kill/one", "n1"),
        fault(2, "start", 4, "partition/one", "n3"),
    ]
    reached = coverage([], faults, TEST)
    assert set(reached.overlaps) == {"kill/one > pause/one", "pause/one > partition/one"}
    assert set(reached.follows) == {*reached.overlaps, "kill/one > partition/one"}


def test_a_fault_that_did_not_happen_covers_nothing() -> None:
    faults = [
        fault(0, "start", 1, "kill/leader"),
        fault(1, "start", 2, "kill/one", "n1", error="n1: RuntimeError"),
        fault(2, "start", 3, "pause/one", "n1", detail={"skipped": {"n1": "down already"}}),
    ]
    reached = coverage([], faults, TEST)
    assert not reached.struck
    assert not reached.follows


def test_cuts_that_are_in_force_together_are_one_pattern() -> None:
    first = cut(0, 1, "n1", {"n1": ["n2"], "n2": ["n1"], "n3": []})
    second = cut(1, 2, "n1", {"n1": ["n3"], "n2": [], "n3": ["n1"]})
    alone = coverage([], [first], TEST)
    both = coverage([], [first, second], TEST)
    assert len(alone.cuts) == 1
    assert len(both.cuts) == 2
    other = cut(0, 1, "n3", {"n3": ["n2"], "n2": ["n3"], "n1": []})
    assert coverage([], [other], TEST).cuts == alone.cuts, "the same, seen from the leader"


def test_a_one_way_cut_is_a_directed_pattern_only() -> None:
    reached = coverage([], [cut(0, 1, "n1", {"n2": ["n1"]})], TEST)
    assert not reached.cuts
    assert len(reached.directed) == 1


def test_the_members_move_when_a_node_does_and_names_do_not_matter() -> None:
    first = [event("n1", 1, "state", "follower"), event("n2", 2, "state", "candidate")]
    swapped = [event("n2", 1, "state", "follower"), event("n1", 2, "state", "candidate")]
    assert coverage(first, [], TEST).edges == coverage(swapped, [], TEST).edges
    assert len(coverage(first, [], TEST).edges) == 2
    still = [event("n1", 1, "append", "follower"), event("n1", 2, "append", "follower")]
    assert len(coverage(still, [], TEST).edges) == 1


def test_traces_of_real_nodes_are_put_in_order_by_their_clocks() -> None:
    ordered = [
        event("n3", 1, "state", "prospective"),
        event("n1", 2, "state", "follower"),
        event("n3", 3, "state", "candidate"),
    ]
    by_node = [ordered[1], ordered[0], ordered[2]]
    assert coverage(by_node, [], TEST, ordered=False).edges == coverage(ordered, [], TEST).edges


def test_nodes_that_elect_no_leader_are_not_counted_as_electing() -> None:
    events = [event("n1", 1, "state", "leader"), event("n2", 2, "state", "follower")]
    test = {"nodes": NAMES, "roles": {"n2": "replica"}, "clock": TEST["clock"]}
    assert len(coverage(events, [], test).edges) == 1
    assert len(coverage(events, [], {**test, "roles": {}}).edges) == 2


def test_runs_add_up_and_new_coverage_is_known() -> None:
    one = coverage([], [fault(0, "start", 1, "kill/one", "n1")], TEST)
    other = coverage([], [fault(0, "start", 1, "pause/one", "n1")], TEST)
    whole = Coverage()
    assert whole.new_in(one)["struck"] == 1
    whole.merge(one)
    assert whole.new_in(one)["struck"] == 0
    whole.merge(other)
    whole.merge(other)
    assert whole.runs == 3
    assert sorted(whole.struck.values()) == [1, 2]
    assert whole.summary()["cuts"] == {"3": [0, 5], "4": [0, 19], "5": [0, 89]}
    assert whole.summary()["pairs"] == [0, len(fault_classes()) ** 2]


def test_a_file_keeps_it_and_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "coverage.json"
    assert load(path) == Coverage()
    one = coverage([event("n1", 1, "state", "leader")], [], TEST)
    store(path, one)
    assert load(path) == one
    path.write_text("[]")
    with pytest.raises(OptionError, match=r"coverage\.json: not a coverage file"):
        load(path)


def test_it_is_plain_json() -> None:
    one = coverage([event("n1", 1, "state", "leader")], [], TEST)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Coverage) == one


def test_a_trace_that_stays_columns_is_counted_one_event_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_events, "_BATCH", 3)
    states = ("unattached", "follower", "leader", "follower")
    events = [
        event(node, 10 * at + place, "state", states[(at + place) % 4], epoch=1 + at // 3)
        for place, node in enumerate(NAMES)
        for at in range(10)
    ]
    faults = [fault(at, "start", 17 * at, "kill/one", NAMES[at % 3]) for at in range(6)]
    columns = StoredEvents(to_table(events, TRACE_SCHEMA))
    counted = coverage(columns, faults, TEST, ordered=False)
    assert counted == coverage(events, faults, TEST, ordered=False)
    by_time = sorted(events, key=lambda e: e.seq)
    assert counted == coverage(by_time, faults, TEST)
    assert len(counted.struck) > 2
    assert len(counted.edges) > 5
