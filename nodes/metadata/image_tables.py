"""The maps of a metadata image: every kind of metadata by its key, and partitions by broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.metadata.image_values import (
    NEXT_PRODUCER_ID,
    NO_LEADER,
    Broker,
    ControllerRegistration,
    Entity,
    Partition,
    PartitionKey,
    Topic,
)
from kraftwreck.nodes.metadata.partition_index import PartitionIndex, is_imbalanced, members
from kraftwreck.nodes.metadata.timeline import Timeline, TimelineMap


class ImageTables:
    """The content of a metadata image, by kind; reading it reads the head.

    ``indexed=False`` leaves out the index of partitions by broker, which only a controller needs.
    """

    def __init__(self, indexed: bool = True) -> None:
        timeline = self.timeline = Timeline()
        self.index = PartitionIndex() if indexed else None
        watch = None if self.index is None else self.index.changed
        self.topics: TimelineMap[str, Topic] = TimelineMap(timeline)
        self.names: TimelineMap[bytes, str] = TimelineMap(timeline)
        self.partitions: TimelineMap[PartitionKey, Partition] = TimelineMap(timeline, watch)
        self.configs: TimelineMap[tuple[int, str], Mapping[str, str]] = TimelineMap(timeline)
        self.features: TimelineMap[str, int] = TimelineMap(timeline)
        self.brokers: TimelineMap[int, Broker] = TimelineMap(timeline)
        self.controllers: TimelineMap[int, ControllerRegistration] = TimelineMap(timeline)
        self.quotas: TimelineMap[tuple[Entity, str], float] = TimelineMap(timeline)
        self.acls: TimelineMap[bytes, tuple[Any, ...]] = TimelineMap(timeline)
        self.scram: TimelineMap[tuple[str, int], tuple[Any, ...]] = TimelineMap(timeline)
        self.tokens: TimelineMap[str, tuple[Any, ...]] = TimelineMap(timeline)
        self.numbers: TimelineMap[str, int] = TimelineMap(timeline)
        self.maps: dict[str, TimelineMap[Any, Any]] = {
            "topics": self.topics,
            "names": self.names,
            "partitions": self.partitions,
            "configs": self.configs,
            "features": self.features,
            "brokers": self.brokers,
            "controllers": self.controllers,
            "quotas": self.quotas,
            "acls": self.acls,
            "scram": self.scram,
            "tokens": self.tokens,
            "numbers": self.numbers,
        }

    @property
    def next_producer_id(self) -> int:
        """The first producer id that was not allocated yet."""
        return self.numbers.get(NEXT_PRODUCER_ID, 0)

    def topic(self, topic_id: bytes) -> Topic:
        """Return the topic with this id; raises :class:`FatalError` if there is none."""
        name = self.names.get(topic_id)
        if name is None:
            raise FatalError(f"metadata record names unknown topic id {topic_id.hex()}")
        return self.topics[name]

    def partition_ids(self, topic: Topic) -> range:
        """Return the ids of the topic's partitions, all of which exist.

        Raises :class:`FatalError` if the records have left a gap.
        """
        ids = range(topic.partitions)
        for number in ids:
            if (topic.topic_id, number) not in self.partitions:
                raise FatalError(f"partition {topic.name}-{number} is missing")
        return ids

    def partitions_of(self, broker_id: int) -> Collection[PartitionKey]:
        """Return the head's partitions with the broker in ISR or ELR, or as their leader."""
        if self.index is not None:
            return self.index.members_of(broker_id)
        return [key for key, p in self.partitions.items() if broker_id in members(p)]

    def led_by(self, broker_id: int) -> Collection[PartitionKey]:
        """Return the head's partitions the broker leads."""
        if self.index is not None:
            return self.index.led_by(broker_id)
        return [key for key, p in self.partitions.items() if p.leader == broker_id]

    def leaderless(self) -> Collection[PartitionKey]:
        """Return the head's partitions without a leader."""
        return self.led_by(NO_LEADER)

    def with_elr(self) -> Collection[PartitionKey]:
        """Return the head's partitions with eligible or last known eligible leaders."""
        if self.index is not None:
            return self.index.with_elr()
        return [key for key, p in self.partitions.items() if p.elr or p.last_known_elr]

    def imbalanced(self) -> Collection[PartitionKey]:
        """Return the head's partitions which their first replica does not lead."""
        if self.index is not None:
            return self.index.imbalanced()
        return [key for key, p in self.partitions.items() if is_imbalanced(p)]
