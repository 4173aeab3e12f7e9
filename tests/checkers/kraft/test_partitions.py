"""Answers to clients that play brokers: every rule is shown to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.partitions import check

ID = "00" * 16
Judge = Callable[[], list[str]]


@pytest.fixture
def judge(history: Any, make_run: Callable[..., Any]) -> Judge:
    """Return ``judge()``: the types of the anomalies that are found."""

    def run() -> list[str]:
        result = check(make_run(history, workload="partitions"))
        assert result.valid is (not result.anomalies)
        return [anomaly.type for anomaly in result.anomalies]

    return run


def registration(broker: int, epoch: int, process: str = "a") -> list[dict[str, Any]]:
    return [
        {
            "broker": broker,
            "did": "register",
            "incarnation": process,
            "previous": -1,
            "epoch": epoch,
        }
    ]


def heartbeat(
    broker: int, epoch: int, offset: int = 100, *, fenced: bool = False
) -> list[dict[str, Any]]:
    report = {"broker": broker, "did": "heartbeat", "epoch": epoch, "offset": offset}
    return [report | {"fenced": fenced, "caught_up": True, "go": False}]


def proposal(base: int = 0, leader_epoch: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "how": "expand",
        "topic": "t",
        "id": ID,
        "partition": 0,
        "broker": 1000,
        "broker_epoch": 5,
        "leader_epoch": leader_epoch,
        "base": base,
        "members": [[1000, 5], [7, -1]],
        "new": {
            "leader": 1000,
            "leader_epoch": leader_epoch,
            "partition_epoch": base + 1,
            "isr": [1000, 7],
        },
        **changes,
    }


def test_a_history_of_something_else_is_none_of_its_business(history: Any, judge: Judge) -> None:
    history.did(0, "read", saw=["a"])
    assert judge() == []


def test_lives_as_they_should_be(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "serve", saw=registration(1000, 5))
    history.did(0, "beat", "serve", saw=registration(1000, 5))
    history.did(0, "beat", "serve", saw=heartbeat(1000, 5, 5))
    history.did(0, "isr", "expand", saw=proposal())
    history.did(0, "isr", "alone", saw=proposal(1))
    history.did(0, "ids", 1, saw={"broker": 1000, "epoch": 5, "start": 0, "length": 1000})
    history.did(0, "ids", 1, saw={"broker": 1000, "epoch": 5, "start": 1000, "length": 1000})
    history.time += 10
    history.did(0, "restart", 0, saw=registration(1000, 50, "b"))
    history.did(0, "beat", "serve", saw=heartbeat(1000, 50, 50))
    assert judge() == []


# --- C1, C2, I24 --------------------------------------------------------------------------


@pytest.mark.parametrize(("epoch", "process"), [(4, "b"), (5, "b"), (4, "a")])
def test_a_broker_epoch_that_does_not_grow(
    history: Any, judge: Judge, epoch: int, process: str
) -> None:
    history.did(0, "beat", "serve", saw=registration(1000, 5))
    history.did(0, "restart", 0, saw=registration(1000, epoch, process))
    assert judge() == ["C1"]


def test_registrations_that_overlap_may_come_in_any_order(history: Any, judge: Judge) -> None:
    history.invoke(0, "beat", "serve")
    history.invoke(1, "twin", 0)
    history.end(0, value=registration(1000, 9))
    history.end(1, value=registration(1000, 5, "b"))
    assert judge() == []


def test_a_second_process_during_the_session_of_the_first(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "serve", saw=heartbeat(1000, 5))
    history.time += 8
    history.did(0, "twin", 0, saw=registration(1000, 20, "b"))
    assert judge() == ["C1"]


def test_a_second_process_after_the_session_of_the_first(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "serve", saw=heartbeat(1000, 5))
    history.time += 9.1
    history.did(0, "twin", 0, saw=registration(1000, 20, "b"))
    assert judge() == []


def test_an_unregistered_broker_has_no_session(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "serve", saw=heartbeat(1000, 5))
    history.did(0, "unregister", 0, saw={"broker": 1000})
    history.did(0, "restart", 0, saw=registration(1000, 20, "b"))
    assert judge() == []
    history.did(0, "beat", "serve", saw=heartbeat(1001, 5))
    history.did(0, "restart", 0, saw=registration(1001, 21, "b"))
    assert judge() == ["C1"]


def test_a_broker_that_is_behind_stays_fenced(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "lag", saw=heartbeat(1000, 5, 4, fenced=True))
    assert judge() == []
    history.did(0, "beat", "lag", saw=heartbeat(1000, 5, 4))
    assert judge() == ["I24"]


def test_a_process_that_was_replaced_proposes(history: Any, judge: Judge) -> None:
    history.did(0, "restart", 0, saw=registration(1000, 6, "b"))
    history.did(0, "isr", "stale-broker", saw=proposal(members=[[1000, 6]]))
    assert judge() == ["C2"]


# --- C8, C5 -------------------------------------------------------------------------------


def test_a_member_that_registered_again(history: Any, judge: Judge) -> None:
    history.did(0, "beat", "serve", saw=registration(1001, 8))
    history.did(0, "isr", "stale-member", saw=proposal(members=[[1000, 5], [1001, 3]]))
    assert judge() == ["C8"]


@pytest.mark.parametrize("how", ["stranger", "not-leader", "ahead"])
def test_a_proposal_that_is_never_right(history: Any, judge: Judge, how: str) -> None:
    history.did(0, "isr", how, saw=proposal(how=how))
    assert judge() == ["C8"]


@pytest.mark.parametrize(
    ("error", "found"),
    [("ahead", []), ("stale-broker-epoch", []), ("fenced-leader-epoch", ["C8"])],
)
def test_a_proposal_ahead_of_the_controller(
    history: Any, judge: Judge, error: str, found: list[str]
) -> None:
    history.invoke(0, "isr", "ahead")
    history.end(0, "fail", proposal(1007, how="ahead"), error=error)
    assert judge() == found


def test_a_proposal_against_an_older_state(history: Any, judge: Judge) -> None:
    history.did(0, "isr", "expand", saw=proposal(4))
    history.did(0, "isr", "stale-partition-epoch", saw=proposal(3))
    assert set(judge()) == {"C8", "C5"}


def test_a_proposal_of_an_older_leader(history: Any, judge: Judge) -> None:
    history.did(0, "isr", "expand", saw=proposal(4, 2))
    history.did(0, "isr", "stale-leader-epoch", saw=proposal(5, 1))
    assert set(judge()) == {"C8", "C5"}


def test_two_proposals_that_become_one_epoch(history: Any, judge: Judge) -> None:
    history.invoke(0, "isr", "expand")
    history.invoke(1, "isr", "alone")
    history.end(0, value=proposal(4))
    history.end(1, value=proposal(4))
    assert judge() == ["C8"]


def test_an_epoch_that_was_not_next(history: Any, judge: Judge) -> None:
    wrong = proposal(4)
    wrong["new"]["partition_epoch"] = 6
    history.did(0, "isr", "expand", saw=wrong)
    assert judge() == ["C8"]


def test_a_leader_epoch_that_goes_back(history: Any, judge: Judge) -> None:
    def described(epoch: int) -> dict[str, Any]:
        return {"id": ID, "partitions": [[1000, epoch, [1000], [1000]]]}

    history.did(0, "describe", key="t", saw=described(3))
    history.did(1, "describe", key="t", saw=described(3))
    assert judge() == []
    history.did(1, "describe", key="t", saw=described(2))
    assert judge() == ["C5"]


# --- C11 ----------------------------------------------------------------------------------


def test_producer_ids_that_are_given_twice(history: Any, judge: Judge) -> None:
    for start in (0, 1000, 500):
        history.did(0, "ids", 1, saw={"broker": 1, "epoch": 5, "start": start, "length": 1000})
    assert judge() == ["C11", "C11"]
