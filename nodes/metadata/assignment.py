"""The replicas of a new partition, and its record."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.nodes.metadata.change_builder import RECOVERED, record_version
from kraftwreck.nodes.metadata.eligibility import (
    default_directory,
    elr_enabled,
    is_active,
    is_registered,
    metadata_version,
)
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.operation import Context, Record
from kraftwreck.nodes.protocol.errors import INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR


def check_assignment(context: Context, replicas: Sequence[int], factor: int | None = None) -> None:
    """Raise ApiError (INVALID_REPLICA_ASSIGNMENT) unless ``replicas`` can be a replica list.

    All must be registered, fenced or not, and there must be ``factor`` of them if it is given.
    """
    if not replicas:
        raise ApiError(
            INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        )
    for broker in sorted(replicas):
        if not is_registered(context, broker):
            raise ApiError(
                INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker}, "
                "but no such broker is registered.",
            )
        if replicas.count(broker) > 1:
            raise ApiError(
                INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker} more than once.",
            )
    if factor is not None and len(replicas) != factor:
        raise ApiError(
            INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(replicas)} "
            f"replica(s), but other partitions have {factor} replica(s).",
        )


def initial_isr(
    context: Context, number: int, replicas: Sequence[int], *, manual: bool
) -> list[int]:
    """Return the first ISR: the active replicas, in order (KAFKA-13083).

    Raises ApiError if there is none: INVALID_REPLICA_ASSIGNMENT for a ``manual`` assignment, else
    INVALID_REPLICATION_FACTOR.
    """
    isr = [replica for replica in replicas if is_active(context, replica)]
    if isr:
        return isr
    if manual:
        raise ApiError(
            INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} "
            "are fenced or in controlled shutdown.",
        )
    raise ApiError(
        INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {len(replicas)} time(s): "
        "All brokers are currently fenced or in controlled shutdown.",
    )


def partition_record(
    context: Context, topic_id: bytes, number: int, replicas: Sequence[int], isr: Sequence[int]
) -> Record:
    """Return the record of a new partition, led by the first of its ISR."""
    version = record_version(metadata_version(context.image), elr_enabled(context.image))
    fields = {
        "partition_id": number,
        "topic_id": topic_id,
        "replicas": list(replicas),
        "isr": list(isr),
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": isr[0],
        "leader_recovery_state": RECOVERED,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [default_directory(context, r) for r in replicas] if version else [],
        "eligible_leader_replicas": None,
        "last_known_elr": None,
    }
    return "PartitionRecord", version, fields
