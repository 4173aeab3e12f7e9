"""When a deployed cluster counts as ready."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.settings import Settings
from kraftwreck.systems.kraft.system import KraftDeployment


class Node:
    """Answers as a node that leads, or knows the leader n1 and these unfenced brokers."""

    def __init__(self, node_id: int, brokers: set[int]) -> None:
        self.node_id, self.brokers = node_id, brokers
        self.pages: list[list[dict[str, Any]]] = [[]]
        """The partitions of the topic ``t``, as DescribeTopicPartitions pages them."""

    def call(self, api: str, version: int, body: dict[str, Any], timeout_ms: int) -> Answer:
        if api == "DescribeQuorum":
            part = {"error_code": 0, "leader_id": 1, "high_watermark": 5, "leader_epoch": 3}
            return Answer("ok", {"error_code": 0, "topics": [{"partitions": [part]}]})
        if api == "DescribeTopicPartitions":
            page = body["cursor"]["partition_index"] if body["cursor"] else 0
            more = page + 1 < len(self.pages)
            return Answer(
                "ok",
                {
                    "topics": [{"name": "t", "partitions": self.pages[page]}],
                    "next_cursor": {"topic_name": "t", "partition_index": page + 1}
                    if more
                    else None,
                },
            )
        brokers = [{"node_id": node_id} for node_id in sorted(self.brokers)]
        return Answer("ok", {"controller_id": 1, "brokers": brokers})

    def close(self) -> None:
        pass


def partition(number: int, leader: int, **changes: list[int]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "partition_index": number, "leader_id": leader, "replica_nodes": [2, 3], "isr_nodes": [],
        "eligible_leader_replicas": [], "last_known_elr": [],
    }  # fmt: skip
    return described | changes


def deployed(
    known: dict[int, set[int]], pages: list[list[dict[str, Any]]] | None = None
) -> KraftDeployment:
    """A controller and two brokers, which know those of ``known`` to be unfenced."""
    hosts = [Host(f"n{i}", i, f"10.77.0.{i}", "ssh-ed25519 AAAA") for i in (1, 2, 3)]
    made = KraftDeployment(Deployment(hosts, Settings(seed=1, brokers=2)))
    nodes: dict[str, Any] = {f"n{i}": Node(i, known.get(i, set())) for i in (1, 2, 3)}
    for node in nodes.values():
        node.pages = pages or [[]]
    made._probes = {"n1": nodes["n1"]}
    made._broker_probes = {name: nodes[name] for name in ("n2", "n3")}
    return made


def test_a_cluster_is_ready_when_every_broker_reports_all_brokers() -> None:
    assert deployed({2: {2, 3}, 3: {2, 3}}).ready(0.0) == "leader n1 epoch 3"


def test_a_broker_that_has_not_heard_of_another_one_is_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"^brokers still fenced: n3 after"):
        deployed({2: {2}, 3: {2, 3}}).ready(0.0)


def test_a_broker_that_reports_itself_fenced_is_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"^brokers still fenced: n2 after"):
        deployed({2: {3}, 3: {2, 3}}).ready(0.0)


ALL = {2: {2, 3}, 3: {2, 3}}


def test_a_partition_without_a_leader_is_waited_for_if_a_replica_may_lead() -> None:
    led = partition(0, 2, isr_nodes=[2])
    lost = partition(1, -1)
    foreign = partition(2, -1, replica_nodes=[2, 901], isr_nodes=[901])
    assert deployed(ALL, [[led], [lost, foreign]]).ready(0.0)
    in_sync = partition(3, -1, isr_nodes=[3])
    eligible = partition(4, -1, eligible_leader_replicas=[2])
    last = partition(5, -1, last_known_elr=[2])
    with pytest.raises(TimeoutError, match=r"^partitions without a leader: t-3, t-4, t-5 after"):
        deployed(ALL, [[led, in_sync], [eligible, last]]).ready(0.0)


def test_brokers_that_describe_no_partitions_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = deployed(ALL)
    called = Node.call

    def call(node: Node, api: str, *rest: Any) -> Answer:
        return Answer("lost") if api == "DescribeTopicPartitions" else called(node, api, *rest)

    monkeypatch.setattr(Node, "call", call)
    with pytest.raises(TimeoutError, match=r"^no broker describes the partitions after"):
        made.ready(0.0)
