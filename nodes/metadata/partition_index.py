"""The partitions of each broker, updated with every change."""

from __future__ import annotations

from collections.abc import KeysView

from kraftwreck.nodes.metadata.image_values import NO_LEADER, Partition, PartitionKey
from kraftwreck.nodes.metadata.timeline import Absent

_Keys = dict[PartitionKey, None]


def members(partition: Partition) -> tuple[int, ...]:
    """Return the brokers in the partition's ISR or ELR, and its leader; each once."""
    leader = partition.leader
    if not partition.elr and (leader == NO_LEADER or leader in partition.isr):
        return partition.isr
    found = dict.fromkeys((*partition.isr, *partition.elr, leader))
    found.pop(NO_LEADER, None)
    return tuple(found)


def is_imbalanced(partition: Partition) -> bool:
    """Return whether the partition's first replica is not its leader."""
    return partition.leader not in partition.replicas[:1]


class PartitionIndex:
    """Partitions by broker; compare Kafka's ``BrokersToIsrs``.

    The returned views are ordered by time of insertion. Do not change the image while iterating.
    """

    __slots__ = ("_imbalanced", "_leaders", "_members", "_with_elr")

    def __init__(self) -> None:
        self._members: dict[int, _Keys] = {}
        self._leaders: dict[int, _Keys] = {}
        self._with_elr: _Keys = {}
        self._imbalanced: _Keys = {}

    def members_of(self, broker_id: int) -> KeysView[PartitionKey]:
        """Return the partitions which have the broker in ISR or ELR, or as their leader."""
        return self._members.get(broker_id, {}).keys()

    def led_by(self, broker_id: int) -> KeysView[PartitionKey]:
        """Return the partitions this broker leads; -1: those without a leader."""
        return self._leaders.get(broker_id, {}).keys()

    def with_elr(self) -> KeysView[PartitionKey]:
        """Return the partitions with eligible or last known eligible leaders."""
        return self._with_elr.keys()

    def imbalanced(self) -> KeysView[PartitionKey]:
        """Return the partitions led by another than their preferred (first) replica, or none."""
        return self._imbalanced.keys()

    def changed(self, key: PartitionKey, old: Partition | Absent, new: Partition | Absent) -> None:
        """Apply one change of the partition ``key``."""
        if isinstance(old, Partition):
            if (
                isinstance(new, Partition)
                and old.isr == new.isr
                and old.leader == new.leader
                and old.elr == new.elr
                and old.last_known_elr == new.last_known_elr
                and old.replicas == new.replicas
            ):
                return
            for broker in members(old):
                _remove(self._members, broker, key)
            _remove(self._leaders, old.leader, key)
            self._with_elr.pop(key, None)
            self._imbalanced.pop(key, None)
        if isinstance(new, Partition):
            for broker in members(new):
                _add(self._members, broker, key)
            _add(self._leaders, new.leader, key)
            if new.elr or new.last_known_elr:
                self._with_elr[key] = None
            if is_imbalanced(new):
                self._imbalanced[key] = None

    def take(self, other: PartitionIndex) -> list[_Keys]:
        """Replace the content by ``other``'s; return the old, to be freed piece by piece."""
        old = [*self._members.values(), *self._leaders.values(), self._with_elr, self._imbalanced]
        self._members, self._leaders = other._members, other._leaders
        self._with_elr, self._imbalanced = other._with_elr, other._imbalanced
        return old


def _add(index: dict[int, _Keys], broker: int, key: PartitionKey) -> None:
    keys = index.get(broker)
    if keys is None:
        keys = index[broker] = {}
    keys[key] = None


def _remove(index: dict[int, _Keys], broker: int, key: PartitionKey) -> None:
    keys = index[broker]
    del keys[key]
    if not keys:
        del index[broker]
