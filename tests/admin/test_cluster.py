"""The state of a cluster, read while brokers' metadata lags behind the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kraftwreck.nodes.admin.client import Client
from kraftwreck.nodes.admin.cluster import Cluster
from kraftwreck.nodes.admin.failure import AdminError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.errors import NONE

BEFORE, DURING, AFTER = [100, 101], [101, 102, 100], [101, 102]
BROKERS = (100, 101, 102)


class Reports:
    """A client of a cluster with one partition, t-0: whether the controller lists its move from
    BEFORE to AFTER, and the replicas that all brokers report."""

    patience_s = 0.2

    def __init__(self, moves: bool, replicas: list[int]) -> None:
        self.servers: list[Endpoint] = []
        self.moves, self.replicas = moves, replicas

    def call(self, api: str, _body: object, *_where: object) -> dict[str, Any]:
        if api == "DescribeCluster":
            return {
                "error_code": NONE,
                "cluster_id": "c",
                "brokers": [
                    {"broker_id": b, "host": "h", "port": b, "rack": None, "is_fenced": False}
                    for b in BROKERS
                ],
            }
        if api == "ListPartitionReassignments":
            part = {
                "partition_index": 0,
                "replicas": DURING,
                "adding_replicas": [102],
                "removing_replicas": [100],
            }
            topics = [{"name": "t", "partitions": [part]}] if self.moves else []
            return {"error_code": NONE, "topics": topics}
        assert api == "Metadata"
        part = {
            "partition_index": 0,
            "replica_nodes": self.replicas,
            "isr_nodes": self.replicas,
            "leader_id": self.replicas[0],
        }
        return {"error_code": NONE, "topics": [{"name": "t", "partitions": [part]}]}


@pytest.fixture
def reports() -> Reports:
    return Reports(True, DURING)


@pytest.fixture
def cluster(reports: Reports) -> Cluster:
    return Cluster(cast(Client, reports))


def target(cluster: Cluster) -> list[int]:
    """The replicas that t-0 is to have."""
    return list(cluster.state().partitions["t", 0].target)


def test_a_move_in_progress_counts_as_complete(cluster: Cluster) -> None:
    assert target(cluster) == AFTER


@pytest.mark.parametrize("seen_by", [Cluster.state, Cluster.moving])
def test_metadata_from_before_the_end_of_a_move_is_not_taken(
    cluster: Cluster, reports: Reports, seen_by: Callable[[Cluster], object]
) -> None:
    seen_by(cluster)
    reports.moves = False
    with pytest.raises(AdminError, match="the metadata of broker 100 lags behind"):
        cluster.state()
    reports.replicas = AFTER
    assert target(cluster) == AFTER


def test_replicas_from_before_a_move_are_taken_when_it_was_cancelled(
    cluster: Cluster, reports: Reports
) -> None:
    cluster.state()
    reports.moves, reports.replicas = False, BEFORE
    assert target(cluster) == BEFORE


def test_once_the_end_of_a_move_was_seen_its_replicas_may_come_back(
    cluster: Cluster, reports: Reports
) -> None:
    cluster.state()
    reports.moves, reports.replicas = False, AFTER
    cluster.state()
    reports.replicas = DURING
    assert target(cluster) == DURING
