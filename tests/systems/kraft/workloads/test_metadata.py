"""The metadata workload records honestly what it knows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.metadata import OWN_NAMES, SHARED_NAMES, WORKLOAD

LED_BY_2 = {"controller_id": 2, "topics": []}
UNLED = {"controller_id": -1, "topics": []}


def topics(*names: str, controller: int = 2) -> dict[str, Any]:
    return {"controller_id": controller, "topics": [{"name": name} for name in names]}


def created(code: int) -> dict[str, Any]:
    return {"topics": [{"name": "a", "error_code": code}]}


def deleted(code: int) -> dict[str, Any]:
    return {"responses": [{"name": "a", "error_code": code}]}


def test_a_topic_is_created_through_the_controller(drive: Any, script: Any) -> None:
    calls = script(LED_BY_2, created(0))
    done = drive(WORKLOAD, "create", calls, "a", "a")
    assert (done.type, done.value, done.node) == ("ok", "a", "n2")
    assert [(c.api, c.version) for c in calls.calls] == [("Metadata", 12), ("CreateTopics", 7)]
    assert calls.calls[1].node == "n2"


def test_the_controller_is_remembered(drive: Any, script: Any, client: ClientState) -> None:
    drive(WORKLOAD, "create", script(LED_BY_2, created(0)), "a", "a")
    drive(WORKLOAD, "delete", script(deleted(0)), "a", "a")
    assert client.leader == "n2"


@pytest.mark.parametrize(
    ("answer", "kind", "error"),
    [
        (created(36), "fail", "topic-already-exists"),
        (created(41), "fail", "not-controller"),
        (created(7), "info", "request-timed-out"),
        (created(-1), "info", "unknown-server-error"),
        (created(56), "info", "kafka-storage-error"),
        ({"topics": []}, "info", "unknown-server-error"),
        (Answer("refused", error="connection refused"), "fail", "refused: connection refused"),
        (Answer("lost", error="timed out"), "info", "lost: timed out"),
    ],
)
def test_how_a_create_ends(drive: Any, script: Any, answer: Any, kind: str, error: str) -> None:
    done = drive(WORKLOAD, "create", script(LED_BY_2, answer), "a", "a")
    assert (done.type, done.error) == (kind, error)


@pytest.mark.parametrize(
    ("answer", "kind"), [(deleted(0), "ok"), (deleted(3), "fail"), (deleted(7), "info")]
)
def test_how_a_delete_ends(drive: Any, script: Any, answer: Any, kind: str) -> None:
    calls = script(LED_BY_2, answer)
    assert drive(WORKLOAD, "delete", calls, "a", "a").type == kind
    assert calls.calls[1].body["topics"] == [{"name": "a"}]


@pytest.mark.parametrize(
    "answer", [created(41), created(7), Answer("lost"), Answer("refused")], ids=str
)
def test_the_guess_is_dropped_when_it_may_be_wrong(
    drive: Any, script: Any, client: ClientState, answer: Any
) -> None:
    drive(WORKLOAD, "create", script(LED_BY_2, answer), "a", "a")
    assert client.leader is None


def test_without_a_controller_nothing_is_sent_and_it_is_a_fail(drive: Any, script: Any) -> None:
    calls = script(UNLED, Answer("refused"), Answer("lost"))
    done = drive(WORKLOAD, "create", calls, "a", "a")
    assert (done.type, done.error) == ("fail", "refused: no controller known")
    assert {call.api for call in calls.calls} == {"Metadata"}


def test_a_read_is_all_names_sorted(drive: Any, script: Any) -> None:
    calls = script(LED_BY_2, topics("b", "a"))
    done = drive(WORKLOAD, "read", calls)
    assert (done.type, done.value, done.node) == ("ok", ["a", "b"], "n2")
    assert calls.calls[0].body["topics"] == []
    assert calls.calls[1].body["topics"] is None


def test_a_read_from_a_node_that_is_not_the_controller_does_not_count(
    drive: Any, script: Any, client: ClientState
) -> None:
    done = drive(WORKLOAD, "read", script(LED_BY_2, topics("a", controller=3)))
    assert (done.type, done.error) == ("fail", "not-controller")
    assert client.leader == "n3"


def test_a_lost_read_is_a_fail_because_reads_change_nothing(drive: Any, script: Any) -> None:
    assert drive(WORKLOAD, "read", script(LED_BY_2, Answer("lost"))).type == "fail"


def test_a_final_read_asks_the_node_itself(drive: Any, script: Any) -> None:
    calls = script(topics("a", controller=1))
    done = drive(WORKLOAD, "read", calls, node="n3")
    assert (done.type, done.value, done.node) == ("ok", ["a"], "n3")
    assert [p.node for p in WORKLOAD.final(("n1", "n2"))] == ["n1", "n2"]
    assert all(p.final and p.f == "read" for p in WORKLOAD.final(("n1", "n2")))


def test_operations_come_in_proportion_and_own_names_are_created_by_one_client() -> None:
    planned = [WORKLOAD.plan(7, thread, count) for thread in range(5) for count in range(400)]
    kinds = Counter(p.f for p in planned)
    assert kinds["read"] / 2000 == pytest.approx(0.25, abs=0.03)
    assert kinds["delete"] / 2000 == pytest.approx(0.30, abs=0.03)
    creates = Counter(p.key for p in planned if p.f == "create")
    assert sum(n for name, n in creates.items() if name.startswith("shared-")) > 50
    for thread in range(5):
        own = [WORKLOAD.plan(7, thread, count) for count in range(OWN_NAMES)]
        names = [p.key for p in own if p.f == "create" and not p.key.startswith("shared-")]
        assert len(names) == len(set(names)), "a name comes again only after all others"
        assert all(name.startswith(f"t{thread}-") for name in names)


def test_a_cluster_holds_no_more_topics_in_an_hour_than_in_minutes() -> None:
    names = {
        p.key
        for thread in range(5)
        for count in range(7200)
        if (p := WORKLOAD.plan(7, thread, count)).f == "create"
    }
    assert len(names) <= 5 * OWN_NAMES + SHARED_NAMES


def test_a_client_deletes_only_topics_it_created_before() -> None:
    created_names: set[str] = set()
    for count in range(400):
        p = WORKLOAD.plan(7, 3, count)
        if p.f == "create":
            created_names.add(p.key)
        elif p.f == "delete" and not p.key.startswith("shared-"):
            assert p.key in created_names


def test_the_plan_depends_on_the_seed_only() -> None:
    assert WORKLOAD.plan(1, 2, 3) == WORKLOAD.plan(1, 2, 3)
    assert [WORKLOAD.plan(1, 0, i) for i in range(20)] != [
        WORKLOAD.plan(2, 0, i) for i in range(20)
    ]
