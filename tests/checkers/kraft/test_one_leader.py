"""I1: at most one leader per epoch, by traces, answers to clients, disks and messages together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control


def claim(history: Any, node: int, epoch: int, leader: int | None = None) -> None:
    value = {"leader": node if leader is None else leader, "epoch": epoch, "hw": 0, "node": node}
    history.did(node, "leader", saw=value, node=f"n{node}")


def test_one_leader_per_epoch_is_valid(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.elect("n2", 2, ["n3"])
    claim(history, 1, 1)
    claim(history, 2, 2)
    history.did(3, "leader", node="n3")
    result = check(make_run(history, quorum))
    assert (result.valid, result.anomalies) == (True, [])
    assert result.stats["epochs_with_leader"] == 2


def test_a_node_that_names_another_leader_makes_no_claim(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    claim(history, 2, 1, leader=3)
    assert check(make_run(history, quorum)).valid is True


def test_two_leaders_of_one_epoch_in_answers_to_clients(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.event("n1", "state", epoch=7)
    claim(history, 1, 7)
    claim(history, 3, 7)
    result = check(make_run(history, quorum))
    assert result.valid is False
    assert result.anomalies[0].type == "I1"
    assert result.anomalies[0].operations == [0, 1, 2, 3]


def test_a_claim_against_the_trace(history: Any, quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    claim(history, 3, 1)
    result = check(make_run(history, quorum))
    assert result.valid is False
    assert "traced by" in result.anomalies[0].explanation


def test_a_leader_change_record_on_a_disk_against_the_trace(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    body = {"version": 0, "leader_id": 3, "voters": [], "granting_voters": []}
    record = encode_control(LEADER_CHANGE, body)
    quorum.logs["n3"] = [encode_batch(0, 1, 0, [record], control=True)]
    result = check(make_run(None, quorum))
    assert result.valid is False
    assert "n3's disk" in result.anomalies[0].explanation


def test_a_missing_trace_is_unknown(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    claim(history, 1, 1)
    assert check(make_run(history)).valid == "unknown"
