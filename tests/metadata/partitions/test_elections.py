"""ElectLeaders and the elections of the periodic tasks."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.elections import elect_preferred, elect_unclean

PREFERRED, UNCLEAN = 0, 1
UNKNOWN_PARTITION, BAD_REQUEST = 3, 42
NO_PREFERRED, NO_ELIGIBLE, NOT_NEEDED = 80, 83, 84


def results(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic["topic"], part["partition_id"]): part["error_code"]
        for topic in answer["replica_election_results"]
        for part in topic["partition_result"]
    }


@pytest.fixture
def moved(cluster: Any) -> Any:
    """Topics ``t`` and ``u``, led by 2 though they prefer 1, which is in sync again."""
    for name in ("t", "u"):
        cluster.topic(name, [1, 2, 3])
    cluster.fence(1)
    cluster.unfence(1)
    for name in ("t", "u"):
        cluster.propose([1, 2, 3], name)
    return cluster


def test_the_preferred_leader_takes_over(moved: Any) -> None:
    before = moved.partition()
    assert moved.elect(PREFERRED) == 0
    after = moved.partition()
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
    assert moved.elect(PREFERRED) == NOT_NEEDED


def test_the_preferred_leader_may_not_be_in_sync_or_up(moved: Any) -> None:
    moved.propose([2, 3])
    assert moved.elect(PREFERRED) == NO_PREFERRED
    moved.fence(1)
    assert moved.elect(PREFERRED, "u") == NO_PREFERRED


def test_unclean_elections_are_for_those_without_a_leader(cluster: Any) -> None:
    cluster.topic("t", [1, 2])
    assert cluster.elect(UNCLEAN) == NOT_NEEDED
    cluster.propose([1])
    cluster.fence(1)
    assert cluster.partition().leader == -1
    assert cluster.elect(UNCLEAN) == 0
    partition = cluster.partition()
    assert (partition.leader, partition.isr, partition.recovery_state) == (2, (2,), 1)
    cluster.fence(2)
    assert cluster.elect(UNCLEAN) == NO_ELIGIBLE


@pytest.mark.parametrize(("topic", "number"), [("t", 1), ("t", -1), ("x", 0)])
def test_elections_of_missing_partitions(moved: Any, topic: str, number: int) -> None:
    assert moved.elect(PREFERRED, topic, number) == UNKNOWN_PARTITION


def test_an_unknown_kind_is_refused_altogether(moved: Any) -> None:
    assert moved.refused("ElectLeaders", 2, {"election_type": 2}) == BAD_REQUEST


def test_an_election_of_all_leaves_out_unneeded_partitions(moved: Any) -> None:
    assert moved.elect(PREFERRED, "u") == 0
    answer = moved.call("ElectLeaders", 2, {"topic_partitions": None})
    assert results(answer) == {("t", 0): 0}


def test_a_partition_named_twice_is_elected_once(moved: Any) -> None:
    body = {"topic_partitions": [{"topic": "t", "partitions": [0, 0]}]}
    answer = moved.call("ElectLeaders", 2, body)
    codes = [p["error_code"] for p in answer["replica_election_results"][0]["partition_result"]]
    assert codes == [0, NOT_NEEDED]


def test_version_0_knows_preferred_leaders_only(moved: Any) -> None:
    body = {"topic_partitions": [{"topic": "t", "partitions": [0]}]}
    assert results(moved.call("ElectLeaders", 0, body)) == {("t", 0): 0}


def test_leadership_is_balanced_by_the_limit(moved: Any) -> None:
    records = elect_preferred(moved.context(), limit=1)
    assert len(records) == 1
    moved.write(records)
    moved.write(elect_preferred(moved.context()))
    assert [moved.partition(name).leader for name in ("t", "u")] == [1, 1]
    assert elect_preferred(moved.context()) == []


def test_only_topics_that_permit_it_are_rescued(cluster: Any) -> None:
    cluster.topic("t", [1, 2])
    cluster.topic("u", [1, 2])
    cluster.propose([1])
    cluster.propose([1], "u")
    cluster.fence(1)
    cluster.config("unclean.leader.election.enable", "true", "u")
    cluster.write(elect_unclean(cluster.context()))
    assert [cluster.partition(name).leader for name in ("t", "u")] == [-1, 2]
    cluster.config("unclean.leader.election.enable", "true", "", kind=4)
    cluster.write(elect_unclean(cluster.context()))
    assert cluster.partition().leader == 2, "a topic takes the cluster's configuration"
