"""Records of users on real brokers: Kafka's clients produce and consume, leaders are killed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import confluent_kafka
import pytest

from kraftwreck.nodes.server.reexecution import replay
from tests.server.conftest import UNHURRIED, Client, Cluster
from tests.waiting import LIMIT_MS, LIMIT_S, wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.xdist_group("records"),  # They share a cluster.
]

SESSION = {
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3000,
}
EVERYTHING = 40


def servers(cluster: Any) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.broker_ports.values())


def create(cluster: Any, name: str, replicas: int = 3, **configs: str) -> None:
    """Create a topic of one partition, and wait until its leader serves."""
    values = {"min.insync.replicas": "2"} | {
        key.replace("_", "."): value for key, value in configs.items()
    }
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": replicas,
        "configs": [{"name": key, "value": value} for key, value in values.items()],
    }
    alive = [node for node in cluster.broker_ports if node in cluster.processes]
    body = {"topics": [topic], "timeout_ms": LIMIT_MS}
    answer = cluster.ask_broker(alive[0], "CreateTopics", 7, body)
    assert answer["topics"][0]["error_code"] == 0, answer
    cluster.leading(name)


def consume(cluster: Any, name: str, count: int, start: int = 0) -> list[Any]:
    """Return ``count`` messages of partition 0 from offset ``start`` on, by confluent-kafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers(cluster),
            "group.id": "required, but there are no groups",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(name, 0, start)])
    found: list[Any] = []

    def complete() -> bool:
        found.extend(each for each in consumer.consume(500, 0.5) if each.error() is None)
        return len(found) >= count

    wait_until(complete, f"{count} messages of {name}")
    consumer.close()
    assert len(found) == count
    return found


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One controller and three brokers, for the tests that do them no harm."""
    cluster = Cluster(tmp_path_factory.mktemp("records"), 1, brokers=3, extra=UNHURRIED)
    cluster.start()
    cluster.controller()
    cluster.serving()
    yield cluster
    cluster.close()


# --- one client after the other -------------------------------------------------------------


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kcat_reads_what_it_wrote(brokers: Any, acks: str) -> None:
    topic = f"kcat-{acks}"
    create(brokers, topic)
    lines = [f"line {number}" for number in range(EVERYTHING)]

    def kcat(*arguments: str, given: bytes = b"") -> str:
        command = ["kcat", "-b", servers(brokers), "-t", topic, "-p", "0", *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, check=True, timeout=LIMIT_S
        ).stdout.decode()

    kcat("-P", "-X", f"acks={acks}", given="\n".join(lines).encode())
    assert kcat("-C", "-o", "beginning", "-c", str(EVERYTHING)).splitlines() == lines
    assert kcat("-C", "-o", "5", "-c", "1") == "line 5\n"


@pytest.mark.parametrize("options", [{"acks": "0"}, {"acks": "1"}, {"enable.idempotence": True}])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_confluent_reads_what_it_wrote(brokers: Any, options: dict[str, Any], codec: str) -> None:
    topic = f"confluent-{codec}-{'-'.join(map(str, options.values()))}"
    create(brokers, topic)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers(brokers), "compression.type": codec, **options}
    )
    told: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        told.append(message.offset())

    for number in range(EVERYTHING):
        producer.produce(topic, f"value {number}", str(number), 0, on_delivery=delivered)
    assert producer.flush(LIMIT_S) == 0
    if options.get("acks") != "0":
        assert told == list(range(EVERYTHING))
    found = consume(brokers, topic, EVERYTHING)
    assert [each.offset() for each in found] == list(range(EVERYTHING))
    assert [each.value().decode() for each in found] == [f"value {n}" for n in range(EVERYTHING)]


@pytest.mark.parametrize("options", [{"acks": 0}, {"acks": 1}, {"acks": "all"}])
def test_kafka_python_reads_what_it_wrote(brokers: Any, options: dict[str, Any]) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    topic = f"python-{options['acks']}"
    create(brokers, topic)
    where = servers(brokers).split(",")
    idempotent = options["acks"] == "all"
    producer = KafkaProducer(bootstrap_servers=where, enable_idempotence=idempotent, **options)
    try:
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(EVERYTHING)]
        producer.flush(LIMIT_S)
        offsets = [each.get(LIMIT_S).offset for each in sent]
    finally:
        producer.close()
    assert options["acks"] == 0 or offsets == list(range(EVERYTHING))
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=where, consumer_timeout_ms=int(LIMIT_S * 1000))
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        values = [next(consumer).value for _ in range(EVERYTHING)]
        assert consumer.end_offsets([partition]) == {partition: EVERYTHING}
        found = consumer.offsets_for_times({partition: 0})[partition]
        assert found.offset == 0
    finally:
        consumer.close()
    assert values == [b"%d" % number for number in range(EVERYTHING)]


@pytest.mark.parametrize("options", [{"acks": 1}, {"enable_idempotence": True}])
def test_aiokafka_reads_what_it_wrote(brokers: Any, options: dict[str, Any]) -> None:
    import aiokafka

    topic = "aio-" + "-".join(options)
    create(brokers, topic)

    async def scenario() -> list[int]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers(brokers), **options)
        await producer.start()
        try:
            for number in range(EVERYTHING):
                told = await producer.send_and_wait(topic, b"%d" % number, partition=0)
                assert told.offset == number
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers(brokers))
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [int((await consumer.getone()).value) for _ in range(EVERYTHING)]
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(scenario(), LIMIT_S)) == list(range(EVERYTHING))


def test_records_are_deleted_and_looked_up_by_time(brokers: Any) -> None:
    from confluent_kafka import admin as untyped

    admin = cast(Any, untyped)
    topic = "deleted"
    create(brokers, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers(brokers), "linger.ms": 0})
    for number in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1000 * (number + 1))
        producer.flush(LIMIT_S)
    client = admin.AdminClient({"bootstrap.servers": servers(brokers), "log_level": 0})
    partition = confluent_kafka.TopicPartition(topic, 0, 4)

    def offset(spec: Any) -> int:
        [future] = client.list_offsets({partition: spec}).values()
        return int(future.result(LIMIT_S).offset)

    assert offset(admin.OffsetSpec.latest()) == 10
    assert offset(admin.OffsetSpec.max_timestamp()) == 9
    assert offset(admin.OffsetSpec.for_timestamp(3500)) == 3
    [future] = client.delete_records([partition]).values()
    assert future.result(LIMIT_S).low_watermark == 4
    assert offset(admin.OffsetSpec.earliest()) == 4
    assert [each.offset() for each in consume(brokers, topic, 6, 4)] == list(range(4, 10))


def test_a_fetch_waits_for_records(brokers: Any) -> None:
    create(brokers, "awaited")
    leader = brokers.described(2, "awaited")["leader_id"]
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    question = {
        "replica_id": -1,
        "max_wait_ms": 60_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "awaited", "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    with Client(brokers.broker_ports[leader]) as reader:
        reader.send("Fetch", 12, question)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers(brokers)})
        producer.produce("awaited", b"at last", partition=0)
        assert producer.flush(LIMIT_S) == 0
        _, answer = reader.receive("Fetch", 12)
    [found] = answer["responses"][0]["partitions"]
    assert found["error_code"] == 0
    assert b"at last" in found["records"]


def test_a_client_that_does_not_read_holds_little(brokers: Any) -> None:
    create(brokers, "unread")
    leader = brokers.described(2, "unread")["leader_id"]
    producer = confluent_kafka.Producer({"bootstrap.servers": servers(brokers), "linger.ms": 50})
    for _ in range(40):
        producer.produce("unread", b"x" * 900_000, partition=0)
    assert producer.flush(LIMIT_S) == 0
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 50 << 20,
    }
    question = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "unread", "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    before = memory(brokers, leader)
    readers = [Client(brokers.broker_ports[leader]) for _ in range(4)]
    try:
        for reader in readers:
            for _ in range(60):
                reader.send("Fetch", 12, question)
        # Answered while all those wait: the broker has taken in what it takes of them.
        assert brokers.described(leader, "unread")["leader_id"] == leader
        grown = memory(brokers, leader) - before
        assert grown < len(readers) * (8 << 20), f"{grown >> 20} MiB for {len(readers)} clients"
        _, answer = readers[0].receive("Fetch", 12)
        [found] = answer["responses"][0]["partitions"]
        assert len(found["records"]) > 30 << 20
    finally:
        for reader in readers:
            reader.socket.close()


def memory(cluster: Any, node: int) -> int:
    """Return the bytes that a process has in memory."""
    status = Path(f"/proc/{cluster.processes[node].pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


# --- what harms a cluster -------------------------------------------------------------------


class Writer(threading.Thread):
    """Produces numbers with acks=all until it is stopped; ``acknowledged`` has their offsets."""

    def __init__(self, cluster: Any, topic: str, **options: Any) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, int] = {}
        self.failed: list[Any] = []
        self._topic = topic
        self._over = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers(cluster),
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": int(LIMIT_S * 1000),
                "retry.backoff.ms": 50,
                "log_level": 0,
                **options,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            value = number

            def delivered(error: Any, message: Any, value: int = value) -> None:
                if error is None:
                    self.acknowledged[value] = message.offset()
                else:
                    self.failed.append(error)

            self._producer.produce(self._topic, str(number), partition=0, on_delivery=delivered)
            self._producer.poll(0.001)
            number += 1
        self._producer.flush(LIMIT_S)

    def stop(self) -> None:
        self._over.set()
        self.join(2 * LIMIT_S)
        assert not self.is_alive()


@pytest.mark.parametrize("idempotent", [True, pytest.param(False, marks=pytest.mark.whole_run)])
def test_killed_leaders_lose_nothing_acknowledged(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any], idempotent: bool
) -> None:
    cluster = make_cluster(1, brokers=3, extra=SESSION)
    cluster.start()
    cluster.serving()
    create(cluster, "kept")
    writer = Writer(cluster, "kept", **{"enable.idempotence": idempotent})
    writer.start()

    def acknowledged(count: int) -> None:
        wanted = len(writer.acknowledged) + count
        wait_until(lambda: len(writer.acknowledged) >= wanted, f"{count} more acknowledgements")

    for _ in range(2):
        acknowledged(300)
        leader = cluster.described(min(cluster.broker_ports), "kept")["leader_id"]
        cluster.kill(leader)
        acknowledged(300)
        cluster.start(leader)
        cluster.serving()
        wait_until(
            lambda node=leader: len(cluster.described(node, "kept")["isr_nodes"]) == 3,
            "all replicas are in sync",
        )
    writer.stop()
    assert not writer.failed
    count = max(writer.acknowledged.values()) + 1
    read = {each.offset(): int(each.value()) for each in consume(cluster, "kept", count)}
    lost = {n: at for n, at in writer.acknowledged.items() if read.get(at) != n}
    assert not lost, f"{len(lost)} of {len(writer.acknowledged)} are lost: {list(lost.items())[:5]}"
    if idempotent:
        assert [read[at] for at in sorted(read)] == list(range(count)), "in order, each one once"

    def contents() -> list[bytes]:
        return [
            cluster.path(node, "data/kept-0/00000000000000000000.log").read_bytes()
            for node in cluster.broker_ports
        ]

    wait_until(lambda: len(set(contents())) == 1, "all replicas have the same bytes")
    for node in cluster.nodes:
        cluster.kill(node)
        assert replay(cluster.path(node, "inputs.log")).mismatch is None
