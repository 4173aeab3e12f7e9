"""The leader workload asks the nodes in turn and reports claims."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.harness.options import OptionError
from kraftwreck.systems.kraft.workloads.leader import WORKLOAD
from kraftwreck.workloads.registry import find


def quorum(code: int = 0, top: int = 0, leader: int = 1) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "error_code": code,
        "leader_id": leader,
        "leader_epoch": 5,
        "high_watermark": 70,
        "current_voters": [],
        "observers": [],
    }
    topic = {"topic_name": "__cluster_metadata", "partitions": [partition]}
    return {"error_code": top, "topics": [topic]}


def test_a_claim(drive: Any, script: Any) -> None:
    done = drive(WORKLOAD, "leader", script(quorum()))
    assert done.type == "ok"
    assert done.value == {"leader": 1, "epoch": 5, "hw": 70, "node": 1}
    assert done.node == "n1"


def test_nodes_are_asked_in_turn(drive: Any, script: Any) -> None:
    asked = [drive(WORKLOAD, "leader", script(quorum())).node for _ in range(4)]
    assert asked == ["n1", "n2", "n3", "n1"]


@pytest.mark.parametrize("answer", [quorum(code=6), quorum(top=41), quorum(top=6)])
def test_a_node_that_does_not_lead_says_so(drive: Any, script: Any, answer: Any) -> None:
    done = drive(WORKLOAD, "leader", script(answer))
    assert (done.type, done.value) == ("ok", None)


@pytest.mark.parametrize(
    "answer", [Answer("lost"), Answer("refused"), quorum(code=7), {"topics": []}], ids=str
)
def test_anything_else_is_a_fail(drive: Any, script: Any, answer: Any) -> None:
    assert drive(WORKLOAD, "leader", script(answer)).type == "fail"


def test_a_broker_answers_and_claims_nothing(drive: Any, script: Any) -> None:
    """It forwards the question. One final operation asks every node, brokers, too."""
    done = drive(WORKLOAD, "leader", script(quorum()), node="b1")
    assert done.type == "ok"
    assert done.value == {"leader": 1, "epoch": 5, "hw": 70, "node": None}


def test_workloads_are_found_by_name_and_unknown_ones_listed() -> None:
    assert find("leader") is WORKLOAD
    with pytest.raises(
        OptionError,
        match=r"'bank'; known workloads: leader, .*\bregister, registration, requests",
    ):
        find("bank")
