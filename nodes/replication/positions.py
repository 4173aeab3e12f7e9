"""The five offsets that describe a replica's log, for the trace: which of them have changed.

Records move them thousands of times a second, so the trace has samples. All replicas of a broker
are compared at most once in a period, with the first event of the data plane after it. A log that
was opened or truncated is traced in that step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition

PERIOD_US: Final = 500_000
"""The least time between two samples of a broker."""
PER_REPLICA_US: Final = 2_000
"""The least period for each replica of a broker: the trace gets at most 500 rows a second."""


class Positions(NamedTuple):
    """The offsets of one replica's log: ``start`` <= ``hw`` <= ``end``, ``flushed`` <= ``end``.

    ``checkpoint`` is the high watermark that the checkpoint file had at the start, or that the
    shell was last asked to write. All below ``flushed`` is on the disk.
    """

    start: int
    checkpoint: int
    flushed: int
    hw: int
    end: int


Moved = list[tuple[PartitionKey, Positions]]


class Samples:
    """The positions that the trace has of each replica. A sample of all is due at ``due`` (µs)."""

    def __init__(self, now: int) -> None:
        self.due = now + PERIOD_US
        self._traced: dict[PartitionKey, Positions] = {}

    def all(self, partitions: Mapping[PartitionKey, Partition], now: int) -> Moved:
        """Return the replicas whose positions differ from those traced last."""
        self.due = now + max(PERIOD_US, len(partitions) * PER_REPLICA_US)
        known, self._traced = self._traced, {}
        moved = []
        for key, partition in partitions.items():
            found = _positions(partition)
            if found is not None:
                self._traced[key] = found
                if known.get(key) != found:
                    moved.append((key, found))
        return moved

    def some(
        self, partitions: Mapping[PartitionKey, Partition], keys: Iterable[PartitionKey]
    ) -> Moved:
        """Return the positions of the replicas of ``keys``, unless the trace has them."""
        moved = []
        for key in keys:
            partition = partitions.get(key)
            found = None if partition is None else _positions(partition)
            if found is not None and self._traced.get(key) != found:
                self._traced[key] = found
                moved.append((key, found))
        return moved


def _positions(partition: Partition) -> Positions | None:
    log = partition.log
    if log is None:
        return None
    return Positions(
        log.start, partition.checkpointed, partition.durability.end, partition.hw, log.end
    )
