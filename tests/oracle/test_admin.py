"""The commands of nodes.admin on a cluster of Apache Kafka, also killed and repeated."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.oracle.broker import KafkaBroker
from kraftwreck.oracle.java import run_tool
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, Quorum, wait_until
from tests.killed import kill_early

pytestmark = pytest.mark.oracle
TOOLS = "org.apache.kafka.tools"
SESSION = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}
ADMIN = [sys.executable, "-m", "kraftwreck.nodes.admin"]
MESSAGES = 200
FIRST, STAYS, ADDED = 100, 101, 102


class Cluster:
    """A controller and three brokers of Apache Kafka; the third is started later."""

    def __init__(self, quorum: Quorum, folder: Path) -> None:
        self.quorum = quorum
        properties = {**SESSION, "offsets.topic.replication.factor": 1}
        self.brokers = {
            node: KafkaBroker(folder / f"b{node}", node, port, CLUSTER_ID, quorum.ports, properties)
            for node, port in zip((FIRST, STAYS, ADDED), free_ports(3), strict=True)
        }
        for broker in self.brokers.values():
            broker.format()

    def start(self, *nodes: int) -> None:
        for node in nodes:
            self.brokers[node].start()
        wait_until(
            f"brokers {nodes} are unfenced",
            lambda: self.brokers[STAYS].knows() >= set(nodes),
        )

    @property
    def servers(self) -> list[str]:
        return ["--bootstrap-server", ",".join(b.address for b in self.brokers.values())]

    def admin(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        command = [*ADMIN, *arguments, "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ran.returncode == status, ran.stderr
        result: dict[str, Any] = json.loads(ran.stdout) if status == 0 else {"error": ran.stderr}
        return result

    def replicas(self, topic: str) -> dict[int, list[int]]:
        created = self.admin("create-topic", topic, *self.servers)
        assert created["created"] is False
        return {int(number): brokers for number, brokers in created["assignment"].items()}

    def produce(self, topic: str) -> set[str]:
        sent = {f"m-{number}" for number in range(MESSAGES)}
        ran = run_tool(
            f"{TOOLS}.ConsoleProducer",
            *("--bootstrap-server", self.brokers[STAYS].address, "--topic", topic),
            *("--command-property", "acks=all"),
            # Keys, so that every partition has records.
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            stdin="".join(f"{line}:{line}\n" for line in sorted(sent)),
        )
        assert (ran.status, ran.stderr) == (0, "")
        return sent

    def consume(self, topic: str, count: int) -> set[str]:
        ran = run_tool(
            *(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning"),
            *("--bootstrap-server", self.brokers[STAYS].address),
            *("--max-messages", str(count), "--timeout-ms", "30000"),
        )
        assert ran.status == 0, ran.stderr
        return set(ran.stdout.split())


@pytest.fixture(scope="module")
def cluster(
    make_quorum: Callable[..., Quorum], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    quorum = make_quorum(KAFKA, properties=SESSION)
    cluster = Cluster(quorum, tmp_path_factory.mktemp("brokers"))
    try:
        quorum.start()
        cluster.start(FIRST, STAYS)
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            broker.kill()


def placed(replicas: dict[int, list[int]]) -> Counter[int]:
    return Counter(broker for each in replicas.values() for broker in each)


def test_topics_brokers_added_and_removed(cluster: Cluster) -> None:
    at = cluster.servers
    shape = ("--partitions", "6", "--replicas", "2", "--config", "retention.ms=7777777")
    created = cluster.admin("create-topic", "t", *at, *shape)
    assert (created["created"], created["partitions"], created["replicas"]) == (True, 6, 2)
    assert cluster.admin("create-topic", "t", *at, *shape) == created | {"created": False}
    error = cluster.admin("create-topic", "t", *at, "--partitions", "7", status=254)["error"]
    assert "topic t exists with 6 partitions, not 7" in error
    sent = cluster.produce("t")
    before = cluster.replicas("t")

    cluster.start(ADDED)
    plan = cluster.admin("add-brokers", str(ADDED), *at, "--dry-run")
    assert plan["bytes_to_copy"] > 0, "Apache Kafka reports sizes"
    kill_early([*ADMIN, "add-brokers", str(ADDED), *at, "--batch", "1"], seed=1)
    cluster.admin("add-brokers", str(ADDED), *at)
    after = cluster.replicas("t")
    assert placed(after) == {FIRST: 4, STAYS: 4, ADDED: 4}
    assert Counter(each[0] for each in after.values()) == {FIRST: 2, STAYS: 2, ADDED: 2}
    assert sum(len(set(after[n]) - set(before[n])) for n in before) == plan["replicas_to_copy"] == 4

    removed = cluster.brokers[FIRST]
    options = (str(FIRST), *at, "--data-dir", str(removed.data), "--batch", "1")
    kill_early([*ADMIN, "remove-brokers", *options], seed=2)
    cluster.admin("remove-brokers", *options)
    assert not removed.data.exists()
    assert placed(cluster.replicas("t")) == {STAYS: 6, ADDED: 6}
    again = cluster.admin("remove-brokers", *options)
    assert (again["unregistered"], again["replicas_copied"]) == ([], 0)
    assert cluster.consume("t", len(sent)) == sent


def test_the_listener_of_a_controller_is_named_as_such(cluster: Cluster) -> None:
    at = ("--bootstrap-server", cluster.quorum.addresses(), "--patience", "5")
    for command in (("add-brokers", "1"), ("create-topic", "u")):
        error = cluster.admin(*command, *at, status=254)["error"]
        assert "pass the listener of a broker" in error
