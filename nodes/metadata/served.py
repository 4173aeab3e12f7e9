"""The APIs that a controller serves, and the operations behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.metadata.alter_configs import alter_configs, incremental_alter_configs
from kraftwreck.nodes.metadata.alter_partition import alter_partition
from kraftwreck.nodes.metadata.brokers import unregister_broker
from kraftwreck.nodes.metadata.controllers import controller_registration, unregister_controller
from kraftwreck.nodes.metadata.create_partitions import create_partitions
from kraftwreck.nodes.metadata.elections import elect_leaders
from kraftwreck.nodes.metadata.features import update_features
from kraftwreck.nodes.metadata.heartbeat import broker_heartbeat
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome
from kraftwreck.nodes.metadata.producer_ids import allocate_producer_ids
from kraftwreck.nodes.metadata.reassign import alter_partition_reassignments
from kraftwreck.nodes.metadata.registration import broker_registration
from kraftwreck.nodes.metadata.topics import create_topics, delete_topics
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED

WRITES: Final[dict[str, Callable[[Context, int, Body], Outcome]]] = {
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": create_partitions,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "AlterPartition": alter_partition,
    "ElectLeaders": elect_leaders,
    "AlterPartitionReassignments": alter_partition_reassignments,
    "BrokerRegistration": broker_registration,
    "BrokerHeartbeat": broker_heartbeat,
    "UnregisterBroker": unregister_broker,
    "ControllerRegistration": controller_registration,
    "UnregisterController": unregister_controller,
    "AllocateProducerIds": allocate_producer_ids,
    "UpdateFeatures": update_features,
}
"""Only the active controller does these, by appending records."""

READS: Final = ("Metadata", "DescribeConfigs", "ListPartitionReassignments")
"""Answered from the committed layer, once leadership is proven."""

LOCAL: Final = ("ApiVersions", "DescribeCluster", "DescribeQuorum")
"""Every controller answers these at once."""

ENVELOPE: Final = "Envelope"
QUORUM_APIS: Final = (
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "Fetch",
    "FetchSnapshot",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
)
"""The quorum answers these on the same listener."""

CLIENT_APIS: Final = (*WRITES, *READS, *LOCAL, ENVELOPE)

SERVED: Final[tuple[tuple[int, int, int], ...]] = tuple(
    sorted((API_KEYS[api], *SUPPORTED[api]) for api in (*CLIENT_APIS, *QUORUM_APIS))
)
"""The content of ApiVersions responses: (api key, minimum, maximum version)."""
