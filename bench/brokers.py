"""Brokers of both kinds beside each other: produce with acks=all and consume, through librdkafka.

``python -m bench.brokers [--pairs 5] [--warm 2] [--megabytes 100] [--partitions 1]`` starts one
controller and three brokers of Apache Kafka and the same of ours (``make oracle`` first). It loads
them in turns, so that both see the same machine, and prints the medians and their spread. With
``--input-log`` both are ours, and the second writes its inputs to a log.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from kraftwreck.oracle.broker import Broker, KafkaBroker, OurBroker
from kraftwreck.oracle.controller import BENCH_FLAGS, HOST
from kraftwreck.oracle.java import java_command
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.systems.kraft.client import KafkaClient

BROKERS = 3
SIZES = (100, 10_000)
READS = 5
"""How many times the records of a load are consumed: once takes a fraction of a second."""
_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 300.0
HEAD = "| what | Apache Kafka | ours | ratio of medians |\n|---|--:|--:|--:|"
HEAD_OF_LOGS = "| what | no input log | input log | ratio of medians |\n|---|--:|--:|--:|"


FLAGS = ("-Xmx512m", "-Xms512m", *BENCH_FLAGS[2:])
"""Those of Kafka's start script, with less memory."""


class BenchBroker(KafkaBroker):
    """A broker of Apache Kafka with all compilers."""

    def own_properties(self) -> Mapping[str, object]:
        """Return nothing but what a single machine needs."""
        return {"offsets.topic.num.partitions": 1}

    def command(self) -> list[str]:
        """Return the command line of Kafka's server."""
        return java_command("kafka.Kafka", [str(self.config)], FLAGS, level="WARN")


class LoggingBroker(OurBroker):
    """A broker of ours that logs its inputs."""

    def own_properties(self) -> Mapping[str, object]:
        """Return the place of the input log, too."""
        log = self.data.with_name("inputs.jsonl")
        return {**super().own_properties(), "kraftwreck.input.log": log}


LOGGING = "ours with input logs"
BROKERS_OF: Mapping[str, type[Broker]] = {
    KAFKA: BenchBroker,
    OURS: OurBroker,
    LOGGING: LoggingBroker,
}


@dataclass
class Measured:
    """Seconds of one load: of the clients' clock, and of the brokers' processors.

    Those of consuming are for all records once.
    """

    produced_s: float
    produce_cpu_s: float
    consumed_s: float
    consume_cpu_s: float


@dataclass
class Side:
    """One cluster, and what was measured of it by record size."""

    name: str
    quorum: Quorum
    brokers: list[Broker]
    measured: dict[int, list[Measured]] = field(default_factory=dict)

    @property
    def servers(self) -> str:
        """Return the addresses for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def cpu_s(self) -> float:
        """Return the CPU time of all brokers."""
        return sum(map(_cpu_s, (broker.pid for broker in self.brokers)))

    def rss_mb(self) -> list[int]:
        """Return the memory of each broker."""
        return [_rss_kb(broker.pid) // 1024 for broker in self.brokers]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def start(kind: str, folder: Path, properties: Mapping[str, object] | None = None) -> Side:
    """Start a cluster, and wait until its brokers serve; ``properties`` are those of all nodes."""
    build = BROKERS_OF[kind]
    properties = properties or {}
    controllers = KAFKA if kind == KAFKA else OURS
    quorum = Quorum(folder / "quorum", [controllers], free_ports(1), properties)
    quorum.format()
    brokers: list[Broker] = [
        build(folder / f"b{node}", node, port, CLUSTER_ID, quorum.ports, properties)
        for node, port in zip(range(100, 100 + BROKERS), free_ports(BROKERS), strict=True)
    ]
    side = Side(kind, quorum, brokers)
    quorum.start()
    for broker in brokers:
        broker.format()
        broker.start()
    ids = {broker.node_id for broker in brokers}
    wait_until("all are unfenced", lambda: all(b.knows() == ids for b in brokers), PATIENCE_S)
    return side


@contextmanager
def both(
    properties: Mapping[str, object] | None = None, kinds: Sequence[str] = (KAFKA, OURS)
) -> Iterator[tuple[Side, Side]]:
    """Two clusters, by default one of Apache Kafka and one of ours, which end with the block."""
    sides: list[Side] = []
    with tempfile.TemporaryDirectory(prefix="kraftwreck-brokers-") as folder:
        try:
            for kind in kinds:
                sides.append(start(kind, Path(folder) / kind, properties))
            yield sides[0], sides[1]
        finally:
            for side in sides:
                for broker in side.brokers:
                    broker.kill()
                side.quorum.close()


def ask(side: Side, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request of the first broker that answers."""
    for broker in side.brokers:
        client = KafkaClient(HOST, broker.port, "bench")
        try:
            answer = client.call(api, version, body, 60_000)
        finally:
            client.close()
        if answer.status == "ok":
            response: dict[str, Any] = answer.response
            return response
    raise RuntimeError(f"{side.name}: no broker answers {api}")


