"""Answers of a controller that is not the active one."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.metadata.served import LOCAL, READS, SERVED, WRITES
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED
from kraftwreck.nodes.protocol.codec import decode, encode

NOT_CONTROLLER = 41
SOMETHING: dict[str, Any] = {
    "CreateTopics": {"topics": [{"name": "t"}]},
    "DeleteTopics": {"topics": [{"name": "t"}]},
    "CreatePartitions": {"topics": [{"name": "t", "count": 2}]},
    "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}]},
    "IncrementalAlterConfigs": {
        "resources": [{"resource_type": 2, "resource_name": "t", "configs": []}]
    },
    "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "t"}]},
}


def codes(value: Any) -> set[int]:
    if isinstance(value, list):
        return set().union(*map(codes, value))
    if isinstance(value, dict):
        own = {value["error_code"]} if "error_code" in value else set()
        return own.union(*map(codes, value.values()))
    return set()


@pytest.mark.parametrize("api", sorted({*WRITES, *READS} - {"Metadata"}))
def test_requests_for_the_controller_are_refused_at_once(follower: Any, api: str) -> None:
    for version in range(SUPPORTED[api][0], SUPPORTED[api][1] + 1):
        body = dict(SOMETHING.get(api, {}))
        if api == "DeleteTopics" and version < 6:
            body = {"topic_names": ["t"]}
        if api == "ElectLeaders":
            body = {"topic_partitions": [{"topic": "t", "partitions": [0]}]}
        token = follower.ask(api, version, body)
        assert codes(follower.answers[token]) - {0} == {NOT_CONTROLLER}, version


def test_controllers_are_described_by_anybody(follower: Any) -> None:
    answer = follower.answers[follower.ask("DescribeCluster", 2, {"endpoint_type": 2})]
    assert (answer["endpoint_type"], answer["controller_id"]) == (2, 2)
    assert [b["broker_id"] for b in answer["brokers"]] == [1, 2, 3]
    assert {b["is_fenced"] for b in answer["brokers"]} == {False}


def test_fenced_brokers_are_described_on_request(rig: Any) -> None:
    rig.start(1)
    rig.register(2)

    def described(**options: Any) -> list[tuple[int, bool]]:
        answer = rig.call("DescribeCluster", 2, options)
        return [(b["broker_id"], b["is_fenced"]) for b in answer["brokers"]]

    assert described() == [(1, False)]
    assert described(include_fenced_brokers=True) == [(1, False), (2, True)]


@pytest.mark.parametrize("version", [3, 4])
def test_supported_features_that_begin_at_0_are_hidden_from_old_clients(
    follower: Any, version: int
) -> None:
    """KAFKA-17492."""
    answer = follower.answers[follower.ask("ApiVersions", version, {})]
    supported = {
        f["name"]: (f["min_version"], f["max_version"]) for f in answer["supported_features"]
    }
    hidden = {
        "kraft.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "commit.mode.version": (0, 1),
    }
    assert supported == {"metadata.version": (7, 27)} | (hidden if version >= 4 else {})


def test_api_versions_list_every_served_api(follower: Any) -> None:
    answer = follower.answers[follower.ask("ApiVersions", 4, {})]
    told = {a["api_key"] for a in answer["api_keys"]}
    assert told == {key for key, _, _ in SERVED}
    assert {API_KEYS[api] for api in (*WRITES, *READS, *LOCAL, "Envelope")} <= told
    assert API_KEYS["AddRaftVoter"] in told


def test_every_answer_of_a_heartbeat_is_of_its_version(rig: Any) -> None:
    rig.register(1)
    for version in range(3):
        answer = rig.call("BrokerHeartbeat", version, rig.beat(1))
        again, _ = decode(
            "BrokerHeartbeatResponse", version, encode("BrokerHeartbeatResponse", version, answer)
        )
        assert again == answer
