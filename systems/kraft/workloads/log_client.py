"""The memory of a client of records, and how it finds the leaders of partitions.

A key of the workload is a partition of a topic, which the client that first needs it creates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, QUORUM
from kraftwreck.nodes.metadata.eligibility import ELR_VERSION
from kraftwreck.nodes.metadata.image_values import COMMIT_MODE_VERSION
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.properties import MIN_INSYNC
from kraftwreck.systems.kraft.requests import ClientState, kafka_call
from kraftwreck.systems.kraft.sequence_numbers import following
from kraftwreck.systems.kraft.workloads.controller import metadata_request
from kraftwreck.systems.kraft.workloads.metadata import CREATE_TOPICS_VERSION

PARTITIONS: Final = 3
"""Partitions of each topic."""
REPLICAS: Final = 3
PREFIX: Final = "records-"
TRIMMED: Final = "trimmed-"
"""Topics of negative keys, whose records are deleted: no history names them."""
METADATA: Final = 12
INIT_PRODUCER_ID: Final = 4
FLUSH_MESSAGES: Final = "flush.messages"
FLUSH_MS: Final = "flush.ms"
RETENTION_MS: Final = "retention.ms"
QUORUM_COMMIT: Final = {COMMIT_MODE: QUORUM}
ASK_MS: Final = 1_000
BACKOFF_MS: Final = 100

WRAPPING: Final = 3
"""One of so many producers begins near the last sequence number."""
MOST_BEFORE: Final = 6
"""Records that such a producer sends to each partition before its numbers begin again, at most."""

UPDATE_FEATURES: Final = 1
NEW_PRODUCER: Final = {
    "transactional_id": None,
    "transaction_timeout_ms": ASK_MS,
    "producer_id": -1,
    "producer_epoch": -1,
}
"""The InitProducerId of a producer without transactions."""

Talk = Generator[Call | Pause, Answer, Any]


@dataclass(slots=True)
class Leader:
    """The leader of a partition as the client knows it; ``node`` is None without one."""

    node: str | None
    epoch: int


@dataclass(slots=True)
class Position:
    """Where a consumer reads next, and the leader epoch of the record before (-1: none)."""

    offset: int
    epoch: int = -1


@dataclass(slots=True)
class Session:
    """A fetch session (KIP-227): its id, its next epoch, and the partitions that it has."""

    session_id: int
    epoch: int
    parts: dict[int, dict[str, Any]]


@dataclass(slots=True)
class LogClient:
    """The memory of one client between operations.

    ``producer`` is its (id, epoch), None before it has one. ``sequences`` has the next sequence
    number of each key, ``first`` that of all others. ``assigned`` are the keys that it polls,
    ``ended`` has the leader epoch in which it learned the end of each key. ``sessions`` has its
    fetch session at each broker, ``ids`` the ids of topics, ``batches`` the last batches of its
    producer by key.
    """

    state: ClientState
    leaders: dict[int, Leader] = field(default_factory=dict)
    producer: tuple[int, int] | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    first: int = 0
    assigned: list[int] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    batches: dict[int, deque[bytes]] = field(default_factory=dict)

    def draw(self, bound: int, purpose: str) -> int:
        """Return a number below ``bound``, another one at each call."""
        state = self.state
        state.calls += 1
        return draw_below(bound, state.seed, purpose, state.thread, state.calls)

    def broker(self) -> str:
        """Return any broker."""
        return self.state.gateways[self.draw(len(self.state.gateways), "broker")]

    def name(self, broker_id: int) -> str | None:
        """Return the name of a broker, None for an id that no broker has."""
        return self.state.broker(broker_id)

    def forget(self, key: int) -> None:
        """Look the leader of ``key`` up again before the next request.

        The epoch stays known: a broker that is cut off from the controllers may name an older
        leader, and clients of Kafka do not go back to one (KIP-320).
        """
        known = self.leaders.get(key)
        if known is not None:
            self.leaders[key] = Leader(None, known.epoch)

    def new_producer(self) -> None:
        """Begin again with the next epoch of the producer, as real clients do (KIP-360), or with
        another id: an abandoned batch may still be appended."""
        if self.producer is not None and draw_below(2, self.state.seed, "bump", *self.producer):
            self.next_epoch()
        else:
            self.producer = None
            self.sequences.clear()
            self.batches.clear()

    def numbers(self, key: int) -> tuple[int, int, int]:
        """Return id, epoch and first sequence number for the producer's next batch."""
        assert self.producer is not None
        return (*self.producer, self.sequences.get(key, self.first))

    def used(self, key: int, count: int) -> None:
        """Note that a batch of ``count`` records has used as many sequence numbers."""
        self.sequences[key] = following(self.sequences.get(key, self.first), count)

    def begin(self, producer_id: int, epoch: int) -> None:
        """Become another producer.

        Some begin shortly before the last sequence number, as if they had sent two billion records:
        a partition that does not know a producer takes any number.
        """
        self.producer = producer_id, epoch
        self.sequences.clear()
        seed, who = self.state.seed, self.producer
        wraps = draw_below(WRAPPING, seed, "wraps", *who) == 0
        self.first = following(0, -1 - draw_below(MOST_BEFORE, seed, "first", *who)) if wraps else 0

    def next_epoch(self) -> None:
        """Raise the epoch of the producer, if there is one: its sequence numbers begin with 0."""
        if self.producer is not None:
            self.producer = self.producer[0], self.producer[1] + 1
            self.first = 0
            self.sequences.clear()
            self.batches.clear()


