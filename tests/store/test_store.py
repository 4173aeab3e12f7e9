"""The state machine of the store, and one member alone."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.store.machine import Store, encode
from kraftwreck.nodes.store.service import NOT_LEADER, StoreService


def applied(store: Store, **command: Any) -> dict[str, Any]:
    return store.apply(0, encode(command))


def test_commands_change_values() -> None:
    store = Store()
    assert applied(store, do="write", key=1, value=5) == {"ok": True}
    assert applied(store, do="cas", key=1, old=5, new=6) == {"ok": True}
    assert applied(store, do="cas", key=1, old=5, new=7)["ok"] is False
    assert store.read("1") == 6
    assert (store.read("2"), store.read("counter"), store.read("set")) == (None, 0, None)


def test_add_sums_counters_and_collects_the_rest() -> None:
    store = Store()
    for number in (2, 3):
        applied(store, do="add", key="counter", value=number)
        applied(store, do="add", key="set", value=number)
    assert (store.read("counter"), store.read("set")) == (5, [2, 3])


def test_add_begins_a_list_where_nothing_was_written() -> None:
    store = Store()
    applied(store, do="write", key="set", value=None)
    assert applied(store, do="add", key="set", value=1) == {"ok": True}
    assert store.read("set") == [1]


def test_a_transaction_reads_its_own_writes() -> None:
    store = Store()
    ops = [["r", 0, None], ["append", 0, 1], ["r", 0, None], ["w", 1, 9], ["r", 1, None]]
    read = applied(store, do="txn", ops=ops)["value"]
    assert read == [["r", 0, None], ["append", 0, 1], ["r", 0, [1]], ["w", 1, 9], ["r", 1, 9]]


@pytest.mark.parametrize(
    "command",
    [
        {"do": "write", "key": "x"},
        {"do": "write", "value": 1},
        {"do": "cas", "key": "x", "old": None},
        {"do": "add", "key": "counter", "value": "a"},
        {"do": "add", "key": "number", "value": 1},
        {"do": "txn"},
        {"do": "txn", "ops": 5},
        {"do": "txn", "ops": [["w", "x", 1], ["r"]]},
        {"do": "txn", "ops": [["w", "x", 1], ["append", "number", 2]]},
    ],
    ids=str,
)
def test_a_command_that_cannot_be_carried_out_changes_nothing(command: dict[str, Any]) -> None:
    """It is committed by then: each member must survive it, and each restart."""
    store = Store()
    applied(store, do="write", key="number", value=7)
    answer = applied(store, **command)
    assert answer == {"ok": False, "error": f"cannot carry out this {command['do']}"}
    assert store.values == {"number": 7}


def test_a_snapshot_restores_the_same_state() -> None:
    store, other = Store(), Store()
    applied(store, do="write", key=1, value="a")
    applied(store, do="add", key="set", value=2)
    other.restore(list(store.snapshot()))
    assert other.values == store.values


def member(*others: int) -> StoreService:
    members = {i: Endpoint(f"m{i}", 1) for i in (1, *others)}
    service = StoreService(RaftCore(RaftConfig(1, "store", members), Recovered(), 0, 0))
    service.start(0, 0)
    return service


def test_a_member_alone_answers_at_once() -> None:
    service, answers = member(), list[dict[str, Any]]()
    service.ask({"do": "write", "key": "a", "value": 1}, answers.append, 0)
    service.ask({"do": "read", "key": "a"}, answers.append, 0)
    assert answers == [{"ok": True}, {"ok": True, "value": 1}]


def test_a_follower_names_the_leader_as_far_as_known() -> None:
    answers = list[dict[str, Any]]()
    member(2, 3).ask({"do": "read", "key": "a"}, answers.append, 0)
    assert answers == [{"ok": False, "error": NOT_LEADER, "leader": -1, "host": None}]


@pytest.mark.parametrize("do", ["dance", [], None])
def test_an_unknown_request_is_refused(do: Any) -> None:
    answers = list[dict[str, Any]]()
    member().ask({"do": do}, answers.append, 0)
    assert answers == [{"ok": False, "error": f"unknown request {do!r}"}]
