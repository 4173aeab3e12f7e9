"""The changes of the metadata that concern the data plane of one broker."""

from __future__ import annotations

from collections.abc import Mapping

from kraftwreck.nodes.metadata.change_builder import RECOVERING
from kraftwreck.nodes.metadata.config_keys import TOPIC_KEYS
from kraftwreck.nodes.metadata.eligibility import MIN_INSYNC_REPLICAS, quorum_commits
from kraftwreck.nodes.metadata.image_values import (
    BROKER,
    TOPIC,
    ImageView,
    Partition,
    PartitionKey,
)
from kraftwreck.nodes.replication.events import Assignment, Peer, Published, Settings


class ImageChanges:
    """The part of the image that the data plane of broker ``node_id`` has.

    ``min_insync`` is the node's default of ``min.insync.replicas``, for topics of a cluster that
    has none. Invariant: after :meth:`since_last`, the deltas returned so far, applied in order, are
    the partitions of this broker in the image, with their settings, and all registered brokers.
    """

    def __init__(self, node_id: int, min_insync: int) -> None:
        self._node_id = node_id
        self._min_insync = min_insync
        self._partitions: dict[PartitionKey, Partition] = {}
        self._settings: dict[bytes, Settings] = {}
        self._peers: dict[int, Peer] = {}

    def since_last(self, image: ImageView) -> Published | None:
        """Return the differences from the image of the last call, None if there are none."""
        mine = {
            key: partition
            for key, partition in image.partitions.items()
            if self._node_id in partition.replicas
        }
        known = self._partitions
        deleted = tuple(sorted(key for key in known if key not in mine))
        assigned = {
            key: _assignment(mine[key]) for key in sorted(mine) if known.get(key) != mine[key]
        }
        settings = self._new_settings(image, mine)
        peers = {
            broker_id: Peer(each.epoch, not (each.fenced or each.in_controlled_shutdown))
            for broker_id, each in sorted(image.brokers.items())
        }
        changed = peers if peers != self._peers else None
        self._partitions, self._peers = mine, peers
        if not (deleted or assigned or settings) and changed is None:
            return None
        return Published(deleted, assigned, settings, changed)

    def _new_settings(
        self, image: ImageView, mine: Mapping[PartitionKey, Partition]
    ) -> dict[PartitionKey, Settings]:
        """Return the settings of partitions whose topic changed, or that are new here."""
        # The broker's own configs precede those of the whole cluster.
        cluster = image.configs.get((BROKER, ""), {})
        brokers = {**cluster, **image.configs.get((BROKER, str(self._node_id)), {})}
        now: dict[bytes, Settings] = {}
        # Most topics have no configs, or those of others.
        resolved: dict[tuple[tuple[str, str], ...], Settings] = {}
        found = {}
        for key in sorted(mine):
            topic_id = key[0]
            if topic_id not in now:
                own = image.configs.get((TOPIC, image.names[topic_id]), {})
                configs = tuple(own.items())
                if configs not in resolved:
                    resolved[configs] = self._of_topic(own, brokers)
                now[topic_id] = resolved[configs]
            if key not in self._partitions or self._settings.get(topic_id) != now[topic_id]:
                found[key] = now[topic_id]
        self._settings = now
        return found

    def _of_topic(self, own: Mapping[str, str], brokers: Mapping[str, str]) -> Settings:
        """Resolve the settings of a topic: its own, those of brokers, the defaults."""

        def given(name: str) -> int | None:
            value = own.get(name)
            if value is None:
                value = brokers.get(TOPIC_KEYS[name].synonym or name)
            return None if value is None else int(value)

        def number(name: str, default: int | None = None) -> int:
            value = given(name)
            if value is None:
                value = default
            return int(TOPIC_KEYS[name].default or -1) if value is None else value

        return Settings(
            min_insync=number(MIN_INSYNC_REPLICAS, self._min_insync),
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            max_batch_bytes=number("max.message.bytes"),
            segment_bytes=given("segment.bytes"),
            segment_ms=given("segment.ms"),
            index_interval_bytes=given("index.interval.bytes"),
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            quorum=quorum_commits(own),
        )


def _assignment(partition: Partition) -> Assignment:
    return Assignment(
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.recovery_state == RECOVERING,
        partition.adding,
    )
