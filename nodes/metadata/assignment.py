"""The replicas of new partitions, and their records."""

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
from kraftwreck.nodes.metadata.operation import NO_ID, Body, Context, Record
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


class NewPartitions:
    """Makes the records of new partitions in one context; each is led by the first of its ISR.

    Replica lists repeat, and all but the topic and the number follows from them.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._version = record_version(metadata_version(context.image), elr_enabled(context.image))
        self._shapes: dict[tuple[int, ...], Body] = {}

    def shape(self, number: int, replicas: Sequence[int], *, manual: bool) -> Body:
        """Return the fields that all partitions with these replicas share.

        Raises ApiError if none of them is active, see :func:`initial_isr`.
        """
        key = tuple(replicas)
        found = self._shapes.get(key)
        if found is None:
            context = self._context
            isr = initial_isr(context, number, replicas, manual=manual)
            directories = [default_directory(context, each) for each in replicas]
            found = self._shapes[key] = {
                "partition_id": number,
                "topic_id": NO_ID,
                "replicas": list(replicas),
                "isr": isr,
                "removing_replicas": [],
                "adding_replicas": [],
                "leader": isr[0],
                "leader_recovery_state": RECOVERED,
                "leader_epoch": 0,
                "partition_epoch": 0,
                "directories": directories if self._version else [],
                "eligible_leader_replicas": None,
                "last_known_elr": None,
            }
        return found

    def record(self, topic_id: bytes, number: int, shape: Body) -> Record:
        """Return the record of a partition of this :meth:`shape`."""
        fields = shape.copy()
        fields["partition_id"] = number
        fields["topic_id"] = topic_id
        return "PartitionRecord", self._version, fields
