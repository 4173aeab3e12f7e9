"""CreateTopics and DeleteTopics as clients see them."""

from __future__ import annotations

import time
from typing import Any

import pytest

NONE, UNKNOWN, BAD_NAME, AUTHORIZATION, EXISTS = 0, 3, 17, 29, 36
BAD_PARTITIONS, BAD_FACTOR, BAD_ASSIGNMENT, BAD_CONFIG = 37, 38, 39, 40
BAD_REQUEST, POLICY, UNKNOWN_ID = 42, 44, 100


def codes(answer: dict[str, Any]) -> list[int]:
    return [part["error_code"] for part in answer.get("topics") or answer["responses"]]


def assigned(*replicas: list[int]) -> list[dict[str, Any]]:
    return [{"partition_index": i, "broker_ids": r} for i, r in enumerate(replicas)]


def test_defaults_apply_where_the_client_leaves_it_open(rig: Any) -> None:
    [topic] = rig.create("t")["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (1, 1)
    assert topic["topic_id"] == rig.controller.image.topics["t"].topic_id
    configs = {c["name"]: (c["value"], c["config_source"]) for c in topic["configs"]}
    assert configs["retention.ms"] == ("604800000", 5)


def test_partitions_are_led_by_their_first_replica(rig: Any) -> None:
    rig.create("t", num_partitions=6, replication_factor=3)
    image = rig.controller.image
    topic = image.topics["t"]
    assert topic.partitions == 6
    for number in range(6):
        partition = image.partitions[topic.topic_id, number]
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == ((1).to_bytes(16, "big"),) * 3


def test_configs_are_stored_with_the_topic(rig: Any) -> None:
    options = {"configs": [{"name": "retention.ms", "value": "9"}]}
    [topic] = rig.create("t", **options)["topics"]
    configs = {c["name"]: (c["value"], c["config_source"]) for c in topic["configs"]}
    assert configs["retention.ms"] == ("9", 1)
    assert rig.controller.image.configs[2, "t"] == {"retention.ms": "9"}


def test_a_manual_assignment_is_taken_as_it_is(rig: Any) -> None:
    [topic] = rig.create("t", assignments=assigned([3, 1], [1, 2]))["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (2, 2)
    image = rig.controller.image
    topic_id = image.topics["t"].topic_id
    assert [image.partitions[topic_id, i].replicas for i in (0, 1)] == [(3, 1), (1, 2)]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a" * 249, NONE),
        ("Az09._-", NONE),
        ("", BAD_NAME),
        (".", BAD_NAME),
        ("..", BAD_NAME),
        ("a" * 250, BAD_NAME),
        ("a b", BAD_NAME),
        ("é", BAD_NAME),
        ("a\n", BAD_NAME),
        ("__cluster_metadata", AUTHORIZATION),
    ],
)
def test_topic_names(rig: Any, name: str, code: int) -> None:
    assert codes(rig.create(name)) == [code]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"num_partitions": 0}, BAD_PARTITIONS),
        ({"num_partitions": -2}, BAD_PARTITIONS),
        ({"num_partitions": 2**31 - 1}, POLICY),
        ({"replication_factor": 0}, BAD_FACTOR),
        ({"replication_factor": -2}, BAD_FACTOR),
        ({"replication_factor": 4}, BAD_FACTOR),
        ({"configs": [{"name": "no.such", "value": "1"}]}, BAD_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": "x"}]}, BAD_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": None}]}, BAD_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": "1"}] * 2}, BAD_CONFIG),
        ({"assignments": assigned([1]), "num_partitions": 1}, BAD_REQUEST),
        ({"assignments": assigned([1]), "replication_factor": 1}, BAD_REQUEST),
        ({"assignments": assigned([])}, BAD_ASSIGNMENT),
        ({"assignments": assigned([1, 1])}, BAD_ASSIGNMENT),
        ({"assignments": assigned([1, 9])}, BAD_ASSIGNMENT),
        ({"assignments": assigned([1], [1, 2])}, BAD_ASSIGNMENT),
        ({"assignments": assigned([1]) * 2}, BAD_ASSIGNMENT),
        ({"assignments": [{"partition_index": 1, "broker_ids": [1]}]}, BAD_ASSIGNMENT),
    ],
)
def test_refused_creations_leave_nothing(rig: Any, options: dict[str, Any], code: int) -> None:
    before = rig.controller.image.digest()
    assert codes(rig.create("t", **options)) == [code]
    assert rig.controller.image.digest() == before


