"""Brokers answer clients from their own image, and only once they have caught up."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest, FatalError

ALL: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": True}
NO_LEADER, UNKNOWN_TOPIC, UNKNOWN_ID, INVALID_NAME = 5, 3, 100, 17


def named(*names: str) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}


def test_a_broker_serves_no_reads_before_it_has_caught_up(rig: Any) -> None:
    rig.add_broker(4)
    rig.add_topic("t", 4)
    token = rig.ask("Metadata", 12, ALL)
    write = rig.ask("UnregisterBroker", 0, {"broker_id": 5})
    assert rig.replies == {}
    assert rig.call("ApiVersions", 4, {})["error_code"] == 0
    rig.run()
    assert [topic["name"] for topic in rig.replies[token]["topics"]] == ["t"]
    assert write not in rig.replies
    assert "Envelope" in {request.api for request in rig.sent}


def test_a_broker_serves_until_it_has_stopped(running: Any) -> None:
    running.broker.stop(running.now)
    assert running.call("Metadata", 12, ALL)["brokers"]


def test_unserved_apis_do_not_reach_the_broker(running: Any) -> None:
    with pytest.raises(FatalError):
        running.broker.handle(ApiRequest(9, "Envelope", 0, {}, "PLAINTEXT"), 0, 0)


def test_api_versions_list_features_and_no_data_plane_apis(running: Any) -> None:
    running.commit(("FeatureLevelRecord", {"name": "metadata.version", "feature_level": 25}))
    running.quorum.kraft_version = 1
    answer = running.call("ApiVersions", 4, {})
    keys = {api["api_key"] for api in answer["api_keys"]}
    assert {3, 18, 19, 60, 75} <= keys
    assert not keys & {0, 1, 2, 10, 52, 53, 54, 58, 59, 62, 63}
    levels = {f["name"]: f["max_version_level"] for f in answer["finalized_features"]}
    assert levels == {"metadata.version": 25, "kraft.version": 1}


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_every_version(running: Any, version: int) -> None:
    running.add_topic("a", 4, 5)
    everything = ALL if version else {"topics": []}
    answer = running.call("Metadata", version, everything)
    assert [(b["node_id"], b["host"], b["port"]) for b in answer["brokers"]] == [
        (4, "b4", 9092),
        (5, "b5", 9092),
    ], "6 is fenced"
    [topic] = answer["topics"]
    assert (topic["name"], topic["error_code"]) == ("a", 0)
    assert [p["leader_id"] for p in topic["partitions"]] == [4, 5]
    assert topic["partitions"][0]["replica_nodes"] == [4, 5, 6]
    assert topic["partitions"][0]["isr_nodes"] == [4, 5]
    if version >= 1:
        assert answer["controller_id"] in (4, 5)
        assert answer["brokers"][0]["rack"] == "r4"
    if version >= 5:
        assert topic["partitions"][0]["offline_replicas"] == [6]
    if version >= 7:
        assert topic["partitions"][0]["leader_epoch"] == 8


def test_the_controller_is_any_broker_that_is_alive(running: Any) -> None:
    seen = {running.call("Metadata", 12, ALL)["controller_id"] for _ in range(40)}
    assert seen == {4, 5}


def test_no_broker_alive_no_controller(rig: Any) -> None:
    rig.run()
    answer = rig.call("Metadata", 12, ALL)
    assert (answer["controller_id"], answer["brokers"]) == (-1, [])


def test_a_partition_without_a_leader_is_not_available(running: Any) -> None:
    running.add_topic("a", -1, 4, 9)
    [topic] = running.call("Metadata", 12, ALL)["topics"]
    assert [(p["error_code"], p["leader_id"]) for p in topic["partitions"]] == [
        (NO_LEADER, -1),
        (0, 4),
        (NO_LEADER, -1),
    ], "9 is not registered"


def test_a_replica_on_a_lost_directory_is_offline(running: Any) -> None:
    lost = (2).to_bytes(16, "big")
    running.add_topic("a", 4, directories=[b"x" * 16, lost, b"z" * 16])
    [topic] = running.call("Metadata", 12, ALL)["topics"]
    assert topic["partitions"][0]["offline_replicas"] == [5, 6]


def test_topics_by_name_and_by_id(running: Any) -> None:
    topic_id = running.add_topic("a", 4)
    wanted = [
        {"name": "a"},
        {"name": "b"},
        {"name": "not a name"},
        {"name": None, "topic_id": topic_id},
        {"name": None, "topic_id": b"?" * 16},
    ]
    answer = running.call("Metadata", 12, {"topics": wanted})
    assert [(t["name"], t["error_code"]) for t in answer["topics"]] == [
        ("a", 0),
        ("b", UNKNOWN_TOPIC),
        ("not a name", INVALID_NAME),
        ("a", 0),
        (None, UNKNOWN_ID),
    ]
    assert running.call("Metadata", 12, {"topics": []})["topics"] == []
    assert "b" not in running.image.topics, "asking for a topic never creates it"


def test_reads_show_committed_metadata_only(running: Any) -> None:
    offset = running.image.last_offset + 1
    fields = {"name": "uncommitted", "topic_id": b"u" * 16}
    running.image.propose(offset, 1, [("TopicRecord", fields)])
    assert running.call("Metadata", 12, ALL)["topics"] == []
    [refused] = running.call("Metadata", 12, named("uncommitted"))["topics"]
    assert refused["error_code"] == UNKNOWN_TOPIC


def test_reads_show_internal_topics_and_permitted_operations(running: Any) -> None:
    running.add_topic("__consumer_offsets", 4)
    body = ALL | {"include_topic_authorized_operations": True}
    [topic] = running.call("Metadata", 12, body)["topics"]
    assert topic["is_internal"]
    assert topic["topic_authorized_operations"] == 0b110111111000
    [topic] = running.call("Metadata", 12, ALL)["topics"]
    assert topic["topic_authorized_operations"] == -(1 << 31)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_of_every_version(running: Any, version: int) -> None:
    answer = running.call("DescribeCluster", version, {})
    assert (answer["error_code"], answer["cluster_id"]) == (0, "cluster")
    assert [broker["broker_id"] for broker in answer["brokers"]] == [4, 5]
    assert answer["controller_id"] in (4, 5)


def test_fenced_brokers_are_described_on_demand(running: Any) -> None:
    answer = running.call("DescribeCluster", 2, {"include_fenced_brokers": True})
    assert [(b["broker_id"], b["is_fenced"]) for b in answer["brokers"]] == [
        (4, False),
        (5, False),
        (6, True),
    ]


@pytest.mark.parametrize(("kind", "code"), [(2, 114), (3, 115)])
def test_a_broker_describes_no_controllers(running: Any, kind: int, code: int) -> None:
    answer = running.call("DescribeCluster", 1, {"endpoint_type": kind})
    assert (answer["error_code"], answer["brokers"]) == (code, [])


def test_configs_come_from_the_image(running: Any) -> None:
    running.add_topic("a", 4)
    fields = {"resource_type": 2, "resource_name": "a", "name": "retention.ms", "value": "5"}
    running.commit(("ConfigRecord", fields))
    resources = [
        {"resource_type": 2, "resource_name": "a", "configuration_keys": ["retention.ms"]},
        {"resource_type": 2, "resource_name": "b", "configuration_keys": None},
        {"resource_type": 4, "resource_name": "4", "configuration_keys": ["log.retention.ms"]},
        {"resource_type": 4, "resource_name": "9", "configuration_keys": None},
    ]
    answer = running.call("DescribeConfigs", 4, {"resources": resources})
    assert [r["error_code"] for r in answer["results"]] == [0, UNKNOWN_TOPIC, 0, 102]
    [config] = answer["results"][0]["configs"]
    assert (config["name"], config["value"]) == ("retention.ms", "5")


def test_a_broker_says_where_it_listens(running: Any) -> None:
    def asked(name: str, keys: list[str] | None = None) -> list[dict[str, Any]]:
        resource = {"resource_type": 4, "resource_name": name, "configuration_keys": keys}
        answer = running.call("DescribeConfigs", 4, {"resources": [resource]})
        configs: list[dict[str, Any]] = answer["results"][0]["configs"]
        return [each for each in configs if each["name"] == "advertised.listeners"]

    [config] = asked("4")
    assert (config["value"], config["config_source"]) == ("PLAINTEXT://b4:9092", 4)
    assert config["read_only"] and not config["synonyms"]
    assert asked("4", ["advertised.listeners"]) == [config]
    assert asked("4", ["log.retention.ms"]) == asked("5") == [], "only its own address is known"


def test_resources_with_configs_are_listed_by_type(running: Any) -> None:
    running.add_topic("b", 4)
    running.add_topic("a", 4)

    def listed(version: int, *types: int) -> list[tuple[int, str]]:
        answer = running.call("ListConfigResources", version, {"resource_types": list(types)})
        assert answer["error_code"] == 0
        return [(r["resource_type"], r["resource_name"]) for r in answer["config_resources"]]

    topics, brokers = [(2, "a"), (2, "b")], [(4, "4"), (4, "5")]
    assert listed(1) == [*topics, *brokers, (8, "4"), (8, "5")], "6 is fenced"
    assert listed(1, 4, 2) == topics + brokers
    assert listed(1, 16, 32) == listed(0) == []
    unknown = running.call("ListConfigResources", 1, {"resource_types": [2, 3]})
    assert (unknown["error_code"], unknown["config_resources"]) == (35, [])


# --- DescribeTopicPartitions ----------------------------------------------------------------


def partitions(answer: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return [
        (topic["name"], [p["partition_index"] for p in topic["partitions"]])
        for topic in answer["topics"]
    ]


def describe(running: Any, limit: int = 2000, cursor: Any = None, *names: str) -> dict[str, Any]:
    answer: dict[str, Any] = running.call(
        "DescribeTopicPartitions",
        0,
        {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": limit,
            "cursor": cursor,
        },
    )
    return answer


def test_partitions_are_described_page_by_page(running: Any) -> None:
    for name, count in (("c", 1), ("a", 3), ("b", 2)):
        running.add_topic(name, *([4] * count))
    pages = []
    cursor = None
    while True:
        answer = describe(running, 2, cursor)
        pages.append(partitions(answer))
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert pages == [
        [("a", [0, 1])],
        [("a", [2]), ("b", [0])],
        [("b", [1]), ("c", [0])],
    ]
    assert partitions(describe(running)) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]


def test_a_page_that_ends_with_a_topic_continues_with_the_next(running: Any) -> None:
    running.add_topic("a", 4, 4)
    running.add_topic("b", 4)
    answer = describe(running, 2)
    assert answer["next_cursor"] == {"topic_name": "b", "partition_index": 0}


def test_a_cursor_at_a_topic_that_is_gone_says_nothing_of_the_next(running: Any) -> None:
    running.add_topic("b", 4, 4)
    answer = describe(running, 9, {"topic_name": "a", "partition_index": 1}, "a", "b")
    assert partitions(answer) == [("a", []), ("b", [0, 1])]


def test_eligible_leaders_are_described(running: Any) -> None:
    running.add_topic("a", -1, isr=[], eligible_leader_replicas=[5], last_known_elr=[6])
    [topic] = describe(running)["topics"]
    [partition] = topic["partitions"]
    assert (partition["error_code"], partition["leader_id"]) == (NO_LEADER, -1)
    assert partition["eligible_leader_replicas"] == [5]
    assert partition["last_known_elr"] == [6]
    assert partition["offline_replicas"] == [6]


def test_named_topics_are_described_in_order_and_once(running: Any) -> None:
    running.add_topic("a", 4)
    running.add_topic("b", 4)
    answer = describe(running, 2000, None, "b", "missing", "b", "no name")
    assert [(t["name"], t["error_code"]) for t in answer["topics"]] == [
        ("b", 0),
        ("missing", UNKNOWN_TOPIC),
        ("no name", INVALID_NAME),
    ]


def test_a_topic_deleted_between_two_pages_is_passed_over(running: Any) -> None:
    running.add_topic("a", 4)
    running.add_topic("c", 4)
    cursor = {"topic_name": "b", "partition_index": 7}
    assert partitions(describe(running, 2000, cursor)) == [("c", [0])]


@pytest.mark.parametrize(
    ("cursor", "names"),
    [
        ({"topic_name": "a", "partition_index": -1}, ("a",)),
        ({"topic_name": "z", "partition_index": 0}, ("a",)),
        ({"topic_name": "a", "partition_index": -1}, ()),
    ],
)
def test_an_impossible_cursor_is_an_invalid_request(
    running: Any, cursor: dict[str, Any], names: tuple[str, ...]
) -> None:
    running.add_topic("a", 4)
    [topic] = describe(running, 2000, cursor, *names)["topics"]
    assert topic["error_code"] == 42