def create(side: Side, topic: str, partitions: int = 1) -> None:
    """Create a topic of three replicas."""
    wanted = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": BROKERS,
        "configs": [{"name": "min.insync.replicas", "value": "2"}],
    }
    answer = ask(side, "CreateTopics", 7, {"topics": [wanted], "timeout_ms": 50_000})
    assert answer["topics"][0]["error_code"] == 0, answer
    time.sleep(2.0)


def leader(side: Side, topic: str) -> Broker | None:
    """Return the broker that leads partition 0 of ``topic``, None while none does."""
    answer = ask(side, "Metadata", 9, {"topics": [{"name": topic}]})
    found = answer["topics"][0]["partitions"]
    ids = {broker.node_id: broker for broker in side.brokers}
    return ids.get(found[0]["leader_id"]) if found else None


def cell(values: Sequence[float]) -> str:
    """Return the median of ``values``, with the smallest and the largest."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def row(what: str, kafka: Sequence[float], ours: Sequence[float]) -> str:
    """Return a line below :data:`HEAD`: both figures, and the ratio of their medians."""
    ratio = statistics.median(ours) / statistics.median(kafka)
    return f"| {what} | {cell(kafka)} | {cell(ours)} | {ratio:.2f} |"


Figures = dict[str, dict[str, list[float]]]
"""By what was measured, and by the name of the side: the values."""


def note(found: Figures, side: Side, figures: Mapping[str, float]) -> None:
    """Add what was measured of a side once."""
    for what, value in figures.items():
        found.setdefault(what, {}).setdefault(side.name, []).append(value)


def report(found: Figures, sides: Sequence[Side]) -> None:
    """Print the load and a table of all that was measured."""
    print(f"load {os.getloadavg()}, {os.cpu_count()} processors")
    print(HEAD)
    for what, measured in found.items():
        print(row(what, *(measured[side.name] for side in sides)))


def producer_of(side: Side) -> confluent_kafka.Producer:
    """Return a producer with acks=all that waits 5 ms for batches of 64 KiB."""
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": side.servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 64 << 10,
            "queue.buffering.max.kbytes": 1 << 20,
            "log_level": 0,
        }
    )


def load(side: Side, topic: str, size: int, count: int, partitions: int = 1) -> Measured:
    """Produce ``count`` records of ``size`` bytes, then read them again."""
    producer = producer_of(side)
    failed: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    value = os.urandom(size)
    cpu, began = side.cpu_s(), time.monotonic()
    for number in range(count):
        while True:
            try:
                to = number % partitions
                producer.produce(topic, value, partition=to, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0 and not failed, failed[:1]
    produced, produce_cpu = time.monotonic() - began, side.cpu_s() - cpu
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": side.servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1 << 20,
            "fetch.queue.backoff.ms": 1,  # Otherwise it sleeps for a second when it has enough.
            "check.crcs": False,
            "log_level": 0,
        }
    )
    beginning = [confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)]
    consumer.assign(beginning)
    assert consumer.consume(1, PATIENCE_S), "nothing to consume"
    cpu, began = side.cpu_s(), time.monotonic()
    for _ in range(READS):
        consumer.assign(beginning)
        left = count
        while left > 0:
            left -= len(consumer.consume(min(left, 10_000), 1.0))
    consumed, consume_cpu = (time.monotonic() - began) / READS, (side.cpu_s() - cpu) / READS
    consumer.close()
    return Measured(produced, produce_cpu, consumed, consume_cpu)


def table(sides: Sequence[Side], megabytes: int) -> list[str]:
    """Return the medians, with the smallest and the largest value, as lines of Markdown."""
    first, second = sides
    rows: list[tuple[str, Callable[[Measured], float]]] = [
        ("produce, MB/s", lambda m: megabytes / m.produced_s),
        ("produce, CPU s/GB of all brokers", lambda m: 1000 * m.produce_cpu_s / megabytes),
        ("consume, MB/s", lambda m: megabytes / m.consumed_s),
        ("consume, CPU s/GB of all brokers", lambda m: 1000 * m.consume_cpu_s / megabytes),
    ]
    lines = [HEAD if first.name == KAFKA else HEAD_OF_LOGS]
    for size in SIZES:
        for name, value in rows:
            values = [[value(each) for each in side.measured[size]] for side in sides]
            lines.append(row(f"{size} B: {name}", *values))
    lines.append(f"| RSS of each broker, MB | {first.rss_mb()} | {second.rss_mb()} | |")
    return lines


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="pairs that do not count")
    parser.add_argument("--megabytes", type=int, default=100, help="of records in each load")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--input-log", action="store_true", help="ours, without and with")
    options = parser.parse_args()
    with both(kinds=(OURS, LOGGING) if options.input_log else (KAFKA, OURS)) as sides:
        for pair in range(options.pairs + options.warm):
            for size in SIZES:
                for side in sides:
                    topic = f"t{pair}-{size}"
                    create(side, topic, options.partitions)
                    count = options.megabytes * 1_000_000 // size
                    found = load(side, topic, size, count, options.partitions)
                    if pair >= options.warm:
                        side.measured.setdefault(size, []).append(found)
                    print(f"pair {pair}, {size} B, {side.name}: {found}", flush=True)
        print(f"load {os.getloadavg()}, {os.cpu_count()} processors")
        print("\n".join(table(sides, options.megabytes)))


if __name__ == "__main__":
    main()
