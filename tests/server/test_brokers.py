"""Brokers as processes: registered, asked, stopped, killed, with controllers and by themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.server.reexecution import replay
from tests.waiting import LIMIT_MS

CLEAN = "data/.kafka_cleanshutdown"
QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def creation(name: str, partitions: int = 2, replicas: int = 2) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
    return {"topics": [topic], "timeout_ms": LIMIT_MS}


def create(cluster: Any, broker: int, name: str, **shape: int) -> int:
    answer = cluster.ask_broker(broker, "CreateTopics", 7, creation(name, **shape))
    code: int = answer["topics"][0]["error_code"]
    return code


def partitions(cluster: Any, broker: int, name: str) -> list[dict[str, Any]]:
    answer = cluster.ask_broker(broker, "Metadata", 12, {"topics": [{"name": name}]})
    found: list[dict[str, Any]] = answer["topics"][0]["partitions"]
    return found


def lives(cluster: Any, node: int) -> list[dict[str, Any]]:
    """Return the broker's reported states, in order."""
    return [t["detail"] for t in cluster.traces(node) if t["kind"] == "broker"]


def refusals(cluster: Any, node: int) -> set[str]:
    """Return the errors with which the broker's requests were refused."""
    return {told["error"] for told in lives(cluster, node) if "error" in told}


# --- three controllers and three brokers ----------------------------------------------------


def test_a_topic_made_through_one_broker_is_seen_by_all(
    shared_brokers: Any, wait_until: Callable[..., Any]
) -> None:
    assert create(shared_brokers, 4, "seen", partitions=3) == 0
    for broker in (4, 5, 6):
        found = wait_until(
            lambda b=broker: partitions(shared_brokers, b, "seen"), "the topic arrives"
        )
        assert {p["leader_id"] for p in found} == {4, 5, 6}
        assert all(p["isr_nodes"] == p["replica_nodes"] for p in found)
    assert create(shared_brokers, 5, "seen") == 36


def test_the_quorum_is_described_through_a_broker(shared_brokers: Any) -> None:
    answer = shared_brokers.ask_broker(6, "DescribeQuorum", 2, QUORUM)
    [partition] = answer["topics"][0]["partitions"]
    assert partition["leader_id"] == shared_brokers.controller()
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [1, 2, 3]
    assert [observer["replica_id"] for observer in partition["observers"]] == [4, 5, 6]


def test_configs_are_changed_through_one_broker_and_read_from_another(
    shared_brokers: Any, wait_until: Callable[..., Any]
) -> None:
    assert create(shared_brokers, 4, "configured") == 0
    entry = {"name": "retention.ms", "config_operation": 0, "value": "777"}
    resource = {"resource_type": 2, "resource_name": "configured"}
    change = {"resources": [resource | {"configs": [entry]}]}
    answer = shared_brokers.ask_broker(4, "IncrementalAlterConfigs", 1, change)
    assert answer["responses"][0]["error_code"] == 0
    question = {"resources": [resource | {"configuration_keys": ["retention.ms"]}]}

    def value() -> Any:
        told = shared_brokers.ask_broker(5, "DescribeConfigs", 4, question)["results"][0]
        return told["configs"] and told["configs"][0]["value"] == "777"

    wait_until(value, "the other broker knows the new value")


def test_the_voters_of_a_static_quorum_are_not_changed_through_a_broker(
    shared_brokers: Any,
) -> None:
    listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}
    body = {
        "cluster_id": "loopback-cluster",
        "timeout_ms": 2000,
        "voter_id": 9,
        "voter_directory_id": b"d" * 16,
        "listeners": [listener],
    }
    answer = shared_brokers.ask_broker(4, "AddRaftVoter", 0, body)
    assert answer["error_code"] == 35, "kraft.version 0 knows no changes of voters"


def test_a_controller_lists_registered_brokers(shared_brokers: Any) -> None:
    answer = shared_brokers.call(shared_brokers.controller(), "Metadata", 12, {"topics": []})
    assert [broker["node_id"] for broker in answer["brokers"]] == [4, 5, 6]


def test_states_of_each_incarnation_are_traced(shared_brokers: Any) -> None:
    epochs = []
    for broker in (4, 5, 6):
        told = lives(shared_brokers, broker)
        assert [d["state"] for d in told if "error" not in d] == [
            "starting",
            "recovery",
            "running",
        ]
        epochs.append(told[-1]["broker_epoch"])
    assert len(set(epochs)) == 3, "broker epochs are offsets of the log"


