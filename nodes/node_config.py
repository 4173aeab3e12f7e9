"""Settings of one node: those of its quorum membership and those of its roles."""

from __future__ import annotations

from dataclasses import dataclass

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.metadata.loader import WORK_RECORDS


@dataclass(slots=True, frozen=True)
class NodeConfig(QuorumConfig):
    """All settings of a node: its quorum's and its roles' (names as in Kafka).

    A node has the ``controller`` role, the ``broker`` role, or both (``process.roles``).
    ``snapshot_bytes`` is ``metadata.log.max.record.bytes.between.snapshots``,
    ``snapshot_interval_ms`` is ``metadata.log.max.snapshot.interval.ms``.
    ``snapshot_piece_records`` is the maximum of records per piece of a snapshot, ``work_records``
    about that of records applied to the image in one step.
    ``session_timeout_ms`` and ``heartbeat_interval_ms`` are the brokers'. ``broker_listener`` is
    the broker's listener for clients. ``broker_incarnation`` (16 bytes) identifies its process.
    ``previous_broker_epoch`` is that of the process before, -1 if it did not stop cleanly.
    With ``data_plane`` a broker has replicas of its partitions. ``replica_lag_time_max_ms`` is how
    long one may lag before it leaves the ISR, ``retention_check_interval_ms`` the time between two
    looks for records that are too old or too many. With ``auto_create_topics`` a broker has
    topics created that clients ask for. A controller gives brokers ``producer_id_block`` producer
    ids at a time.
    """

    controller: bool = True
    broker: bool = False
    max_idle_ms: int = 500
    default_partitions: int = 1
    default_replication: int = 1
    min_insync_replicas: int = 1
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    snapshot_piece_records: int = 500
    work_records: int = WORK_RECORDS
    session_timeout_ms: int = 9000
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_interval_ms: int = 300_000
    heartbeat_interval_ms: int = 2000
    registration_timeout_ms: int = 60_000
    broker_listener: Endpoint | None = None
    broker_incarnation: bytes = bytes(16)
    previous_broker_epoch: int = -1
    rack: str | None = None
    data_plane: bool = False
    replica_lag_time_max_ms: int = 30_000
    retention_check_interval_ms: int = 300_000
    auto_create_topics: bool = False
    producer_id_block: int = 1000
