"""Altering and describing configs, and the other reading APIs."""

from __future__ import annotations

from typing import Any

import pytest

NONE, UNKNOWN, NOT_LEADER, BAD_NAME, BAD_CONFIG, BAD_REQUEST = 0, 3, 6, 17, 40, 42
UNKNOWN_ID, NO_BROKER, BAD_ENDPOINT_TYPE = 100, 102, 115
TOPIC, BROKER = 2, 4


def described(rig: Any, kind: int, name: str, **options: Any) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    resource.update({k: options.pop(k) for k in list(options) if k == "configuration_keys"})
    answer = rig.call("DescribeConfigs", 4, {"resources": [resource], **options})
    result: dict[str, Any] = answer["results"][0]
    return result


def values(result: dict[str, Any]) -> dict[str, tuple[str | None, int]]:
    return {c["name"]: (c["value"], c["config_source"]) for c in result["configs"]}


def test_a_config_that_is_set_is_described_with_its_source(rig: Any) -> None:
    rig.create("t")
    assert values(described(rig, TOPIC, "t"))["retention.ms"] == ("604800000", 5)
    assert rig.alter("t", "retention.ms", 0, "1")["error_code"] == NONE
    assert values(described(rig, TOPIC, "t"))["retention.ms"] == ("1", 1)
    assert rig.alter("t", "retention.ms", 1, None)["error_code"] == NONE
    assert values(described(rig, TOPIC, "t"))["retention.ms"] == ("604800000", 5)


def test_appending_to_a_list_keeps_the_order_of_commits(rig: Any) -> None:
    rig.create("t")
    name = "follower.replication.throttled.replicas"
    for value in ("0:3", "0:1", "0:2"):
        assert rig.alter("t", name, 2, value)["error_code"] == NONE
    assert values(described(rig, TOPIC, "t"))[name] == ("0:3,0:1,0:2", 1)


def test_only_the_keys_asked_for_are_described(rig: Any) -> None:
    rig.create("t")
    result = described(rig, TOPIC, "t", configuration_keys=["retention.ms", "nothing"])
    assert list(values(result)) == ["retention.ms"]


def test_the_cluster_default_shows_through_with_synonyms(rig: Any) -> None:
    rig.create("t")
    rig.alter("", "log.retention.ms", 0, "7", BROKER)
    rig.alter("t", "retention.ms", 0, "5")
    [config] = described(
        rig, TOPIC, "t", configuration_keys=["retention.ms"], include_synonyms=True
    )["configs"]
    assert [(s["name"], s["value"], s["source"]) for s in config["synonyms"]] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "7", 3),
        ("log.retention.ms", "604800000", 5),
    ]
    rig.alter("t", "retention.ms", 1, None)
    assert values(described(rig, TOPIC, "t"))["retention.ms"] == ("7", 3)


def test_broker_configs_override_the_cluster_default(rig: Any) -> None:
    rig.alter("", "num.io.threads", 0, "4", BROKER)
    rig.alter("2", "num.io.threads", 0, "5", BROKER)
    assert values(described(rig, BROKER, "2"))["num.io.threads"] == ("5", 2)
    assert values(described(rig, BROKER, "3"))["num.io.threads"] == ("4", 3)
    assert values(described(rig, BROKER, "")) == {"num.io.threads": ("4", 3)}


@pytest.mark.parametrize(
    ("kind", "name", "key", "code"),
    [
        (TOPIC, "missing", "retention.ms", UNKNOWN),
        (TOPIC, "t", "no.such", BAD_CONFIG),
        (BROKER, "9", "num.io.threads", NO_BROKER),
        (BROKER, "one", "num.io.threads", BAD_REQUEST),
        (BROKER, "01", "num.io.threads", BAD_REQUEST),
        (BROKER, "9" * 5000, "num.io.threads", BAD_REQUEST),
        (BROKER, "1", "retention.ms", BAD_CONFIG),
        (32, "x", "retention.ms", BAD_REQUEST),
    ],
)
def test_refused_alterations(rig: Any, kind: int, name: str, key: str, code: int) -> None:
    rig.create("t")
    before = rig.controller.image.digest()
    assert rig.alter(name, key, 0, "4", kind)["error_code"] == code
    assert rig.controller.image.digest() == before


