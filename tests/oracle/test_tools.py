"""Apache Kafka's command line tools work against our controllers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.java import Ran
from kraftwreck.oracle.quorum import CLUSTER_ID, OURS, Quorum

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def three(make_quorum: Callable[..., Quorum]) -> Iterator[Quorum]:
    quorum = make_quorum(OURS, OURS, OURS)
    with quorum:
        quorum.start()
        quorum.leader()
        yield quorum


@pytest.fixture(scope="module")
def one(make_quorum: Callable[..., Quorum]) -> Iterator[Quorum]:
    """A single controller: no tool can ask another, which may not answer for the leader."""
    quorum = make_quorum(OURS)
    with quorum:
        quorum.start()
        quorum.leader()
        yield quorum


def test_metadata_quorum_describes_the_status(three: Quorum, tool: Tool) -> None:
    said = tool(
        f"{TOOLS}.MetadataQuorumCommand",
        *("--bootstrap-controller", three.addresses(), "describe", "--status"),
    ).stdout
    fields = dict(re.findall(r"^(\w+): +(.*)$", said, re.MULTILINE))
    assert fields["ClusterId"] == CLUSTER_ID
    assert int(fields["LeaderId"]) == three.leader()
    assert int(fields["LeaderEpoch"]) >= 1
    assert int(fields["HighWatermark"]) > 0
    assert fields["CurrentObservers"] == "[]"
    for node, controller in three.controllers.items():
        directory = three.directory_id(node)
        assert f'"id": {node}, "directoryId": "{directory}"' in fields["CurrentVoters"]
        assert f"CONTROLLER://{HOST}:{controller.port}" in fields["CurrentVoters"]


def test_metadata_quorum_describes_replication(three: Quorum, tool: Tool) -> None:
    said = tool(
        f"{TOOLS}.MetadataQuorumCommand",
        *("--bootstrap-controller", three.addresses(), "describe", "--replication"),
    ).stdout
    rows = [line.split() for line in said.splitlines()[1:] if line.strip()]
    assert sorted(int(row[0]) for row in rows) == [1, 2, 3]
    assert [int(row[0]) for row in rows if row[-1] == "Leader"] == [three.leader()]
    assert [row[-1] for row in rows].count("Follower") == 2
    assert all(int(row[2]) > 0 for row in rows)


def test_topics_are_created_listed_and_deleted(three: Quorum, tool: Tool) -> None:
    def topics(*arguments: str) -> str:
        command = f"{TOOLS}.TopicCommand"
        return tool(command, "--bootstrap-server", three.addresses(), *arguments).stdout

    created = topics("--create", "--topic", "made", "--partitions", "3")
    assert "Created topic made." in created
    assert topics("--list").split() == ["made"]
    topics("--delete", "--topic", "made")
    assert topics("--list").split() == []


def test_topics_are_described(one: Quorum, tool: Tool) -> None:
    def topics(*arguments: str) -> str:
        command = f"{TOOLS}.TopicCommand"
        return tool(command, "--bootstrap-server", one.addresses(), *arguments).stdout

    topics("--create", "--topic", "told", "--partitions", "2", "--config", "retention.ms=1234")
    said = topics("--describe", "--topic", "told")
    assert re.search(r"Topic: told\s+TopicId: [\w-]{22}\s+PartitionCount: 2", said)
    assert "ReplicationFactor: 1" in said
    assert "retention.ms=1234" in said
    assert len(re.findall(r"Partition: \d\s+Leader: 1\s+Replicas: 1\s+Isr: 1", said)) == 2


def test_configs_are_altered_and_described(one: Quorum, tool: Tool) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", "set")
        command = "kafka.admin.ConfigCommand"
        return tool(command, "--bootstrap-server", one.addresses(), *entity, *arguments).stdout

    assert one.create_topic("set") == 0
    configs("--alter", "--add-config", "retention.ms=4321")
    assert "retention.ms=4321" in configs("--describe")
    configs("--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in configs("--describe")


def test_features_and_the_cluster_id_are_reported(three: Quorum, tool: Tool) -> None:
    bootstrap = ("--bootstrap-controller", three.addresses())
    said = tool(f"{TOOLS}.FeatureCommand", *bootstrap, "describe").stdout
    assert re.search(r"metadata\.version\s.*FinalizedVersionLevel: [34]\.\d-IV\d", said)
    said = tool(f"{TOOLS}.ClusterTool", "cluster-id", *bootstrap).stdout
    assert said.strip() == f"Cluster ID: {CLUSTER_ID}"
