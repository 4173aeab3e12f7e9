"""The APIs that a broker serves to clients."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED

LOCAL: Final = (
    "ApiVersions",
    "Metadata",
    "DescribeCluster",
    "DescribeTopicPartitions",
    "DescribeConfigs",
    "ListConfigResources",
)
"""Answered from the broker's own image."""

READS: Final = ("DescribeQuorum", "ListPartitionReassignments")
"""Forwarded, and safe to send twice."""

WRITES: Final = (
    "CreateTopics",
    "DeleteTopics",
    "CreatePartitions",
    "AlterConfigs",
    "IncrementalAlterConfigs",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "UpdateFeatures",
    "UnregisterBroker",
    "AddRaftVoter",
    "RemoveRaftVoter",
)
"""Forwarded, and possibly carried out whatever the answer is."""

FORWARDED: Final = frozenset((*READS, *WRITES))
CLIENT_APIS: Final = (*LOCAL, *READS, *WRITES)

RECORDS: Final[dict[str, tuple[int, int]]] = {
    "Produce": (3, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "OffsetForLeaderEpoch": (2, 4),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "DescribeLogDirs": (1, 5),
    "AlterReplicaLogDirs": (1, 2),
}
"""First and last version of the APIs of a data plane."""

SERVED: Final[tuple[tuple[int, int, int], ...]] = tuple(
    sorted((API_KEYS[api], *SUPPORTED[api]) for api in CLIENT_APIS)
)
"""The content of ApiVersions responses: (api key, minimum, maximum version)."""

SERVED_WITH_RECORDS: Final[tuple[tuple[int, int, int], ...]] = tuple(
    sorted(
        (
            *SERVED,
            # Below version 3 there is nothing, but old clients switch compression off for a broker
            # that does not say 0.
            *((API_KEYS[api], 0 if api == "Produce" else low, high)
              for api, (low, high) in RECORDS.items()),
        )
    )
)  # fmt: skip
"""The same of a broker with a data plane."""
