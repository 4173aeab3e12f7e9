"""The same operations as a controller serves them: at every version, answered after commit."""

from __future__ import annotations

from typing import Any

import pytest

NOT_CONTROLLER, TIMED_OUT = 41, 7
TOPICS: dict[str, Any] = {
    "AlterPartition": [],
    "AlterPartitionReassignments": [],
    "ListPartitionReassignments": None,
    "CreatePartitions": [{"name": "t", "count": 2, "assignments": None}],
}
ELECTION = [{"topic": "t", "partitions": [0]}]
VERSIONS = [
    *(("AlterPartition", v) for v in (2, 3)),
    *(("AlterPartitionReassignments", v) for v in (0, 1)),
    ("ListPartitionReassignments", 0),
    *(("CreatePartitions", v) for v in (0, 1, 2, 3)),
    *(("ElectLeaders", v) for v in (0, 1, 2)),
]


def request(api: str) -> dict[str, Any]:
    if api == "ElectLeaders":
        return {"topic_partitions": ELECTION}
    return {"topics": TOPICS[api]}


def code(api: str, version: int, answer: Any) -> int:
    found = answer
    if api == "CreatePartitions":
        found = answer["results"][0]
    elif api == "ElectLeaders" and version == 0:
        found = answer["replica_election_results"][0]["partition_result"][0]
    told: int = found["error_code"]
    return told


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_follower_refuses(follower: Any, api: str, version: int) -> None:
    token = follower.ask(api, version, request(api))
    assert code(api, version, follower.answers[token]) == NOT_CONTROLLER


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_leader_answers(rig: Any, api: str, version: int) -> None:
    rig.create("t")
    answer = rig.call(api, version, request(api))
    expected = {"AlterPartition": 77, "ElectLeaders": 84 if version == 0 else 0}
    assert code(api, version, answer) == expected.get(api, 0)


def proposal(rig: Any) -> dict[str, Any]:
    """Let the leader of topic ``t`` propose itself as its ISR."""
    topic_id = rig.image.topics["t"].topic_id
    partition = rig.image.partitions[topic_id, 0]
    epoch = rig.image.brokers[partition.leader].epoch
    part = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": [{"broker_id": partition.leader, "broker_epoch": epoch}],
    }
    topics = [{"topic_id": topic_id, "partitions": [part]}]
    return {"broker_id": partition.leader, "broker_epoch": epoch, "topics": topics}


@pytest.fixture
def started(rig: Any) -> Any:
    """A controller with three brokers and topic ``t`` on two of them."""
    rig.start(1, 2, 3)
    rig.create("t", num_partitions=1, replication_factor=2)
    return rig


def test_a_proposal_is_answered_when_it_is_committed(started: Any) -> None:
    token = started.ask("AlterPartition", 3, proposal(started))
    assert not started.answered(token)
    topic_id = started.image.topics["t"].topic_id
    assert len(started.image.stable.partitions[topic_id, 0].isr) == 2
    started.commit()
    [topic] = started.answers[token]["topics"]
    assert topic["partitions"][0]["error_code"] == 0
    assert len(topic["partitions"][0]["isr"]) == 1


def test_a_proposal_that_may_be_lost_is_answered_so(started: Any) -> None:
    token = started.ask("AlterPartition", 3, proposal(started))
    started.follow(2, 2)
    started.collect()
    assert started.answers[token]["error_code"] == TIMED_OUT


def test_the_second_proposal_sees_the_result_of_the_first(started: Any) -> None:
    body = proposal(started)
    first = started.ask("AlterPartition", 3, body)
    second = started.ask("AlterPartition", 3, body)
    started.commit()
    started.wait(5)
    started.commit()
    codes = [
        started.answers[token]["topics"][0]["partitions"][0]["error_code"]
        for token in (first, second)
    ]
    assert codes == [0, 95]


def test_reassignments_are_listed_when_they_are_committed(started: Any) -> None:
    parts = [{"partition_index": 0, "replicas": [1, 2, 3]}]
    body = {"topics": [{"name": "t", "partitions": parts}]}
    started.call("AlterPartitionReassignments", 1, body)
    answer = started.call("ListPartitionReassignments", 0, {"topics": None})
    [topic] = answer["topics"]
    assert len(topic["partitions"][0]["adding_replicas"]) == 1