def test_a_resource_is_changed_as_a_whole_or_not_at_all(rig: Any) -> None:
    rig.create("t", "u")

    def configs(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
        return [{"name": k, "config_operation": 0, "value": v} for k, v in pairs]

    good, bad = configs(("retention.ms", "1")), configs(("flush.ms", "1"), ("retention.ms", "x"))
    body = {
        "resources": [
            {"resource_type": TOPIC, "resource_name": "t", "configs": good},
            {"resource_type": TOPIC, "resource_name": "u", "configs": bad},
        ]
    }
    answer = rig.call("IncrementalAlterConfigs", 1, body)
    assert [r["error_code"] for r in answer["responses"]] == [NONE, BAD_CONFIG]
    assert rig.controller.image.configs == {(TOPIC, "t"): {"retention.ms": "1"}}


def test_resources_and_keys_given_twice_are_refused(rig: Any) -> None:
    rig.create("t")
    config = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    one = {"resource_type": TOPIC, "resource_name": "t", "configs": [config]}
    two = {"resource_type": TOPIC, "resource_name": "t", "configs": [config, config]}
    for resources in ([one, one], [two]):
        answer = rig.call("IncrementalAlterConfigs", 1, {"resources": resources})
        assert {r["error_code"] for r in answer["responses"]} == {BAD_REQUEST}
    assert rig.controller.image.configs == {}


def test_validate_only_alters_nothing(rig: Any) -> None:
    rig.create("t")
    body = {**rig.alteration("t", "retention.ms", 0, "1"), "validate_only": True}
    answer = rig.call("IncrementalAlterConfigs", 1, body)
    assert answer["responses"][0]["error_code"] == NONE
    assert rig.controller.image.configs == {}


def test_describing_a_missing_topic(rig: Any) -> None:
    assert described(rig, TOPIC, "missing")["error_code"] == UNKNOWN
    assert described(rig, BROKER, "9")["error_code"] == NO_BROKER
    assert described(rig, 32, "x")["error_code"] == BAD_REQUEST


# --- Metadata ---------------------------------------------------------------------------------


def test_a_linearizable_read_says_that_the_answering_node_controls(rig: Any) -> None:
    rig.create("t", num_partitions=2, replication_factor=3)
    answer = rig.call("Metadata", 12, {"topics": None})
    assert answer["controller_id"] == 1
    assert [b["node_id"] for b in answer["brokers"]] == [1, 2, 3]
    [topic] = answer["topics"]
    assert [p["partition_index"] for p in topic["partitions"]] == [0, 1]
    assert answer["cluster_id"] == "cluster"


def test_a_follower_serves_its_own_image_and_names_the_leader(follower: Any) -> None:
    token = follower.ask("Metadata", 12, {"topics": None})
    assert follower.answers[token]["controller_id"] == 2
    assert follower.answers[token]["topics"] == []


def test_a_leader_that_has_not_claimed_the_role_does_not_call_itself_controller(
    follower: Any,
) -> None:
    follower.quorum.leader_id = 1
    token = follower.ask("Metadata", 12, {"topics": None})
    assert follower.answers[token]["controller_id"] == -1


def test_discovery_is_answered_at_once_everywhere(rig: Any, follower: Any) -> None:
    for node, controller in ((rig, 1), (follower, 2)):
        token = node.ask("Metadata", 12, {"topics": []})
        assert node.answers[token]["controller_id"] == controller
        assert node.answers[token]["topics"] == []


def test_in_version_0_no_topics_means_all(rig: Any) -> None:
    rig.create("t")
    answer = rig.call("Metadata", 0, {"topics": []})
    assert [t["name"] for t in answer["topics"]] == ["t"]


def test_topics_by_name_and_by_id(rig: Any) -> None:
    rig.create("t")
    topic_id = rig.controller.image.topics["t"].topic_id
    wanted = [
        {"name": "t"},
        {"name": None, "topic_id": topic_id},
        {"name": "missing"},
        {"name": "bad name"},
        {"name": None, "topic_id": b"\x07" * 16},
    ]
    topics = rig.call("Metadata", 12, {"topics": wanted})["topics"]
    assert [t["name"] for t in topics] == ["t", "t", "missing", "bad name", None]
    assert [t["error_code"] for t in topics] == [NONE, NONE, UNKNOWN, BAD_NAME, UNKNOWN_ID]


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata(rig: Any, version: int) -> None:
    rig.create("t")
    answer = rig.call("Metadata", version, {"topics": [{"name": "t"}]})
    assert [t["name"] for t in answer["topics"]] == ["t"]


def test_asking_for_a_topic_does_not_create_it(rig: Any) -> None:
    body = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
    assert rig.call("Metadata", 12, body)["topics"][0]["error_code"] == UNKNOWN
    assert rig.topics() == []


# --- the others -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [1, 2])
def test_describe_cluster_lists_the_voters(rig: Any, follower: Any, kind: int) -> None:
    for node, controller in ((rig, 1), (follower, 2)):
        answer = node.call("DescribeCluster", 1, {"endpoint_type": kind})
        assert answer["controller_id"] == controller
        assert [b["broker_id"] for b in answer["brokers"]] == [1, 2, 3]
        assert answer["brokers"][0]["host"] == "10.0.0.1"


def test_describe_cluster_refuses_unknown_endpoint_types(rig: Any) -> None:
    answer = rig.call("DescribeCluster", 1, {"endpoint_type": 9})
    assert answer["error_code"] == BAD_ENDPOINT_TYPE


def quorum_of(rig: Any, topic: str = "__cluster_metadata", partition: int = 0) -> Any:
    topics = [{"topic_name": topic, "partitions": [{"partition_index": partition}]}]
    return rig.call("DescribeQuorum", 2, {"topics": topics})


def test_the_leader_describes_the_quorum(rig: Any) -> None:
    answer = quorum_of(rig)
    [partition] = answer["topics"][0]["partitions"]
    assert partition["error_code"] == NONE
    assert (partition["leader_id"], partition["leader_epoch"]) == (1, 1)
    assert partition["high_watermark"] == rig.quorum.high_watermark
    assert [v["replica_id"] for v in partition["current_voters"]] == [1, 2, 3]
    assert [n["node_id"] for n in answer["nodes"]] == [1, 2, 3]


def test_others_say_that_they_do_not_lead(follower: Any) -> None:
    [partition] = quorum_of(follower)["topics"][0]["partitions"]
    assert partition["error_code"] == NOT_LEADER
    assert (partition["leader_id"], partition["leader_epoch"]) == (2, 1)


@pytest.mark.parametrize(("topic", "partition"), [("t", 0), ("__cluster_metadata", 1)])
def test_there_is_one_quorum_only(rig: Any, topic: str, partition: int) -> None:
    [answer] = quorum_of(rig, topic, partition)["topics"][0]["partitions"]
    assert answer["error_code"] == UNKNOWN
    assert answer["leader_id"] == -1


def test_describing_no_quorum_at_all(rig: Any) -> None:
    assert rig.call("DescribeQuorum", 2, {"topics": []})["error_code"] == BAD_REQUEST


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions(rig: Any, version: int) -> None:
    answer = rig.call("ApiVersions", version, {})
    ranges = {a["api_key"]: (a["min_version"], a["max_version"]) for a in answer["api_keys"]}
    assert ranges[19] == (2, 7)
    assert ranges[52] == (0, 2)
    if version >= 3:
        finalized = {f["name"]: f["max_version_level"] for f in answer["finalized_features"]}
        assert finalized == {"metadata.version": 25}
        supported = {f["name"] for f in answer["supported_features"]}
        assert ("kraft.version" in supported) == (version >= 4), "KAFKA-17492"
