"""Brokers of both kinds share partitions: either leads, is killed, and follows the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kraftwreck.oracle.broker import Broker, KafkaBroker, OurBroker
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.systems.kraft.client import KafkaClient

pytestmark = pytest.mark.oracle
SESSION = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}
IDS = (100, 101, 102)
PATIENCE_S = 240.0
BURST = 300
SEGMENT = "00000000000000000000.log"


@pytest.fixture
def brokers(
    make_quorum: Callable[..., Quorum], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Broker]]:
    """One broker of Apache Kafka and two of ours under a controller of Apache Kafka."""
    quorum = make_quorum(KAFKA, properties=SESSION)
    folder: Path = tmp_path_factory.mktemp("brokers")
    kinds = (KafkaBroker, OurBroker, OurBroker)
    found: list[Broker] = [
        kind(folder / f"b{node}", node, port, CLUSTER_ID, quorum.ports, SESSION)
        for kind, node, port in zip(kinds, IDS, free_ports(3), strict=True)
    ]
    try:
        quorum.start()
        for broker in found:
            broker.format()
            broker.start()
        wait_until(
            "all are unfenced", lambda: all(b.knows() == set(IDS) for b in found), PATIENCE_S
        )
        yield found
    finally:
        for broker in found:
            broker.kill()
        quorum.close()


def ask(broker: Broker, api: str, version: int, body: dict[str, Any]) -> Any:
    client = KafkaClient(HOST, broker.port, "mixed")
    try:
        answer = client.call(api, version, body, 10_000)
        return answer.response if answer.status == "ok" else None
    finally:
        client.close()


def in_sync(broker: Broker) -> dict[str, list[int]]:
    """Return the ISR of each topic as a broker knows it."""
    answer = ask(broker, "Metadata", 12, {"topics": None})
    topics = [] if answer is None else answer["topics"]
    return {each["name"]: each["partitions"][0]["isr_nodes"] for each in topics}


class Writing:
    """An idempotent producer of numbers to each topic; ``told`` are (topic, number) by offset."""

    def __init__(self, servers: str, topics: list[str]) -> None:
        self.told: dict[tuple[str, int], int] = {}
        self.count = 0
        self._topics = topics
        options = {"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0}
        self._producer = confluent_kafka.Producer(options)

    def burst(self) -> None:
        for number in range(self.count, self.count + BURST):
            for topic in self._topics:

                def told(error: Any, message: Any, key: tuple[str, int] = (topic, number)) -> None:
                    assert error is None, error
                    self.told[key] = message.offset()

                self._producer.produce(topic, str(number), partition=0, on_delivery=told)
            self._producer.poll(0.002)
        self.count += BURST
        assert self._producer.flush(PATIENCE_S) == 0


def test_each_kind_leads_and_follows_and_nothing_is_lost(brokers: list[Broker]) -> None:
    kafka, first, second = brokers
    topics = [f"led-by-{node}" for node in IDS]
    wanted = [
        {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": 0, "broker_ids": [*IDS[number:], *IDS[:number]]},
            ],
            "configs": [{"name": "min.insync.replicas", "value": "2"}],
        }
        for number, name in enumerate(topics)
    ]
    made = ask(first, "CreateTopics", 7, {"topics": wanted, "timeout_ms": 9000})
    assert [each["error_code"] for each in made["topics"]] == [0, 0, 0]

    def complete(broker: Broker) -> bool:
        found = in_sync(broker)
        return set(topics) <= set(found) and all(len(found[name]) == 3 for name in topics)

    wait_until("all replicas are in sync", lambda: complete(first), PATIENCE_S)
    writing = Writing(",".join(broker.address for broker in brokers), topics)
    writing.burst()
    for killed in (kafka, first):
        killed.kill()
        writing.burst()
        killed.start()
        wait_until("it is in sync again", lambda: complete(second), PATIENCE_S)
    writing.burst()
    assert writing.told == {
        (topic, number): number for topic in topics for number in range(writing.count)
    }, "in order, each one once"

    def are_equal() -> bool:
        return all(
            len({(broker.data / f"{topic}-0" / SEGMENT).read_bytes() for broker in brokers}) == 1
            for topic in topics
        )

    wait_until("all replicas have the same bytes", are_equal, PATIENCE_S)


QUORUM_TOPIC = {
    "name": "by-quorum",
    "num_partitions": 1,
    "replication_factor": 1,
    "configs": [{"name": "commit.mode", "value": "quorum"}],
}
INVALID_CONFIG, INVALID_UPDATE_VERSION = 40, 95


def create_by_quorum(broker: Broker) -> tuple[int, str]:
    made = ask(broker, "CreateTopics", 7, {"topics": [QUORUM_TOPIC], "timeout_ms": 9000})
    [topic] = made["topics"]
    return topic["error_code"], topic["error_message"]


def permit_quorum(broker: Broker) -> tuple[int, str]:
    update = {"feature": "commit.mode.version", "max_version_level": 1, "upgrade_type": 1}
    body = {"timeout_ms": 9000, "feature_updates": [update], "validate_only": False}
    answer = ask(broker, "UpdateFeatures", 1, body)
    return answer["error_code"], answer["error_message"]


@pytest.mark.parametrize("kind", [KAFKA, OURS])
def test_a_cluster_with_nodes_of_apache_kafka_refuses_quorum_commit(
    make_quorum: Callable[..., Quorum], tmp_path: Path, kind: str
) -> None:
    """Our broker under controllers of Apache Kafka, and one of Apache Kafka under ours."""
    quorum = make_quorum(kind, properties=SESSION)
    build = OurBroker if kind == KAFKA else KafkaBroker
    broker = build(tmp_path / "b", 100, free_ports(1)[0], CLUSTER_ID, quorum.ports, SESSION)
    try:
        quorum.start()
        broker.format()
        broker.start()
        wait_until("it is unfenced", lambda: broker.knows() == {100}, PATIENCE_S)
        code, message = permit_quorum(broker)
        assert code == INVALID_UPDATE_VERSION, message
        code, message = create_by_quorum(broker)
        assert code == INVALID_CONFIG
        assert "commit.mode" in message
    finally:
        broker.kill()
        quorum.close()
