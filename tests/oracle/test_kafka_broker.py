"""Brokers of Apache Kafka under our controllers: they register, serve clients, come and go."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kraftwreck.oracle.broker import KafkaBroker
from kraftwreck.oracle.java import Ran, run_tool
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
SESSION = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}
SLOWER = {"controller.quorum.fetch.timeout.ms": 3000}
RELEASE = ("--release-version", "4.0")
MESSAGES = 50


def brokers_of(quorum: Quorum, folder: Path, count: int) -> list[KafkaBroker]:
    properties = {**SESSION, "offsets.topic.replication.factor": count}
    brokers = [
        KafkaBroker(folder / f"b{100 + n}", 100 + n, port, CLUSTER_ID, quorum.ports, properties)
        for n, port in enumerate(free_ports(count))
    ]
    for broker in brokers:
        broker.format()
    return brokers


def wait_until_ready(brokers: Sequence[KafkaBroker]) -> None:
    wanted = {broker.node_id for broker in brokers}

    def ready() -> bool:
        return all(broker.knows() >= wanted for broker in brokers)

    wait_until("the brokers are unfenced", ready)


class Cluster:
    """Our controllers, Apache Kafka's brokers and its tools."""

    def __init__(self, quorum: Quorum, brokers: list[KafkaBroker], tool: Tool) -> None:
        self.quorum = quorum
        self.brokers = brokers
        self._tool = tool

    def tool(self, main_class: str, *arguments: str) -> str:
        bootstrap = ",".join(broker.address for broker in self.brokers if broker.running)
        return self._tool(main_class, "--bootstrap-server", bootstrap, *arguments).stdout

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        size = ("--partitions", str(partitions), "--replication-factor", str(replicas))
        assert f"Created topic {topic}." in self.tool(TOPICS, "--create", "--topic", topic, *size)

    def produce(self, topic: str, prefix: str) -> set[str]:
        sent = {f"{prefix}-{number}" for number in range(MESSAGES)}
        address = next(broker.address for broker in self.brokers if broker.running)
        ran = run_tool(
            f"{TOOLS}.ConsoleProducer",
            *("--bootstrap-server", address, "--topic", topic),
            *("--command-property", "acks=all"),
            stdin="".join(f"{line}\n" for line in sent),
        )
        assert (ran.status, ran.stderr) == (0, "")
        return sent

    def consume(self, topic: str, count: int, group: str) -> set[str]:
        said = self.tool(
            *(f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, "--group", group),
            *("--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000"),
        )
        return set(said.split())

    def partitions(self, topic: str) -> dict[int, tuple[str, list[int], list[int]]]:
        """Return partition → (leader or "none", replicas, ISR) as a broker reports it."""
        said = self.tool(TOPICS, "--describe", "--topic", topic)
        found = re.findall(r"Partition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)", said)
        return {
            int(number): (leader, _ids(replicas), sorted(_ids(isr)))
            for number, leader, replicas, isr in found
        }


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