def log_client(state: ClientState) -> LogClient:
    """Return the memory of the client ``state``."""
    known: LogClient | None = state.memory.get("log")
    if known is None:
        known = state.memory["log"] = LogClient(state)
    return known


def place_of(key: int) -> tuple[str, int]:
    """Return topic and partition of ``key``."""
    prefix, number = (PREFIX, key) if key >= 0 else (TRIMMED, -1 - key)
    return f"{prefix}{number // PARTITIONS}", number % PARTITIONS


def key_of(topic: str, partition: int) -> int:
    """Return the key of a partition."""
    if topic.startswith(TRIMMED):
        return -1 - (int(topic.removeprefix(TRIMMED)) * PARTITIONS + partition)
    return int(topic.removeprefix(PREFIX)) * PARTITIONS + partition


def find_leader(client: LogClient, key: int) -> Generator[Call | Pause, Answer, Leader | None]:
    """Return the leader of ``key``; without one after a request for it, None."""
    known = client.leaders.get(key)
    if known is None or known.node is None:
        yield from refresh(client, [place_of(key)[0]])
        known = client.leaders.get(key)
    return known if known is not None and known.node is not None else None


def metadata(
    client: LogClient, topics: Sequence[str] = ()
) -> Generator[Call | Pause, Answer, Answer]:
    """Ask any broker for the brokers and for ``topics``; return its answer."""
    body = metadata_request([{"name": name} for name in topics])
    return (yield from ask(client.broker(), "Metadata", METADATA, body))


def refresh(client: LogClient, topics: list[str]) -> Talk:
    """Learn the leaders of ``topics`` from any broker; create those that are unknown."""
    answer = yield from metadata(client, topics)
    if answer.status != "ok":
        return
    missing = note_leaders(client, answer.response)
    if missing:
        yield from create(client, missing)


def note_leaders(client: LogClient, metadata: dict[str, Any]) -> list[str]:
    """Note the leaders in a Metadata answer, unless they are older than those known.

    Another topic of the same name has other leaders and other records (KIP-516). Return the topics
    that the broker does not know.
    """
    missing = []
    for topic in metadata["topics"]:
        if topic["error_code"] == errors.UNKNOWN_TOPIC_OR_PARTITION:
            missing.append(topic["name"])
        if topic["error_code"] != errors.NONE:
            continue
        keys = [key_of(topic["name"], part["partition_index"]) for part in topic["partitions"]]
        if client.ids.setdefault(topic["name"], topic["topic_id"]) != topic["topic_id"]:
            client.ids[topic["name"]] = topic["topic_id"]
            for key in keys:
                client.leaders.pop(key, None)
                client.positions.pop(key, None)
        for part in topic["partitions"]:
            key = key_of(topic["name"], part["partition_index"])
            known = client.leaders.get(key)
            if known is None or part["leader_epoch"] >= known.epoch:
                node = client.name(part["leader_id"])
                client.leaders[key] = Leader(node, part["leader_epoch"])
    return missing


