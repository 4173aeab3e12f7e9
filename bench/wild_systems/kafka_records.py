"""The workload ``produce``: records with unique values, and at the end all of each partition.

An operation ``send`` has the value ``[["send", partition, value]]``, and ``[["send", partition,
[offset, value]]]`` when it was acknowledged. The final ``poll`` assigns all partitions and reads
from their beginnings to their ends: ``[["poll", {partition: [[offset, value], …]}]]``. The history
is Jepsen's for a log, so ``model/kafka`` judges it: acknowledged values that no poll has, values
with several offsets, offsets with several values, and sends of one process out of order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka_places import BROKERS

from kraftwreck.api import (
    CheckerResult,
    Completion,
    Floor,
    Op,
    Place,
    Planned,
    PlannedWorkload,
    RunData,
    draw_below,
)
from kraftwreck.checkers.registry import find

TOPIC = "records"
PARTITIONS = 3
SEND_S = 4.0
"""How long librdkafka may take to deliver a record."""
READ_S = 25.0
"""How long the final poll may take."""
ASK_S = 3.0
REFUSED = frozenset(
    {"INVALID_REQUIRED_ACKS", "MSG_SIZE_TOO_LARGE", "_QUEUE_FULL", "_UNKNOWN_PARTITION"}
)
"""Errors of librdkafka which guarantee that the record is in no log. All others leave it open: an
earlier attempt may have been appended, though the last one was refused (NOT_ENOUGH_REPLICAS) or the
leader changed (NOT_LEADER_FOR_PARTITION)."""


class Produce(PlannedWorkload):
    """Each thread sends unique values to partitions by draw."""

    name = "produce"
    about = "records with unique values; acknowledged ones are in the log at the end"
    checkers: Sequence[str] = ("stats", "produced")
    owed = ("send", "poll")
    floor = Floor(share=0.05)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        partition = draw_below(PARTITIONS, seed, "partition", thread, count)
        return Planned("send", None, [["send", partition, count * 1000 + thread + 1]])

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return [Planned("poll", None, [["poll"]], final=True)]


def check(run: RunData) -> CheckerResult:
    """Judge the log, unless no poll has reached its end: nothing is known of the records then."""
    if not any(op.f == "poll" and op.type == "ok" for op in run.ops):
        return CheckerResult(valid="unknown", error="no poll has read the log to its end")
    return find("model/kafka")(run)


def failed(name: str, text: str) -> Completion:
    """Return how a send ended that librdkafka reported as the error ``name``."""
    return Completion("fail" if name in REFUSED else "info", error=text)


class RecordClient:
    """A producer and consumers of librdkafka that begin with one broker."""

    def __init__(self, place: Place, acks: str) -> None:
        self.servers = f"{place.ip}:{BROKERS}"
        self.acks = acks
        self.producer: Any = None

    def invoke(self, op: Op) -> Completion:
        """Carry out a send or the final poll."""
        if op.f == "poll":
            return self.poll()
        ((_, partition, value),) = op.value
        return self.send(partition, value)

    def send(self, partition: int, value: int) -> Completion:
        """Send one record, and wait until librdkafka says what became of it."""
        from confluent_kafka import KafkaException

        told: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            told.append((error, message.offset()))

        try:
            producer = self.open()
            text = json.dumps(value)
            producer.produce(TOPIC, text, partition=partition, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            self.close()
            return Completion("fail", error=f"not sent: {error}")
        deadline = time.monotonic() + SEND_S + 1.0
        while not told and time.monotonic() < deadline:
            producer.poll(0.05)
        if not told:
            self.close()
            return Completion("info", error=f"no report in {SEND_S:g} s")
        ((problem, offset),) = told
        if problem is None:
            return Completion("ok", [["send", partition, [offset, value]]])
        self.close()
        return failed(problem.name(), str(problem))

    def open(self) -> Any:
        """Return the producer. It sends each record once, unless it may recognise a repetition."""
        from confluent_kafka import Producer

        if self.producer is None:
            strict = self.acks == "all"
            self.producer = Producer(
                {
                    **_settings(self.servers),
                    "acks": self.acks,
                    "enable.idempotence": strict,
                    "delivery.timeout.ms": round(SEND_S * 1000),
                    "request.timeout.ms": round(ASK_S * 1000),
                    "linger.ms": 0,
                    **({} if strict else {"retries": 0}),
                }
            )
        return self.producer

    def poll(self) -> Completion:
        """Read all partitions; ``fail`` if one was not read to its end in time."""
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(
            {
                **_settings(self.servers),
                "group.id": "final",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": False,
            }
        )
        deadline = time.monotonic() + READ_S
        try:
            ends = _retried(lambda: _ends(consumer), deadline)
            return _read(consumer, ends, deadline)
        except (KafkaException, TimeoutError) as error:
            return Completion("fail", error=str(error))
        finally:
            consumer.close()

    def close(self) -> None:
        """Give the producer up, with all that it has not sent."""
        if self.producer is not None:
            self.producer.purge()
            self.producer = None


def _settings(servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "socket.connection.setup.timeout.ms": 2000,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 1000,
        "log_level": 0,
    }


def _retried(ask: Callable[[], Any], deadline: float) -> Any:
    """Return what ``ask`` returns once it raises no KafkaException; raise its last one."""
    from confluent_kafka import KafkaException

    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _ends(consumer: Any) -> dict[int, int]:
    """Return the end of each partition as its leader has it."""
    from confluent_kafka import TopicPartition

    return {
        partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), ASK_S)[1]
        for partition in range(PARTITIONS)
    }


def _read(consumer: Any, ends: dict[int, int], deadline: float) -> Completion:
    """Return all records below ``ends``. Raises TimeoutError."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in ends])
    found: dict[str, list[list[int]]] = {str(each): [] for each in ends}
    left = {partition for partition, end in ends.items() if end > 0}
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {sorted(left)} were not read to their ends in time")
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        partition, offset = message.partition(), message.offset()
        found[str(partition)].append([offset, json.loads(message.value())])
        if offset + 1 >= ends[partition]:
            left.discard(partition)
    return Completion("ok", [["poll", found]])


WORKLOAD = Produce()
