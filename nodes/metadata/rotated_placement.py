"""The round-robin placement of Kafka's replication design, with its flaw mended.

Brokers are sorted and numbered from 0. Partition i has its first replica, the preferred leader, on
broker i mod n; it is the k-th partition of that broker, k = i div n. The design puts replica j on
broker (i + j + k) mod n, so that the partitions of a broker have their second replicas on different
brokers: a dead broker's load then spreads over all others.

The flaw: where j + k is a multiple of n, that is the first replica's broker, so a broker would have
the partition twice. Here the other replicas rotate over the n - 1 other brokers only: replica j is
on broker (i + 1 + (j - 1 + k) mod (n - 1)) mod n.

Compare :mod:`nodes.metadata.placement`, the striped placer of controllers, which also knows racks
and fenced brokers.
"""

from __future__ import annotations

from collections.abc import Sequence


def place_rotated(
    brokers: Sequence[int], partitions: int, replication_factor: int
) -> list[list[int]]:
    """Return the replicas of each partition, preferred leader first.

    Raises ValueError unless 1 <= ``replication_factor`` <= the number of brokers.
    """
    ordered = sorted(set(brokers))
    count = len(ordered)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"{replication_factor} replicas do not fit on {count} brokers")
    return [
        [ordered[place] for place in _places(number, replication_factor, count)]
        for number in range(partitions)
    ]


def _places(number: int, replication_factor: int, count: int) -> list[int]:
    first, turn = number % count, number // count
    others = (
        (first + 1 + (replica - 1 + turn) % (count - 1)) % count
        for replica in range(1, replication_factor)
    )
    return [first, *others]
