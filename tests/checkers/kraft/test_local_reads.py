"""C20: brokers' own answers, page by page, and not before they have caught up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.reads import _differences, describe_partitions
from kraftwreck.checkers.kraft.controller_model.state import State
from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import NO_LAG, Evidence
from kraftwreck.checkers.kraft.invariants.report import BROKEN
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.verdict import NOT_CHECKED
from tests.checkers.breaks import findings

SECOND = 1_000_000_000


@pytest.fixture
def state(cluster: Any, records: Any, make_run: Callable[..., Any]) -> State:
    """Topics t, with one partition, and u, with three."""
    other = bytes(15) + b"\x77"
    parts = [
        records.partition([1, 2, 3], topic_id=other, partition_id=number) for number in range(3)
    ]
    cluster.write(records.topic("u", other), *parts)
    history = Controller.of(Evidence(make_run(None, cluster))).history
    return State(history, history.reach)


def told(state: State, pages: dict[str, list[int]], following: Any = None) -> dict[str, Any]:
    topics = []
    for name, numbers in pages.items():
        topic_id = state.topic(name)
        shown = [] if topic_id is None else state.partitions(topic_id)
        parts = [
            {
                "error_code": 0, "partition_index": n, "leader_id": shown[n].leader,
                "leader_epoch": shown[n].leader_epoch, "replica_nodes": [1, 2, 3],
                "isr_nodes": [1, 2, 3], "offline_replicas": [],
            }
            for n in numbers
        ]  # fmt: skip
        code = 3 if topic_id is None else 0
        found = topic_id or bytes(16)
        topics.append({"name": name, "topic_id": found, "error_code": code, "partitions": parts})
    cursor = None if following is None else dict(
        zip(("topic_name", "partition_index"), following, strict=True)
    )  # fmt: skip
    return {"topics": topics, "next_cursor": cursor}


def asked(cursor: Any, *names: str, limit: int = 10) -> dict[str, Any]:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return {"topics": topics, "response_partition_limit": limit, "cursor": at}


@pytest.mark.parametrize(
    ("cursor", "names", "pages", "right"),
    [
        (None, (), {"t": [0], "u": [0, 1, 2]}, True),
        (("u", 1), (), {"u": [1, 2]}, True),
        (("u", 1), (), {"u": [0, 1, 2]}, False),
        (("t", 1), (), {"t": [], "u": [0, 1, 2]}, True),
        (("t0", 1), (), {"u": [0, 1, 2]}, True),  # t0 is gone.
        (("t0", 1), (), {"u": [1, 2]}, False),
        (("t0", 1), ("t0", "u"), {"t0": [], "u": [0, 1, 2]}, True),
        (("t0", 1), ("t0", "u"), {"t0": [], "u": [1, 2]}, False),
        (("u", 9), (), {"u": []}, True),
        (("v", 0), (), {}, True),
        (("u", 2), ("t", "u"), {"u": [2]}, True),
        (("u", 2), ("t", "u"), {"t": [0], "u": [2]}, False),
    ],
)
def test_a_page_begins_at_its_cursor(
    state: State, cursor: Any, names: tuple[str, ...], pages: dict[str, list[int]], right: bool
) -> None:
    wrong = describe_partitions(state, asked(cursor, *names), told(state, pages), None)
    assert (wrong is None) == right, wrong


@pytest.mark.parametrize(
    ("following", "right"), [(("u", 2), True), (("u", 1), False), (None, False)]
)
def test_a_page_ends_where_the_next_begins(state: State, following: Any, right: bool) -> None:
    answer = told(state, {"u": [1]}, following)
    wrong = describe_partitions(state, asked(("u", 1), limit=1), answer, None)
    assert (wrong is None) == right, wrong


@pytest.mark.parametrize("refused", [True, False])
def test_a_cursor_at_a_topic_that_is_not_asked_for_is_refused(state: State, refused: bool) -> None:
    answer = told(state, {"t": [] if refused else [0]})
    answer["topics"][0]["error_code"] = 42 if refused else 0
    wrong = describe_partitions(state, asked(("u", 0), "t"), answer, None)
    assert (wrong is None) == refused


def answered_at_once(
    cluster: Any, capture: Capture, make_run: Callable[..., Any], caught_up: bool, **test: Any
) -> RunData:
    """n3 is a broker here and answers as it has started; n1 and n2 are the controllers."""
    cluster.time += 1
    cluster.start("n3")
    if caught_up:
        cluster.at["n3"]["hw"] = -1
        cluster.commit("n3")
    now = cluster.events[-1].mono * 1000
    answer = {"error_code": 0, "topics": [], "next_cursor": None}
    body = asked(("zzz", 0))
    capture.api(now, -1, 3, "DescribeTopicPartitions", body, answer, now)
    run: RunData = make_run(None, cluster, capture=capture, controllers=["n1", "n2"], **test)
    return run


@pytest.mark.parametrize("caught_up", [True, False])
def test_a_broker_that_starts_serves_once_it_has_caught_up(
    cluster: Any, capture: Capture, make_run: Callable[..., Any], caught_up: bool
) -> None:
    run = answered_at_once(cluster, capture, make_run, caught_up)
    found = [a.explanation for a in findings(run) if a.type == "C20"]
    assert found == [] if caught_up else "serves only once it has caught up" in found[0]


@pytest.mark.parametrize("versions", [None, {}, {"traces": 1}, {"traces": 2}])
def test_nodes_that_did_not_trace_their_lag_prove_nothing(
    cluster: Any, capture: Capture, make_run: Callable[..., Any], versions: Any
) -> None:
    """Traces of nodes of older versions on hosts do not say which state an answer shows."""
    capture.own_inputs = True
    told = check(answered_at_once(cluster, capture, make_run, False, versions=versions))
    c20 = told.stats["invariants"]["C20"]
    if versions == {"traces": 2}:
        assert c20["status"] == BROKEN
    else:
        assert (c20["status"], c20["why"]) == (NOT_CHECKED, NO_LAG)


@pytest.mark.parametrize(("count", "shown", "more"), [(1, 1, 0), (3, 3, 0), (4, 3, 1), (7, 3, 4)])
def test_three_differences_are_named_and_the_others_counted(
    count: int, shown: int, more: int
) -> None:
    text = _differences(dict.fromkeys(range(count), "b"), dict.fromkeys(range(count), "a"))
    named = "; ".join(f"{key}: b, it is a" for key in range(shown))
    assert text == named + (f"; and {more} more" if more else "")
