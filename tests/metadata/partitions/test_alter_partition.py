"""AlterPartition: the tests of a proposal in their order, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

NOT_CONTROLLER, BAD_REQUEST, FENCED_EPOCH, STALE_BROKER = 41, 42, 74, 77
BAD_VERSION, UNKNOWN_ID, INELIGIBLE, NEW_LEADER, UNKNOWN_PARTITION = 95, 100, 107, 108, 3


@pytest.fixture
def topic(cluster: Any) -> Any:
    """Topic ``t`` on 1, 2 and 3, led by 1 in leader epoch 2; only 1 is in sync."""
    cluster.topic("t", [1, 2, 3])
    cluster.fence(1)
    cluster.unfence(1)
    assert cluster.propose([1, 2, 3])["error_code"] == 0
    assert cluster.elect(0) == 0
    assert cluster.propose([1])["error_code"] == 0
    partition = cluster.partition()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    return cluster


def test_the_leader_lets_a_replica_in(topic: Any) -> None:
    before = topic.partition()
    part = topic.propose([1, 2])
    assert part == {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": 1,
        "leader_epoch": before.leader_epoch,
        "isr": [1, 2],
        "leader_recovery_state": 0,
        "partition_epoch": before.partition_epoch + 1,
    }
    assert topic.partition().isr == (1, 2)


def test_an_unchanged_isr_is_granted_without_a_record(topic: Any) -> None:
    before, batches = topic.partition(), len(topic.batches)
    assert topic.propose([1])["partition_epoch"] == before.partition_epoch
    assert len(topic.batches) == batches


def test_version_2_names_no_epochs(topic: Any) -> None:
    partition, topic_id = topic.partition(), topic.key()[0]
    proposal = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr": [1, 2],
    }
    body = {
        "broker_id": 1,
        "broker_epoch": topic.epoch(1),
        "topics": [{"topic_id": topic_id, "partitions": [proposal]}],
    }
    answer = topic.call("AlterPartition", 2, body)
    assert answer["topics"][0]["partitions"][0]["isr"] == [1, 2]


@pytest.mark.parametrize("epoch", [-1, 0, 10**6])
def test_a_sender_with_another_epoch_is_refused_altogether(topic: Any, epoch: int) -> None:
    assert topic.refused("AlterPartition", 3, topic.proposal([1, 2], sender_epoch=epoch)) == 77


def test_an_unregistered_sender_is_refused_as_a_whole(topic: Any) -> None:
    body = topic.proposal([1, 2], sender=9)
    assert topic.refused("AlterPartition", 3, body) == STALE_BROKER


def test_unknown_topics_and_partitions(topic: Any) -> None:
    body = topic.proposal([1])
    body["topics"][0]["topic_id"] = b"\x09" * 16
    [answer] = topic.call("AlterPartition", 3, body)["topics"]
    assert answer["partitions"][0]["error_code"] == UNKNOWN_ID
    assert topic.propose([1], partition_index=1)["error_code"] == UNKNOWN_PARTITION


# Each row breaks the rule its code stands for and rules that are looked at later.
WRONG: list[tuple[int, dict[str, Any]]] = [
    (NOT_CONTROLLER, {"leader": 1, "partition": -1, "sender": 2, "isr": [2, 9, 9], "dead": 2}),
    (NOT_CONTROLLER, {"leader": -1, "partition": 1, "sender": 2, "isr": [2, 9, 9], "dead": 2}),
    (FENCED_EPOCH, {"leader": -1, "partition": -1, "sender": 2, "isr": [2, 9, 9], "dead": 2}),
    (BAD_REQUEST, {"partition": -1, "sender": 2, "isr": [2, 9, 9], "dead": 2}),
    (BAD_VERSION, {"partition": -1, "isr": [2, 9, 9], "dead": 2}),
    (BAD_REQUEST, {"isr": [1, 2, 2], "dead": 2}),
    (BAD_REQUEST, {"isr": [1, 2, 4], "dead": 2}),
    (BAD_REQUEST, {"isr": [2], "dead": 2}),
    (BAD_REQUEST, {"isr": [], "dead": 2}),
    (BAD_REQUEST, {"isr": [1, 2], "recovery": 1, "dead": 2}),
    (BAD_REQUEST, {"isr": [1], "recovery": 1}),
    (BAD_REQUEST, {"isr": [1], "recovery": 2}),
    (INELIGIBLE, {"isr": [1, 2], "dead": 2}),
    (0, {"isr": [1, 2]}),
]


@pytest.mark.parametrize(("code", "wrong"), WRONG)
def test_the_first_rule_that_is_broken_decides(topic: Any, code: int, wrong: Any) -> None:
    """C07 planted: a leader that is ahead never gets an error for old epochs."""
    if "dead" in wrong:
        topic.fence(wrong["dead"])
    before = topic.partition()
    part = topic.propose(
        wrong["isr"],
        leader_epoch=before.leader_epoch + wrong.get("leader", 0),
        partition_epoch=before.partition_epoch + wrong.get("partition", 0),
        leader_recovery_state=wrong.get("recovery", 0),
        sender=wrong.get("sender", 1),
    )
    assert part["error_code"] == code
    assert (topic.partition() == before) == (code != 0)


@pytest.mark.parametrize("state", ["fenced", "stopping", "restarted", "unregistered"])
def test_ineligible_replicas_stay_out_of_the_isr(topic: Any, state: str) -> None:
    """KIP-841 and KIP-903; C04 and C06 planted."""
    old = topic.epoch(2)
    if state == "fenced":
        topic.fence(2)
    elif state == "stopping":
        topic.shut_down(2)
    elif state == "restarted":
        topic.restart(2, clean=False)
        topic.unfence(2)
    else:
        fields = {"broker_id": 2, "broker_epoch": old}
        topic.write([("UnregisterBrokerRecord", 0, fields)])
    members = [
        {"broker_id": 1, "broker_epoch": topic.epoch(1)},
        {"broker_id": 2, "broker_epoch": old},
    ]
    assert topic.propose([1, 2], new_isr_with_epochs=members)["error_code"] == INELIGIBLE


def test_an_epoch_the_leader_does_not_know_is_not_compared(topic: Any) -> None:
    members = [{"broker_id": b, "broker_epoch": -1} for b in (1, 2)]
    assert topic.propose([1, 2], new_isr_with_epochs=members)["error_code"] == 0


def test_a_recovering_leader_says_when_it_has_recovered(cluster: Any) -> None:
    cluster.topic("t", [1, 2], unclean_leader_election_enable="true")
    cluster.propose([1])
    cluster.fence(1)
    partition = cluster.partition()
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), 1)
    cluster.unfence(1)
    assert cluster.propose([2, 1], leader_recovery_state=1)["error_code"] == BAD_REQUEST
    assert cluster.propose([2], leader_recovery_state=1)["error_code"] == 0
    assert cluster.propose([2, 1])["leader_recovery_state"] == 0
    assert cluster.partition().recovery_state == 0


def test_a_proposal_that_ends_leadership_gets_new_leader_elected(cluster: Any) -> None:
    cluster.topic("t", [1, 2])
    assert cluster.reassign([3, 4]) == 0
    assert cluster.propose([1, 2, 3])["error_code"] == 0
    assert cluster.propose([1, 2, 3, 4])["error_code"] == NEW_LEADER
    partition = cluster.partition()
    assert (partition.leader, partition.replicas, partition.isr) == (3, (3, 4), (3, 4))


def test_two_proposals_for_one_partition_in_a_request(topic: Any) -> None:
    """The second was made against epochs that the first has moved."""
    body = topic.proposal([1, 2])
    body["topics"][0]["partitions"] *= 2
    [answer] = topic.call("AlterPartition", 3, body)["topics"]
    assert [part["error_code"] for part in answer["partitions"]] == [0, BAD_VERSION]
    assert topic.partition().isr == (1, 2)
