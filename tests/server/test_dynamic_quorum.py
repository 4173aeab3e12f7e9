"""Controllers that join and leave a running quorum, over the wire and through a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.log.meta import load_meta
from kraftwreck.nodes.server.reexecution import replay

QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2000,
    "metadata.max.retention.bytes": 3000,
    "metadata.log.segment.bytes": 2000,
    "kraftwreck.clean.interval.ms": 200,
}
"""Snapshots after a few records, and hardly any log before them."""


def voters(cluster: Any) -> list[int]:
    answer = cluster.call(cluster.controller(), "DescribeQuorum", 2, QUORUM)
    [partition] = answer["topics"][0]["partitions"]
    return [voter["replica_id"] for voter in partition["current_voters"]]


def kinds(cluster: Any, node: int) -> set[str]:
    return {trace["kind"] for trace in cluster.traces(node)}


def test_controllers_join_from_a_snapshot_and_one_leaves_through_a_broker(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(3, brokers=1, dynamic=True)
    cluster.extra = SMALL
    for node in cluster.nodes:
        cluster.configure(node)
    cluster.start(1)
    assert cluster.controller() == 1
    names = [f"t{i:02}" for i in range(40)]
    assert {cluster.create(name) for name in names} == {0}
    wait_until(lambda: "clean" in kinds(cluster, 1), "the log begins with a snapshot")

    # Who starts now finds the quorum by its bootstrap servers, and no log from the beginning.
    cluster.start(2, 3, 4)
    wait_until(lambda: voters(cluster) == [1, 2, 3], "both have joined")
    for node in (2, 3, 4):
        assert {"install", "load"} <= kinds(cluster, node)
    for node in (2, 3):
        wait_until(lambda n=node: sorted(cluster.topics(n)) == names, "it has everything")

    # The first voter is removed by an admin client that knows only the broker.
    cluster.serving()
    directory = load_meta(cluster.path(1, "data")).directory_id
    body = {"cluster_id": "loopback-cluster", "voter_id": 1, "voter_directory_id": directory}
    cluster.kill(1)
    wait_until(lambda: cluster.controller() != 1, "somebody else leads")
    answer = cluster.ask_broker(4, "RemoveRaftVoter", 0, body)
    assert answer["error_code"] == 0, answer
    assert voters(cluster) == [2, 3]
    assert cluster.create("after") == 0
    for node in list(cluster.processes):
        cluster.kill(node)
    for node in cluster.nodes:
        assert replay(cluster.path(node, "inputs.log")).mismatch is None


def test_a_controller_cannot_be_added_twice(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster(1, dynamic=True)
    cluster.start()
    leader = cluster.controller()
    listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": cluster.ports[1]}
    body = {
        "cluster_id": "loopback-cluster",
        "timeout_ms": 2000,
        "voter_id": 1,
        "voter_directory_id": b"d" * 16,
        "listeners": [listener],
    }
    assert cluster.call(leader, "AddRaftVoter", 0, body)["error_code"] == 126
    nobody = body | {"voter_id": 9, "listeners": [listener | {"port": 1}]}
    answer = cluster.call(leader, "AddRaftVoter", 1, nobody)
    assert answer["error_code"] == 7, "it cannot be asked what it supports"
    other = body | {"cluster_id": "other"}
    assert cluster.call(leader, "AddRaftVoter", 1, other)["error_code"] == 104
    twice = body | {"listeners": [listener, listener]}
    assert cluster.call(leader, "AddRaftVoter", 1, twice)["error_code"] == 42