def test_a_request_too_large_for_one_batch_is_refused_as_a_whole(rig: Any) -> None:
    answer = rig.create("a", "b", num_partitions=6000)
    assert codes(answer) == [POLICY, POLICY]
    assert rig.topics() == []


def test_names_that_differ_in_dot_and_underscore_only_collide(rig: Any) -> None:
    assert codes(rig.create("a.b", "a_b")) == [NONE, BAD_NAME]
    assert codes(rig.create("a_b")) == [BAD_NAME]


def test_one_refused_topic_does_not_hinder_the_others(rig: Any) -> None:
    rig.create("b")
    assert codes(rig.create("a", "b", "c")) == [NONE, EXISTS, NONE]
    assert rig.topics() == ["a", "b", "c"]


def test_a_name_given_twice_is_refused_twice(rig: Any) -> None:
    assert codes(rig.create("a", "b", "a")) == [BAD_REQUEST, NONE, BAD_REQUEST]
    assert rig.topics() == ["b"]


def test_validate_only_checks_and_changes_nothing(rig: Any) -> None:
    rig.create("b")
    assert codes(rig.create("a", "b", validate_only=True)) == [NONE, EXISTS]
    assert rig.topics() == ["b"]


def test_topic_ids_are_never_reused(rig: Any) -> None:
    seen = set()
    for _ in range(5):
        rig.create("a", "b")
        seen |= {topic.topic_id for topic in rig.controller.image.topics.values()}
        rig.delete("a", "b")
    assert len(seen) == 10
    assert all(int.from_bytes(topic_id, "big") >= 100 for topic_id in seen)


def test_delete_by_name(rig: Any) -> None:
    rig.create("a", "b")
    rig.alter("a", "retention.ms", 0, "1")
    assert codes(rig.delete("a", "missing")) == [NONE, UNKNOWN]
    assert rig.topics() == ["b"]
    assert rig.controller.image.configs == {}


def test_delete_by_id_returns_the_name(rig: Any) -> None:
    rig.create("a")
    topic_id = rig.controller.image.topics["a"].topic_id
    unknown = b"\x07" * 16
    topics = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown}]
    answer = rig.call("DeleteTopics", 6, {"topics": topics, "timeout_ms": 1000})
    assert codes(answer) == [NONE, UNKNOWN_ID]
    assert [r["name"] for r in answer["responses"]] == ["a", None]


def test_deletions_that_cannot_be_understood(rig: Any) -> None:
    rig.create("a")
    topic_id = rig.controller.image.topics["a"].topic_id
    topics = [
        {"name": None},
        {"name": "b", "topic_id": topic_id},
        {"name": "a"},
        {"name": None, "topic_id": topic_id},
    ]
    answer = rig.call("DeleteTopics", 6, {"topics": topics, "timeout_ms": 1000})
    assert codes(answer) == [BAD_REQUEST] * 4
    assert rig.topics() == ["a"]


def test_a_deleted_name_can_be_created_again(rig: Any) -> None:
    rig.create("a")
    rig.delete("a")
    assert codes(rig.create("a")) == [NONE]


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_every_version_of_create(rig: Any, version: int) -> None:
    assert codes(rig.create("t", version=version)) == [NONE]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_every_version_of_delete(rig: Any, version: int) -> None:
    rig.create("t")
    body = {"topics": [{"name": "t"}]} if version == 6 else {"topic_names": ["t"]}
    assert codes(rig.call("DeleteTopics", version, {**body, "timeout_ms": 9})) == [NONE]


def test_request_for_millions_of_partitions_is_refused_early(rig: Any) -> None:
    """150 kB can ask for a hundred million partitions: they are counted as they are placed."""
    topic = {"num_partitions": 9_000, "replication_factor": 1, "assignments": [], "configs": []}
    topics = [topic | {"name": f"t{number}"} for number in range(10_000)]
    before = time.process_time()
    body = {"topics": topics, "timeout_ms": 1000, "validate_only": False}
    answer = rig.call("CreateTopics", 7, body)
    assert time.process_time() - before < 5.0
    assert set(codes(answer)) == {POLICY}
