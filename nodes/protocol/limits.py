"""Limits of a message of each API: bytes of the frame, and items of all arrays in it.

A listener checks API key and length before it reads the rest of a frame, and the decoder counts
items before it creates any. Handlers take some 10 to 30 µs an item, so these limits also bound the
processor time of one request (docs/decisions/0030-frames-that-kill.md). Apache Kafka has one limit
for all APIs, ``socket.request.max.bytes`` (100 MiB).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """``size`` in bytes without the length before the frame; ``items`` of arrays, and tags."""

    size: int
    items: int


SMALL: Final = Limit(64 << 10, 1_000)
"""Requests of the quorum, and those that brokers and controllers send for themselves."""
NAMES: Final = Limit(4 << 20, 10_000)
"""Lists of topics."""
PARTITIONS: Final = Limit(4 << 20, 50_000)
"""Lists of partitions with replicas: 10,000 partitions fit, as many as one batch may change."""
ANSWER: Final = Limit(64 << 20, 500_000)
"""Any response."""

_LARGE: Final[dict[str, Limit]] = {
    "Metadata": NAMES,
    "DescribeTopicPartitions": NAMES,
    "DeleteTopics": NAMES,
    "AlterConfigs": NAMES,
    "IncrementalAlterConfigs": NAMES,
    # Each resource may be answered with all of its some forty configurations.
    "DescribeConfigs": Limit(4 << 20, 2_000),
    "CreateTopics": PARTITIONS,
    "CreatePartitions": PARTITIONS,
    "ElectLeaders": PARTITIONS,
    "AlterPartition": PARTITIONS,
    "AlterPartitionReassignments": PARTITIONS,
    "ListPartitionReassignments": PARTITIONS,
    # Raft's leader pushes record batches and pieces of snapshots.
    "AppendEntries": Limit(4 << 20, SMALL.items),
    "InstallSnapshot": Limit(4 << 20, SMALL.items),
    # It contains a request of another API, which has a limit of its own.
    "Envelope": Limit(PARTITIONS.size + SMALL.size, SMALL.items),
}


_OF_RECORDS: Final[dict[str, Limit]] = {
    # ``socket.request.max.bytes``.
    "Produce": Limit(100 << 20, 50_000),
    "Fetch": PARTITIONS,
    "ListOffsets": PARTITIONS,
    "OffsetForLeaderEpoch": PARTITIONS,
    "DeleteRecords": PARTITIONS,
    "InitProducerId": SMALL,
    "DescribeLogDirs": PARTITIONS,
    "AlterReplicaLogDirs": PARTITIONS,
}
"""Requests for the records of partitions, on the listener of a broker."""

LARGEST: Final = max(limit.size for limit in (*_LARGE.values(), *_OF_RECORDS.values()))
"""Bytes of the largest request of any API."""


def limit_of(api: str, *, of_records: bool = False) -> Limit:
    """Return the limit of requests of ``api``: the quorum's, or those ``of_records`` of users."""
    return (_OF_RECORDS if of_records else _LARGE).get(api, SMALL)
