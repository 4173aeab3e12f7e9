"""Topics and partitions, as a broker describes them to its clients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from kraftwreck.nodes.broker.cluster_view import (
    CLUSTER_OPERATIONS,
    NOBODY,
    alive_brokers,
    described_brokers,
)
from kraftwreck.nodes.metadata.describe import wanted_topics
from kraftwreck.nodes.metadata.eligibility import LOST_DIRECTORY
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_values import ImageView, Partition, Topic
from kraftwreck.nodes.metadata.topics import check_topic_name
from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUEST,
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

Body = dict[str, Any]

NO_ID: Final = bytes(16)
INTERNAL: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""The topic operations that are allowed to everybody, as there is no authorization."""
NOT_ASKED: Final = -(1 << 31)
MAX_PARTITIONS: Final = 2000
"""Partitions in one DescribeTopicPartitions response (max.request.partition.size.limit)."""


def offline_replicas(partition: Partition, alive: Collection[int]) -> list[int]:
    """Return the replicas whose broker is not alive or whose log directory is lost."""
    directories = partition.directories or (NO_ID,) * len(partition.replicas)
    return [
        replica
        for replica, directory in zip(partition.replicas, directories, strict=True)
        if replica not in alive or directory == LOST_DIRECTORY
    ]


def _leader(partition: Partition, brokers: Collection[int]) -> tuple[int, int]:
    """Return error code and leader; a leader without a registration counts as none."""
    if partition.leader in brokers:
        return NONE, partition.leader
    return LEADER_NOT_AVAILABLE, NOBODY