# --- what harms a cluster -------------------------------------------------------------------


def test_brokers_come_and_go(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(1, brokers=2)
    cluster.extra = {"broker.session.timeout.ms": 5000, "broker.heartbeat.interval.ms": 300}
    for node in cluster.nodes:
        cluster.configure(node)
    cluster.start()
    cluster.serving()
    assert create(cluster, 2, "t", partitions=4) == 0

    # A graceful stop hands the partitions over and leaves the epoch behind.
    epoch = lives(cluster, 3)[-1]["broker_epoch"]
    assert cluster.stop(3) == 0
    assert json.loads(cluster.path(3, CLEAN).read_text()) == {"version": 0, "brokerEpoch": epoch}
    assert [d["state"] for d in lives(cluster, 3)][-2:] == [
        "pending-controlled-shutdown",
        "stopped",
    ]
    wait_until(
        lambda: all(p["leader_id"] == 2 for p in partitions(cluster, 2, "t")),
        "the other broker leads everything",
    )
    assert cluster.alive(2) == [2]

    # It comes back with a new epoch, and what it left is used up.
    cluster.start(3)
    cluster.serving()
    assert not cluster.path(3, CLEAN).exists()
    second = lives(cluster, 3)[-1]["broker_epoch"]
    assert second > epoch

    # A killed one is fenced when its session ends.
    cluster.kill(3)
    assert not cluster.path(3, CLEAN).exists()
    wait_until(lambda: cluster.alive(2) == [2], "the dead broker is fenced")
    cluster.start(3)
    cluster.serving()
    third = lives(cluster, 3)[-1]["broker_epoch"]
    assert third > second
    for node in cluster.nodes:
        cluster.kill(node)
        assert replay(cluster.path(node, "inputs.log")).mismatch is None


def test_the_successor_of_a_killed_broker_waits_until_its_session_has_ended(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(1, brokers=1)
    cluster.extra = {"broker.session.timeout.ms": 600_000, "broker.heartbeat.interval.ms": 300}
    for node in cluster.nodes:
        cluster.configure(node)
    cluster.start()
    cluster.serving()
    first = lives(cluster, 2)[-1]["broker_epoch"]
    cluster.kill(2)
    cluster.start(2)
    wait_until(lambda: refusals(cluster, 2), "it is refused while the session lasts")
    cluster.kill(1)  # Sessions begin again with the next controller's, which are short.
    cluster.extra = {**cluster.extra, "broker.session.timeout.ms": 5000}
    cluster.configure(1)
    cluster.start(1)
    wait_until(lambda: lives(cluster, 2)[-1]["broker_epoch"] > first, "it is registered")
    cluster.serving()
    assert refusals(cluster, 2) == {"DUPLICATE_BROKER_REGISTRATION"}
    for node in cluster.nodes:
        cluster.kill(node)
        assert replay(cluster.path(node, "inputs.log")).mismatch is None


def test_a_write_waits_for_the_next_controller(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(3, brokers=1)
    cluster.start()
    first = cluster.controller()
    cluster.serving()
    cluster.kill(first)
    assert create(cluster, 4, "after", replicas=1) == 0, "it was forwarded to the new controller"
    assert cluster.controller() != first
    assert cluster.alive(4) == [4], "it was not fenced by the change"
    assert len([d for d in lives(cluster, 4) if d["state"] == "running"]) == 1


def test_combined_nodes_have_both_roles(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(3, combined=True)
    cluster.start()
    leader = cluster.controller()
    cluster.serving()
    assert cluster.alive(leader) == [1, 2, 3]
    for node in (1, 2, 3):
        assert create(cluster, node, f"t{node}", replicas=3) == 0
    cluster.kill(leader)
    survivors = [node for node in (1, 2, 3) if node != leader]
    assert create(cluster, survivors[0], "after", replicas=2) == 0
    cluster.start(leader)
    wait_until(lambda: cluster.topics(leader) == ["after", "t1", "t2", "t3"], "it caught up")
    for node in cluster.nodes:
        cluster.kill(node)
        assert replay(cluster.path(node, "inputs.log")).mismatch is None