@pytest.fixture(scope="module")
def cluster(
    make_quorum: Callable[..., Quorum], tool: Tool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    quorum = make_quorum(OURS, OURS, OURS, properties=SESSION, format_options=RELEASE)
    brokers = brokers_of(quorum, tmp_path_factory.mktemp("brokers"), 2)
    try:
        quorum.start()
        for broker in brokers:
            broker.start()
        wait_until_ready(brokers)
        yield Cluster(quorum, brokers, tool)
    finally:
        for broker in brokers:
            broker.kill()


def test_clients_produce_and_consume(cluster: Cluster) -> None:
    cluster.create("said", 3, 2)
    for leader, replicas, isr in cluster.partitions("said").values():
        assert sorted(replicas) == isr == [100, 101]
        assert leader == str(replicas[0])
    sent = cluster.produce("said", "m")
    # The group's coordinator and the producers' ids need the controller too.
    assert cluster.consume("said", len(sent), "group") == sent


def test_a_partition_is_moved_and_led_by_its_preferred_replica(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create("moved", 1, 1)
    sent = cluster.produce("moved", "m")
    ((_, (before,), _),) = cluster.partitions("moved").values()
    after = 201 - before
    plan = tmp_path / "plan.json"
    move = {"topic": "moved", "partition": 0, "replicas": [after, before]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    command = (f"{TOOLS}.reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    cluster.tool(*command, "--execute")
    wait_until("the move", lambda: "is completed" in cluster.tool(*command, "--verify"))
    assert cluster.partitions("moved")[0][1:] == ([after, before], [100, 101])
    election = ("--election-type", "preferred", "--topic", "moved", "--partition", "0")
    cluster.tool(f"{TOOLS}.LeaderElectionCommand", *election)
    assert cluster.partitions("moved")[0][0] == str(after)
    assert cluster.consume("moved", len(sent), "mover") == sent


def test_the_tools_work_through_a_broker(cluster: Cluster) -> None:
    cluster.create("set", 1, 1)
    entity = ("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", "set")
    cluster.tool(*entity, "--alter", "--add-config", "retention.ms=4321")
    assert "retention.ms=4321" in cluster.tool(*entity, "--describe")
    cluster.tool(TOPICS, "--alter", "--topic", "set", "--partitions", "3")
    assert len(cluster.partitions("set")) == 3
    cluster.tool(TOPICS, "--delete", "--topic", "set")
    assert "set" not in cluster.tool(TOPICS, "--list").split()
    said = cluster.tool(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"^LeaderId: +{cluster.quorum.leader()}$", said, re.MULTILINE)
    said = cluster.tool(f"{TOOLS}.FeatureCommand", "describe")
    assert re.search(r"metadata\.version\s.*FinalizedVersionLevel: 4\.0-IV3", said)


def test_brokers_come_and_go_and_so_does_the_active_controller(cluster: Cluster) -> None:
    stays, goes = cluster.brokers
    cluster.create("kept", 4, 2)
    sent = cluster.produce("kept", "both")

    goes.stop()  # a controlled shutdown hands its partitions over first
    assert {p[0] for p in cluster.partitions("kept").values()} == {str(stays.node_id)}
    assert {tuple(p[2]) for p in cluster.partitions("kept").values()} == {(stays.node_id,)}
    sent |= cluster.produce("kept", "alone")
    goes.start()
    wait_until_ready([goes])

    def whole() -> bool:
        return all(isr == [100, 101] for _, _, isr in cluster.partitions("kept").values())

    wait_until("both in sync", whole)

    goes.kill()  # its session ends
    cluster.quorum.kill(cluster.quorum.leader())
    cluster.quorum.leader()

    def fenced() -> bool:
        return all(isr == [stays.node_id] for _, _, isr in cluster.partitions("kept").values())

    wait_until("the killed broker is out of the ISR", fenced)
    sent |= cluster.produce("kept", "after")
    assert cluster.consume("kept", len(sent), "keeper") == sent


def test_a_broker_continues_when_our_controllers_replace_kafkas(
    make_quorum: Callable[..., Quorum], tool: Tool, tmp_path: Path
) -> None:
    quorum = make_quorum(
        *(KAFKA, KAFKA, OURS),
        properties=SESSION,
        by_kind={OURS: SLOWER},
        format_options=RELEASE,
    )
    brokers = brokers_of(quorum, tmp_path, 1)
    try:
        quorum.start(1, 2)
        quorum.leader()
        quorum.start(3)
        brokers[0].start()
        wait_until_ready(brokers)
        cluster = Cluster(quorum, brokers, tool)
        cluster.create("kept", 2, 1)
        sent = cluster.produce("kept", "before")
        assert quorum.fail_over(OURS)[1] == 3
        cluster.create("new", 2, 1)
        sent |= cluster.produce("kept", "after")
        assert cluster.consume("kept", len(sent), "keeper") == sent
        assert len(cluster.produce("new", "new")) == MESSAGES
    finally:
        brokers[0].kill()
        quorum.close()
