"""The workload of records through librdkafka (confluent-kafka), on hosts.

A producer has the properties of the user's file. Consumers have none of them: they read what the
logs have. Topics are created when a client first needs them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from kraftwreck.harness.client import Completion
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.operation import Op
from kraftwreck.systems.kraft import properties
from kraftwreck.systems.kraft.options import LIBRDKAFKA
from kraftwreck.systems.kraft.workloads.log_client import (
    PARTITIONS,
    PREFIX,
    REPLICAS,
    key_of,
    place_of,
)

MISSING: Final = "confluent-kafka is missing: pip install confluent-kafka"
POLL_S: Final = 0.3
READ_S: Final = 60.0
"""How long the final poll may take."""
ASK_S: Final = 3.0
REFUSED: Final = frozenset({"INVALID_REQUIRED_ACKS", "MSG_SIZE_TOO_LARGE", "_QUEUE_FULL"})
"""Errors which guarantee that the record is in no log. All others leave it open: an earlier attempt
may have been appended, though the last one was refused."""
UNSET: Final[Mapping[str, str]] = {
    properties.ACKS: "all",
    properties.IDEMPOTENCE: "false",
    properties.RETRIES: "2147483647",
    properties.IN_FLIGHT: "1000000",
}
"""The values of librdkafka for properties that a file leaves out."""
DIALECT: Final = properties.Dialect(
    aliases={
        "request.required.acks": properties.ACKS,
        "message.timeout.ms": properties.DELIVERY,
        "message.send.max.retries": properties.RETRIES,
        "max.in.flight": properties.IN_FLIGHT,
    },
    owned={
        "test.mock.num.brokers": "the run's own brokers are used",
        "delivery.report.only.error": "every send needs a report of its outcome",
        "plugin.library.paths": properties.OWN_CODE,
    },
    defaults={**properties.DEFAULTS, "topic.metadata.refresh.interval.ms": "1000"},
)
_CONNECTING: Final[Mapping[str, str]] = {
    name: value for name, value in DIALECT.defaults.items() if name != properties.DELIVERY
}
_PRODUCERS_OWN: Final = "request.timeout.ms"
_TRUE: Final = frozenset({"true", "t", "1"})
T = TypeVar("T")


@dataclass(frozen=True)
class Librdkafka:
    """Producers with the properties of ``file``; ``given`` are those that it has."""

    file: Path | None
    given: Mapping[str, str]
    version: str
    name: str = LIBRDKAFKA

    @classmethod
    def of(cls, file: Path | None) -> Librdkafka:
        """Read ``file`` and try it. Raises OptionError, one line, without the library, or for a
        property that it refuses."""
        given = {} if file is None else properties.read(file, DIALECT)
        if find_spec("confluent_kafka") is None:
            raise OptionError(MISSING)
        import confluent_kafka

        found = cls(file, given, confluent_kafka.libversion()[0])
        try:
            confluent_kafka.Producer({**found.settings(), "log_level": 0})
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            told = error.args[0] if error.args else error
            text = told.str() if isinstance(told, confluent_kafka.KafkaError) else str(told)
            raise OptionError(
                f"--properties {file}: librdkafka refuses it: {' '.join(text.split())}"
            ) from None
        return found

    def settings(self) -> dict[str, str]:
        """Return the properties of a producer, without its brokers."""
        return DIALECT.settings(self.given)

    def patience_s(self) -> float:
        """Return how long a send waits for the reports of its records."""
        return DIALECT.patience_s(self.given)

    def facts(self, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return what ``test.json`` says of the clients of a run."""
        idempotent = self.given.get(properties.IDEMPOTENCE, "false").lower() in _TRUE
        effective = {**UNSET, **self.given, properties.IDEMPOTENCE: str(idempotent).lower()}
        told = DIALECT.facts(self.file, self.given, effective, topics)
        return {"name": self.name, "version": self.version, **told}

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch nothing: the library is installed."""

    def opened(
        self, servers: str, brokers: int, topics: Mapping[str, str], threads: int
    ) -> RecordClients:
        """Return the clients of a run with these brokers."""
        return RecordClients(self, servers, Topics(servers, brokers, topics))


@dataclass
class RecordClients:
    """The clients of one run; they share ``topics``."""

    client: Librdkafka
    servers: str
    topics: Topics

    def client_of(self, thread: int) -> RecordsClient:
        """Return the client of one thread."""
        return RecordsClient(self.client, self.servers, self.topics)

    def close(self) -> None:
        """Do nothing: each client is closed by its thread."""


class Topics:
    """Creates topics of three partitions, once each. For any thread."""

    def __init__(self, servers: str, replicas: int, configs: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient({"bootstrap.servers": servers, **_CONNECTING, "log_level": 0})
        self._replicas = min(REPLICAS, replicas)
        self._configs = dict(configs)
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def create(self, name: str) -> str:
        """Create the topic ``name`` unless it exists; return an error, or nothing."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        with self._lock:
            if name in self._known:
                return ""
            topic = NewTopic(name, PARTITIONS, self._replicas, config=self._configs)
            try:
                asked = self._admin.create_topics([topic], operation_timeout=1, request_timeout=2)
                asked[name].result(timeout=ASK_S)
            except (KafkaException, TimeoutError) as error:
                told = error.args[0] if error.args else error
                code = told.code() if isinstance(told, KafkaError) else None
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    return f"the topic was not created: {told or 'timed out'}"
            self._known.add(name)
            return ""