def create(client: LogClient, topics: list[str]) -> Talk:
    """Create ``topics`` through any broker; another client may have done so.

    In half of the runs the cluster then keeps eligible leader replicas (KIP-966).
    """
    if draw_below(2, client.state.seed, "eligible") == 0:
        yield from enable(client, ELR_VERSION)
    configs = {name: _configs(client.state, name) for name in topics}
    if any(QUORUM_COMMIT.items() <= chosen.items() for chosen in configs.values()):
        yield from enable(client, COMMIT_MODE_VERSION)
    body = {
        "topics": [
            {
                "name": name,
                "num_partitions": PARTITIONS,
                "replication_factor": min(REPLICAS, len(client.state.gateways)),
                "configs": [{"name": config, "value": value} for config, value in chosen.items()],
            }
            for name, chosen in configs.items()
        ],
        "timeout_ms": ASK_MS,
    }
    yield from ask(client.broker(), "CreateTopics", CREATE_TOPICS_VERSION, body)


def _configs(state: ClientState, topic: str) -> dict[str, str]:
    """Return the configs of a topic, which differ from topic to topic unless the run has some."""
    given, seed = state.topic_configs, state.seed
    if given is None:
        seed = draw(seed, "topic", topic)
        given = flush_configs(seed) | commit_configs(seed)
    chosen = topic_configs(seed, len(state.gateways), given)
    return {**chosen, **_retention(seed, topic)}


def enable(client: LogClient, feature: str) -> Talk:
    """Raise a feature to level 1 through any broker."""
    update = {"feature": feature, "max_version_level": 1, "upgrade_type": 1}
    body = {"timeout_ms": ASK_MS, "feature_updates": [update], "validate_only": False}
    yield from ask(client.broker(), "UpdateFeatures", UPDATE_FEATURES, body)


def topic_configs(seed: int, brokers: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of the topics that have this seed.

    ``min.insync.replicas`` is 2 where there are three replicas, in one of four cases 1, unless it
    is ``given``. With fewer it is 1, or more than there are, and then all of them count.
    """
    drawn = (1, 2, 2, 2) if brokers >= REPLICAS else (1, REPLICAS)
    least = drawn[draw_below(len(drawn), seed, "min-insync")]
    return {MIN_INSYNC: str(least), **given}


def _retention(seed: int, topic: str) -> dict[str, str]:
    """Return what limits a topic: nothing, however old its timestamps are, or the size and age of
    records that may be deleted."""
    forever = {RETENTION_MS: "-1"}
    if not topic.startswith(TRIMMED):
        return forever
    drawn = draw_below(3, seed, "retention")
    return ({"retention.bytes": "600", **forever}, {RETENTION_MS: "1000"}, forever)[drawn]


def flush_configs(seed: int) -> dict[str, str]:
    """Return when a topic is flushed: in half of the cases the page cache decides, in a quarter no
    record is acknowledged from memory."""
    drawn = draw_below(4, seed, "flush")
    if drawn < 2:
        return {}
    if drawn == 2:
        return {FLUSH_MESSAGES: "1"}
    some = draw_below(3, seed, "flush", "some")
    messages = {FLUSH_MESSAGES: "5"} if some else {}
    return messages if some == 1 else {**messages, FLUSH_MS: "200"}


def commit_configs(seed: int) -> dict[str, str]:
    """Return how a topic commits: in a third of the cases by a majority of replicas.

    ``min.insync.replicas`` then means nothing, and is any number.
    """
    if draw_below(3, seed, "commit-mode"):
        return {}
    return {**QUORUM_COMMIT, MIN_INSYNC: str(1 + draw_below(REPLICAS, seed, "commit-least"))}


def ask(
    node: str, api: str, version: int, body: dict[str, Any], timeout_ms: int = ASK_MS
) -> Generator[Call | Pause, Answer, Answer]:
    """Send one request and return its answer."""
    return (yield kafka_call(node, api, version, body, timeout_ms))
