"""Plan which replicas move so that a cluster is balanced again.

A cluster is **balanced** if

* every partition is on brokers of the cluster only, and covers ``min(replicas, racks)`` racks;
* the numbers of replicas per broker are as even as that allows: the sum of their squares is
  smallest. Without racks they differ by at most one;
* the numbers of preferred leaders per broker are as even as the replicas allow.

A plan moves **least** if no other plan that ends balanced copies fewer bytes, and of those with
equal bytes none copies fewer replicas. Where sizes are unknown all are 0, so the number of copied
replicas counts. Of the leaders a plan changes as few as it can; that copies nothing.

:mod:`nodes.admin.spread` finds both, for replicas and then for leaders, with a proof.

A plan that is interrupted and made again does not copy more in total. Let a plan of cost c be
carried out for some partitions, at cost d. The rest of it is a plan for what there is now, and
costs c - d; the new plan costs at most that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kraftwreck.nodes.admin.spread import Item, spread


class PlanError(Exception):
    """No plan is possible; the text gives the reason in one line."""


@dataclass(slots=True, frozen=True)
class Replicas:
    """A partition with its replicas, preferred leader first, and the bytes of one copy."""

    topic: str
    partition: int
    brokers: tuple[int, ...]
    size: int = 0

    @property
    def name(self) -> str:
        """The partition's name in messages."""
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True, frozen=True)
class Move:
    """New replicas of a partition, preferred leader first."""

    old: Replicas
    brokers: tuple[int, ...]

    @property
    def copied(self) -> int:
        """Number of brokers that get a copy."""
        return len(set(self.brokers) - set(self.old.brokers))


@dataclass(slots=True, frozen=True)
class Plan:
    """The partitions to change, and the loads of the brokers before and after."""

    moves: tuple[Move, ...]
    replicas_before: Mapping[int, int] = field(default_factory=dict)
    replicas_after: Mapping[int, int] = field(default_factory=dict)
    leaders_after: Mapping[int, int] = field(default_factory=dict)

    @property
    def copied(self) -> int:
        """Number of replicas that are copied."""
        return sum(move.copied for move in self.moves)

    @property
    def bytes(self) -> int:
        """Number of bytes that are copied, as far as sizes are known."""
        return sum(move.copied * move.old.size for move in self.moves)


def plan_balance(partitions: Sequence[Replicas], racks: Mapping[int, str | None]) -> Plan:
    """Plan a balanced cluster of the brokers in ``racks`` (id → rack) with the least data moved.

    Replicas on other brokers are moved away. Raises :class:`PlanError` if a partition has more
    replicas than there are brokers.
    """
    brokers = tuple(sorted(racks))
    for partition in partitions:
        if len(partition.brokers) > len(brokers):
            raise PlanError(
                f"{partition.name} has {len(partition.brokers)} replicas, but only "
                f"{len(brokers)} broker(s) would be left"
            )
    # One byte outweighs the numbers of all replicas together.
    unit = 1 + sum(len(partition.brokers) for partition in partitions)
    items = [
        Item(p.brokers, brokers, len(p.brokers), 1 + max(p.size, 0) * unit) for p in partitions
    ]
    placed = spread(items, brokers, racks)
    ordered = _with_leaders(partitions, placed, brokers)
    moves = tuple(
        Move(old, new) for old, new in zip(partitions, ordered, strict=True) if new != old.brokers
    )
    return Plan(
        moves,
        _count(brokers, [p.brokers for p in partitions]),
        _count(brokers, ordered),
        _count(brokers, [new[:1] for new in ordered]),
    )


def _with_leaders(
    partitions: Sequence[Replicas], placed: Sequence[tuple[int, ...]], brokers: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition with its preferred leader moved to the front."""
    items = [
        Item(old.brokers[:1], tuple(sorted(new)), 1)
        for old, new in zip(partitions, placed, strict=True)
    ]
    leaders = spread(items, brokers, {})
    return [
        (leader, *(broker for broker in new if broker != leader))
        for (leader,), new in zip(leaders, placed, strict=True)
    ]


def _count(brokers: Collection[int], replicas: Sequence[Sequence[int]]) -> dict[int, int]:
    counted = Counter(broker for each in replicas for broker in each)
    return {broker: counted[broker] for broker in sorted({*brokers, *counted})}