@dataclass
class RecordsClient:
    """A client of one thread (:class:`~harness.client.BlockingClient`)."""

    client: Librdkafka
    servers: str
    topics: Topics
    blocking: Literal[True] = True
    assigned: list[int] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    _producer: Any = None
    _consumer: Any = None

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op``."""
        match op.f:
            case "send":
                return self._send(op)
            case "poll":
                return self._read_all() if op.final else self._poll()
            case "assign":
                return self._assign(op)
        raise ValueError(f"the produce workload has no operation {op.f!r}")

    def reset(self) -> None:
        """Begin as another producer and consumer."""
        self.close()
        self.assigned, self.positions = [], {}

    def close(self) -> None:
        """Give the producer up, with all that it has not sent, and the consumer."""
        producer, self._producer = self._producer, None
        consumer, self._consumer = self._consumer, None
        if producer is not None:
            producer.purge()
        if consumer is not None:
            consumer.close()

    # --- producing ------------------------------------------------------------------------

    def _send(self, op: Op) -> Completion:
        """Send all records of ``op`` at once, and wait for the report of each."""
        from confluent_kafka import KafkaException, Producer

        key, values = op.value[0][1], [move[2] for move in op.value]
        topic, partition = place_of(key)
        if error := self.topics.create(topic):
            return Completion("fail", error=error)
        if self._producer is None:
            own = {"bootstrap.servers": self.servers, "log_level": 0}
            self._producer = Producer({**self.client.settings(), **own})
        producer, told = self._producer, dict[int, tuple[Any, int]]()

        def hear(value: int) -> Callable[[Any, Any], None]:
            return lambda error, message: told.update({value: (error, message.offset())})

        for place, value in enumerate(values):
            try:
                producer.produce(
                    topic, str(value).encode(), partition=partition, on_delivery=hear(value)
                )
            except (BufferError, KafkaException) as error:
                producer.purge()
                self._producer = None  # After a fatal error it refuses all records.
                return Completion("info" if place else "fail", error=f"not sent: {error}")
        deadline = time.monotonic() + self.client.patience_s()
        while len(told) < len(values) and time.monotonic() < deadline:
            producer.poll(0.05)
        return outcome(key, values, told)

    # --- consuming ------------------------------------------------------------------------

    def _assign(self, op: Op) -> Completion:
        for key in op.value:
            if error := self.topics.create(place_of(key)[0]):
                return Completion("fail", error=error)
        self.assigned = list(op.value)
        self.positions = {k: at for k, at in self.positions.items() if k in self.assigned}
        self._place(self.assigned)
        return Completion("ok", op.value)

    def _place(self, keys: Sequence[int]) -> None:
        """Let another consumer read ``keys`` from where the last one stopped, or from their
        beginnings: the last one may still return records that it fetched for older positions."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        self._open().assign(
            [
                TopicPartition(*place_of(key), self.positions.get(key, OFFSET_BEGINNING))
                for key in keys
            ]
        )

    def _open(self) -> Any:
        from confluent_kafka import Consumer

        if self._consumer is None:
            connecting = {n: v for n, v in _CONNECTING.items() if n != _PRODUCERS_OWN}
            self._consumer = Consumer(
                {
                    **connecting,
                    "bootstrap.servers": self.servers,
                    "group.id": "kraftwreck",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "socket.timeout.ms": 2000,
                    "fetch.wait.max.ms": 100,
                    "log_level": 0,
                }
            )
        return self._consumer

    def _poll(self) -> Completion:
        """Return what arrives in a moment."""
        if not self.assigned:
            return Completion("ok", [["poll", {}]])
        found: dict[int, list[list[int]]] = {}
        problem = ""
        for message in self._open().consume(500, POLL_S):
            if message.error() is None:
                self._note(message, found)
            else:
                problem = str(message.error())
        if problem and not found:
            return Completion("fail", error=problem)
        return Completion("ok", polled(found), error=problem or None)

    def _note(self, message: Any, found: dict[int, list[list[int]]]) -> None:
        key, offset = key_of(message.topic(), message.partition()), message.offset()
        found.setdefault(key, []).append([offset, int(message.value())])
        self.positions[key] = offset + 1

    def _read_all(self) -> Completion:
        """Read all logs from their beginnings to their ends; ``fail`` if that takes too long."""
        from confluent_kafka import TopicPartition

        deadline = time.monotonic() + READ_S
        consumer = self._open()
        try:
            listed = _retried(lambda: consumer.list_topics(timeout=ASK_S), deadline)
            keys = sorted(
                key_of(name, partition)
                for name, topic in listed.topics.items()
                if name.startswith(PREFIX)
                for partition in topic.partitions
            )
            ends = {
                key: _retried(
                    lambda key=key: consumer.get_watermark_offsets(  # type: ignore[misc]
                        TopicPartition(*place_of(key)), ASK_S
                    )[1],
                    deadline,
                )
                for key in keys
            }
            return self._read(ends, deadline)
        except Exception as error:
            return Completion("fail", error=str(error))

    def _read(self, ends: Mapping[int, int], deadline: float) -> Completion:
        found: dict[int, list[list[int]]] = {}
        left = {key for key, end in ends.items() if end > 0}
        self.positions = {}
        self._place(sorted(left))
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"keys {sorted(left)} were not read to their ends in time")
            for message in self._open().consume(500, POLL_S):
                if message.error() is None:
                    self._note(message, found)
            left = {key for key in left if self.positions.get(key, 0) < ends[key]}
        return Completion("ok", polled(found))


def outcome(key: int, values: Sequence[int], told: Mapping[int, tuple[Any, int]]) -> Completion:
    """Return how a send of ``values`` ended; ``told`` has an error or an offset by value.

    It failed only if none of its records can be in the log.
    """
    problems = [told[value][0] for value in values if value in told and told[value][0] is not None]
    if not problems and len(told) == len(values):
        pairs = [[at if (at := told[value][1]) >= 0 else None, value] for value in values]
        return Completion("ok", [["send", key, pair] for pair in pairs])
    if len(problems) == len(values) and all(each.name() in REFUSED for each in problems):
        return Completion("fail", error=str(problems[0]))
    return Completion("info", error=str(problems[0]) if problems else "no report in time")


def polled(found: Mapping[int, list[list[int]]]) -> list[Any]:
    """Return the value of a poll."""
    return [["poll", {str(key): pairs for key, pairs in sorted(found.items())}]]


def _retried(ask: Callable[[], T], deadline: float) -> T:
    """Return what ``ask`` returns once it raises no KafkaException; raise its last one."""
    from confluent_kafka import KafkaException

    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
