"""The APIs that a broker serves to clients. It has no data plane and advertises none."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED

LOCAL: Final = (
    "ApiVersions",
    "Metadata",
    "DescribeCluster",
    "DescribeTopicPartitions",
    "DescribeConfigs",
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

SERVED: Final[tuple[tuple[int, int, int], ...]] = tuple(
    sorted((API_KEYS[api], *SUPPORTED[api]) for api in CLIENT_APIS)
)
"""The content of ApiVersions responses: (api key, minimum, maximum version)."""
