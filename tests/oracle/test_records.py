"""Apache Kafka's own clients and tools on brokers that store records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.oracle.java import Ran
from tests.server.conftest import UNHURRIED, Cluster

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
TOOLS = "org.apache.kafka.tools"
COUNT = 500


@pytest.fixture(scope="module")
def brokers(apache_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One controller and three brokers."""
    cluster = Cluster(tmp_path_factory.mktemp("records"), 1, brokers=3, extra=UNHURRIED)
    cluster.start()
    cluster.controller()
    cluster.serving()
    yield cluster
    cluster.close()


def servers(cluster: Any) -> tuple[str, str]:
    return "--bootstrap-server", ",".join(f"127.0.0.1:{p}" for p in cluster.broker_ports.values())


def create(cluster: Any, tool: Tool, name: str) -> None:
    size = ("--partitions", "1", "--replication-factor", "3", "--config", "min.insync.replicas=2")
    tool(f"{TOOLS}.TopicCommand", *servers(cluster), "--create", "--topic", name, *size)
    cluster.leading(name)


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_java_clients_read_what_they_wrote(brokers: Any, tool: Tool, acks: str) -> None:
    topic = f"java{acks}"
    create(brokers, tool, topic)
    produced = tool(
        f"{TOOLS}.VerifiableProducer",
        *servers(brokers),
        *("--topic", topic, "--max-messages", str(COUNT), "--acks", acks),
    )
    told = [json.loads(line) for line in produced.stdout.splitlines() if line.startswith("{")]
    assert sum(each["name"] == "producer_send_success" for each in told) == COUNT
    consumed = tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *servers(brokers),
        *("--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(COUNT), "--timeout-ms", "60000"),
    )
    assert [int(line) for line in consumed.stdout.split()] == list(range(COUNT))


def test_java_tools_find_and_delete_offsets(brokers: Any, tool: Tool, tmp_path: Path) -> None:
    topic = "offsets"
    create(brokers, tool, topic)
    tool(
        f"{TOOLS}.VerifiableProducer",
        *servers(brokers),
        *("--topic", topic, "--max-messages", "20", "--acks", "-1"),
    )

    def offset(time: str) -> str:
        ran = tool(f"{TOOLS}.GetOffsetShell", *servers(brokers), "--topic", topic, "--time", time)
        return ran.stdout.strip()

    assert offset("-1") == f"{topic}:0:20"
    assert offset("-2") == f"{topic}:0:0"
    plan = tmp_path / "plan.json"
    part = {"topic": topic, "partition": 0, "offset": 7}
    plan.write_text(json.dumps({"partitions": [part], "version": 1}))
    tool(f"{TOOLS}.DeleteRecordsCommand", *servers(brokers), "--offset-json-file", str(plan))
    assert offset("-2") == f"{topic}:0:7"


def test_the_dump_tool_reads_what_brokers_wrote(brokers: Any, tool: Tool) -> None:
    topic = "dumped"
    create(brokers, tool, topic)
    tool(
        f"{TOOLS}.VerifiableProducer",
        *servers(brokers),
        *("--topic", topic, "--max-messages", str(COUNT), "--acks", "-1"),
    )
    for node in brokers.broker_ports:
        folder = brokers.path(node, f"data/{topic}-0")
        files = ",".join(str(path) for path in sorted(folder.glob("0*")))
        said = tool(f"{TOOLS}.DumpLogSegments", "--deep-iteration", "--files", files)
        assert "isvalid: false" not in said.stdout
        assert "lastOffset: " in said.stdout


def test_a_topic_that_commits_by_a_majority_serves_kafkas_clients(brokers: Any, tool: Tool) -> None:
    """Kafka's TopicCommand refuses configs that it does not know, so ours creates the topic."""
    at = servers(brokers)
    tool(f"{TOOLS}.FeatureCommand", *at, "upgrade", "--feature", "commit.mode.version=1")
    said = tool(f"{TOOLS}.FeatureCommand", *at, "describe").stdout
    assert re.search(r"commit\.mode\.version\b.*FinalizedVersionLevel: 1\b", said)
    size = ("--partitions", "1", "--replicas", "3", "--config", "commit.mode=quorum")
    admin = (sys.executable, "-m", "kraftwreck.nodes.admin", "create-topic", "quorum")
    subprocess.run([*admin, *at, *size], check=True, capture_output=True)
    brokers.leading("quorum")
    produced = tool(
        f"{TOOLS}.VerifiableProducer",
        *at,
        *("--topic", "quorum", "--max-messages", str(COUNT), "--acks", "-1"),
    )
    assert produced.stdout.count("producer_send_success") == COUNT
    entity = ("--entity-type", "topics", "--entity-name", "quorum")
    said = tool("kafka.admin.ConfigCommand", *at, "--describe", *entity).stdout
    assert "commit.mode=quorum" in said
