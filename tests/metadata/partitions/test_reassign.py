"""Reassignments: started, completed, replaced, cancelled and listed."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.reassign import list_partition_reassignments

UNKNOWN_PARTITION, BAD_FACTOR, BAD_ASSIGNMENT, NONE_IN_PROGRESS = 3, 38, 39, 85


@pytest.fixture
def topic(cluster: Any) -> Any:
    """Topic ``t`` on 1 and 2, of four brokers."""
    cluster.topic("t", [1, 2])
    return cluster


def listed(cluster: Any, topics: Any = None) -> Any:
    answer = list_partition_reassignments(cluster.image.stable, {"topics": topics})
    return [(t["name"], part) for t in answer["topics"] for part in t["partitions"]]


def test_all_replicas_are_there_until_the_new_ones_are_in_sync(topic: Any) -> None:
    assert topic.reassign([3, 4]) == 0
    partition = topic.partition()
    assert partition.replicas == (3, 4, 1, 2)
    assert (partition.adding, partition.removing) == ((3, 4), (1, 2))
    assert (partition.isr, partition.leader) == ((1, 2), 1)
    part = {
        "partition_index": 0,
        "replicas": [3, 4, 1, 2],
        "adding_replicas": [3, 4],
        "removing_replicas": [1, 2],
    }
    assert listed(topic) == [("t", part)]
    assert listed(topic, [{"name": "t", "partition_indexes": [0, 7]}]) == [("t", part)]
    assert listed(topic, [{"name": "x", "partition_indexes": [0]}]) == []
    topic.propose([1, 2, 3])
    assert topic.partition().replicas == (3, 4, 1, 2)
    topic.propose([1, 2, 3, 4])
    partition = topic.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)
    assert (partition.adding, partition.removing) == ((), ())
    assert len(partition.directories) == 2
    assert listed(topic) == []


def test_it_completes_also_when_a_broker_fails(topic: Any) -> None:
    topic.reassign([1, 3])
    topic.propose([1, 2, 3])
    assert topic.partition().replicas == (1, 3), "one in, one out"
    topic.reassign([1])
    assert topic.partition().replicas == (1,), "at once: it is in sync"


def test_a_leader_that_is_removed_hands_over(topic: Any) -> None:
    epoch = topic.partition().leader_epoch
    topic.reassign([2])
    partition = topic.partition()
    assert (partition.leader, partition.leader_epoch) == (2, epoch + 1)
    assert (partition.replicas, partition.isr) == ((2,), (2,))


def test_a_second_reassignment_starts_from_the_state_of_the_first(topic: Any) -> None:
    topic.reassign([3])
    topic.reassign([4])
    partition = topic.partition()
    assert partition.replicas == (4, 1, 2, 3)
    assert (partition.adding, partition.removing) == ((4,), (1, 2, 3))


def test_back_to_where_it_came_from(topic: Any) -> None:
    topic.reassign([3, 4])
    topic.reassign([1, 2])
    partition = topic.partition()
    assert (partition.replicas, partition.adding, partition.removing) == ((1, 2), (), ())


@pytest.mark.parametrize(
    ("target", "code"), [([], BAD_ASSIGNMENT), ([1, 1], BAD_ASSIGNMENT), ([1, 9], BAD_ASSIGNMENT)]
)
def test_targets_that_cannot_be(topic: Any, target: list[int], code: int) -> None:
    before = topic.partition()
    assert topic.reassign(target) == code
    assert topic.partition() == before


def test_unknown_partitions(topic: Any) -> None:
    assert topic.reassign([1], "t", 1) == UNKNOWN_PARTITION
    assert topic.reassign(None, "x") == UNKNOWN_PARTITION


def test_the_replication_factor_may_have_to_stay(topic: Any) -> None:
    strict = {"allow_replication_factor_change": False}
    assert topic.reassign([1, 2, 3], **strict) == BAD_FACTOR
    assert topic.reassign([3, 4], **strict) == 0
    assert topic.reassign([1, 3], **strict) == 0, "what counts is how many there will be"
    assert topic.reassign([1, 3, 4], **strict) == BAD_FACTOR
    assert topic.reassign([1, 3, 4]) == 0


def test_cancelling_goes_back(topic: Any) -> None:
    assert topic.reassign(None) == NONE_IN_PROGRESS
    topic.reassign([3, 4])
    topic.propose([1, 2, 3])
    assert topic.reassign(None) == 0
    partition = topic.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1, 2), 1)
    assert (partition.adding, partition.removing) == ((), ())


def only_the_new_one_is_in_sync(topic: Any) -> None:
    topic.reassign([3, 4])
    topic.propose([1, 3])
    topic.fence(1)
    assert topic.partition().isr == (3,)


def test_cancelling_keeps_the_last_replicas_in_sync(topic: Any) -> None:
    only_the_new_one_is_in_sync(topic)
    before = topic.partition()
    assert topic.reassign(None) == BAD_ASSIGNMENT
    assert topic.partition() == before


def test_cancelling_may_be_an_unclean_election(topic: Any) -> None:
    topic.config("unclean.leader.election.enable", "true", "t")
    only_the_new_one_is_in_sync(topic)
    assert topic.reassign(None) == 0
    partition = topic.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)
    assert partition.recovery_state == 1


def test_an_unclean_cancellation_needs_somebody_to_elect(topic: Any) -> None:
    topic.config("unclean.leader.election.enable", "true", "t")
    only_the_new_one_is_in_sync(topic)
    topic.fence(2)
    assert topic.reassign(None) == BAD_ASSIGNMENT


def test_parts_of_a_request_are_independent(topic: Any) -> None:
    parts = [
        {"partition_index": 0, "replicas": [3]},
        {"partition_index": 5, "replicas": [3]},
        {"partition_index": 0, "replicas": None},
    ]
    body = {"topics": [{"name": "t", "partitions": parts}]}
    answer = topic.call("AlterPartitionReassignments", 0, body)
    codes = [part["error_code"] for part in answer["responses"][0]["partitions"]]
    assert codes == [0, UNKNOWN_PARTITION, 0]
    assert topic.partition().replicas == (1, 2)