def _name_error(name: str) -> int:
    """Return why no topic has this name."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return UNKNOWN_TOPIC_OR_PARTITION


def _partitions(image: ImageView, topic: Topic, first: int = 0) -> Iterator[tuple[int, Partition]]:
    for number in range(first, topic.partitions):
        yield number, image.partitions[topic.topic_id, number]


# --- Metadata -----------------------------------------------------------------------------


class MetadataAnswer:
    """Answers Metadata requests from ``image`` for clients of the listener of this name."""

    def __init__(self, image: ImageView, listener: str, cluster_id: str) -> None:
        self._image = image
        self._listener = listener
        self._cluster_id = cluster_id
        self._alive = alive_brokers(image, listener)

    def body(self, version: int, request: Body, controller_id: int) -> Body:
        """Return the answer."""
        operations = cluster = NOT_ASKED
        if request.get("include_topic_authorized_operations", False):
            operations = TOPIC_OPERATIONS
        if request.get("include_cluster_authorized_operations", False):
            cluster = CLUSTER_OPERATIONS
        return {
            "throttle_time_ms": 0,
            "brokers": [
                {key: broker[key] for key in ("host", "port", "rack")}
                | {"node_id": broker["broker_id"]}
                for broker in described_brokers(self._image, self._listener)
            ],
            "cluster_id": self._cluster_id,
            "controller_id": controller_id,
            "topics": [
                topic | {"topic_authorized_operations": operations}
                for topic in self._topics(version, request["topics"])
            ],
            "cluster_authorized_operations": cluster,
            "error_code": NONE,
        }

    def _topics(self, version: int, wanted: Sequence[Body] | None) -> Iterator[Body]:
        if wanted is None or (version == 0 and not wanted):
            for _, topic in sorted(self._image.topics.items()):
                yield self._topic(topic)
            return
        for name, topic_id in wanted_topics(version, wanted):
            yield self._wanted(name, topic_id)

    def _wanted(self, name: str | None, topic_id: bytes) -> Body:
        """Return one requested topic; the name has priority if name and id are given."""
        image = self._image
        failed: Body = {"name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
        if name is None:
            if topic_id in image.names:
                return self._topic(image.topics[image.names[topic_id]])
            return failed | {"error_code": UNKNOWN_TOPIC_ID}
        if name in image.topics:
            return self._topic(image.topics[name])
        return failed | {"error_code": _name_error(name)}

    def _topic(self, topic: Topic) -> Body:
        return {
            "error_code": NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name in INTERNAL,
            "partitions": [
                self._partition(number, partition)
                for number, partition in _partitions(self._image, topic)
            ],
        }

    def _partition(self, number: int, partition: Partition) -> Body:
        error, leader = _leader(partition, self._image.brokers)
        return {
            "error_code": error,
            "partition_index": number,
            "leader_id": leader,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": list(partition.replicas),
            "isr_nodes": list(partition.isr),
            "offline_replicas": offline_replicas(partition, self._alive),
        }


# --- DescribeTopicPartitions --------------------------------------------------------------


class PartitionsAnswer:
    """Answers DescribeTopicPartitions (KIP-966): topics in order, paged by partitions.

    The cursor is the first partition of the next answer.
    """

    def __init__(self, image: ImageView, listener: str) -> None:
        self._image = image
        self._alive = alive_brokers(image, listener)

    def body(self, request: Body) -> Body:
        """Return the answer."""
        cursor: Body | None = request["cursor"]
        named = sorted({topic["name"] for topic in request["topics"]})
        if cursor is not None:
            refusal = self._cursor_fault(cursor, named)
            if refusal != NONE:
                topics = [self._failed(name, refusal) for name in named or [cursor["topic_name"]]]
                return {"throttle_time_ms": 0, "topics": topics, "next_cursor": None}
        everything = not named
        names = sorted(self._image.topics) if everything else named
        first = 0
        if cursor is not None:
            names = [name for name in names if name >= cursor["topic_name"]]
            if names and names[0] == cursor["topic_name"]:
                first = cursor["partition_index"]
        limit = min(max(request["response_partition_limit"], 1), MAX_PARTITIONS)
        return self._listed(names, first, limit)

    @staticmethod
    def _cursor_fault(cursor: Body, named: Sequence[str]) -> int:
        if cursor["partition_index"] < 0 or (named and cursor["topic_name"] not in named):
            return INVALID_REQUEST
        return NONE

    def _listed(self, names: Sequence[str], first: int, remaining: int) -> Body:
        topics: list[Body] = []
        following: Body | None = None
        for name in names:
            if remaining == 0:
                following = {"topic_name": name, "partition_index": 0}
                break
            begin, first = first, 0  # The cursor belongs to the first topic, even a missing one.
            topic = self._image.topics.get(name)
            if topic is None:
                topics.append(self._failed(name, _name_error(name)))
                continue
            entry = self._topic(topic, begin, remaining)
            topics.append(entry)
            remaining -= len(entry["partitions"])
            reached = begin + len(entry["partitions"])
            if reached < topic.partitions:
                following = {"topic_name": name, "partition_index": reached}
                break
        return {"throttle_time_ms": 0, "topics": topics, "next_cursor": following}

    @staticmethod
    def _failed(name: str, code: int) -> Body:
        return {
            "error_code": code,
            "name": name,
            "topic_id": NO_ID,
            "is_internal": False,
            "partitions": [],
        }

    def _topic(self, topic: Topic, first: int, limit: int) -> Body:
        partitions: list[Body] = []
        for number, partition in _partitions(self._image, topic, first):
            if len(partitions) == limit:
                break
            partitions.append(self._partition(number, partition))
        return {
            "error_code": NONE,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name in INTERNAL,
            "partitions": partitions,
            "topic_authorized_operations": TOPIC_OPERATIONS,
        }

    def _partition(self, number: int, partition: Partition) -> Body:
        error, leader = _leader(partition, self._image.brokers)
        return {
            "error_code": error,
            "partition_index": number,
            "leader_id": leader,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": list(partition.replicas),
            "isr_nodes": list(partition.isr),
            "eligible_leader_replicas": list(partition.elr),
            "last_known_elr": list(partition.last_known_elr),
            "offline_replicas": offline_replicas(partition, self._alive),
        }
