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

    def call(self, api: str, version: int, body: dict[str, Any], timeout_ms: int) -> Answer:
        if api == "DescribeQuorum":
            part = {"error_code": 0, "leader_id": 1, "high_watermark": 5, "leader_epoch": 3}
            return Answer("ok", {"error_code": 0, "topics": [{"partitions": [part]}]})
        brokers = [{"node_id": node_id} for node_id in sorted(self.brokers)]
        return Answer("ok", {"controller_id": 1, "brokers": brokers})

    def close(self) -> None:
        pass


def deployed(known: dict[int, set[int]]) -> KraftDeployment:
    """A controller and two brokers, which know those of ``known`` to be unfenced."""
    hosts = [Host(f"n{i}", i, f"10.77.0.{i}", "ssh-ed25519 AAAA") for i in (1, 2, 3)]
    made = KraftDeployment(Deployment(hosts, Settings(seed=1, brokers=2)))
    nodes: dict[str, Any] = {f"n{i}": Node(i, known.get(i, set())) for i in (1, 2, 3)}
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
