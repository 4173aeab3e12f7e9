"""The partition changes of one operation, each computed on the result of those before it.

Two changes made on the same base contradict each other (KAFKA-13173).
"""

from __future__ import annotations

from dataclasses import dataclass

from kraftwreck.nodes.metadata.change_builder import PartitionChangeBuilder, Rules
from kraftwreck.nodes.metadata.eligibility import (
    commits_by_quorum,
    default_directory,
    elr_enabled,
    has_online_directory,
    is_active,
    metadata_version,
    min_insync_replicas,
    unclean_election_enabled,
)
from kraftwreck.nodes.metadata.image_records import merged
from kraftwreck.nodes.metadata.image_values import Partition, PartitionKey
from kraftwreck.nodes.metadata.operation import Context, Record

NOBODY = -1


@dataclass(slots=True, frozen=True)
class _TopicRules:
    min_insync: int
    unclean: bool
    quorum: bool


class Changes:
    """The partition changes of one operation, in order.

    ``leaving`` is a broker about to stop being active, ``joining`` one about to become active; both
    count as if that had happened, whatever the image contains.
    """

    def __init__(self, context: Context, *, leaving: int = NOBODY, joining: int = NOBODY) -> None:
        self._context = context
        self._leaving = leaving
        self._joining = joining
        self._topics: dict[str, _TopicRules] = {}
        self._changed: dict[PartitionKey, Partition] = {}
        self._metadata_version = metadata_version(context.image)
        self._elr = elr_enabled(context.image)
        self.records: list[Record] = []

    def partition(self, key: PartitionKey) -> Partition | None:
        """Return a partition after the changes so far."""
        if key in self._changed:
            return self._changed[key]
        found: Partition | None = self._context.image.partitions.get(key)
        return found

    def _topic_rules(self, topic_id: bytes) -> _TopicRules:
        name = self._context.image.names[topic_id]
        rules = self._topics.get(name)
        if rules is None:
            rules = _TopicRules(
                min_insync_replicas(self._context, name),
                unclean_election_enabled(self._context, name),
                commits_by_quorum(self._context, name),
            )
            self._topics[name] = rules
        return rules

    def unclean_allowed(self, key: PartitionKey) -> bool:
        """Return whether this partition may lose records rather than have no leader."""
        return self._topic_rules(key[0]).unclean

    def builder(self, key: PartitionKey) -> PartitionChangeBuilder:
        """Return a builder of the next change of an existing partition."""
        partition = self.partition(key)
        assert partition is not None
        directories = dict(zip(partition.replicas, partition.directories, strict=False))

        def acceptable(broker: int) -> bool:
            if broker == self._leaving:
                return False
            if broker != self._joining and not is_active(self._context, broker):
                return False
            directory = directories.get(broker)
            return directory is None or has_online_directory(self._context, broker, directory)

        topic = self._topic_rules(key[0])
        rules = Rules(
            metadata_version=self._metadata_version,
            elr=self._elr,
            min_insync=topic.min_insync,
            quorum=topic.quorum,
            acceptable=acceptable,
            default_directory=lambda broker: default_directory(self._context, broker),
        )
        return PartitionChangeBuilder(*key, partition, rules)

    def add(self, key: PartitionKey, record: Record | None) -> Partition:
        """Add a builder's record; return the resulting partition."""
        partition = self.partition(key)
        assert partition is not None
        if record is not None:
            partition = merged(partition, record[2])
            self._changed[key] = partition
            self.records.append(record)
        return partition
