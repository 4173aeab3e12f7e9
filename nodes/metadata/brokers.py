"""Registered brokers: checks of broker epochs, and the records that fence and unfence.

The epoch of a broker is the offset at which the batch of its registration begins, so epochs of one
id only grow. Requests on behalf of a broker must carry its current epoch; those of a replaced
process do not (C2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.nodes.metadata.eligibility import DIRECTORIES, metadata_version
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_values import Broker
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record
from kraftwreck.nodes.metadata.partition_change import (
    changes_for_fenced,
    changes_for_shutdown,
    changes_for_unfenced,
    changes_for_unregistered,
)
from kraftwreck.nodes.protocol.errors import BROKER_ID_NOT_REGISTERED, NONE, STALE_BROKER_EPOCH

# BrokerRegistrationChangeRecord.fenced and .in_controlled_shutdown
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


def checked_broker(context: Context, broker_id: int, epoch: int) -> Broker:
    """Return the broker that sent a request; raises ApiError unless its epoch is current."""
    broker = context.image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    if broker.epoch != epoch:
        raise ApiError(
            STALE_BROKER_EPOCH,
            f"Expected epoch {broker.epoch} of broker {broker_id}, but got {epoch}.",
        )
    return broker


def change_record(
    context: Context,
    broker: Broker,
    *,
    fenced: int = 0,
    stopping: int = 0,
    log_dirs: Sequence[bytes] = (),
) -> Record:
    """Return the record that changes a registration; omitted fields stay as they are."""
    fields: Body = {
        "broker_id": broker.broker_id,
        "broker_epoch": broker.epoch,
        "fenced": fenced,
        "in_controlled_shutdown": stopping,
        "log_dirs": list(log_dirs),
        "cordoned_log_dirs": None,
    }
    version = 2 if metadata_version(context.image) >= DIRECTORIES else 1
    return ("BrokerRegistrationChangeRecord", version, fields)


def fence(context: Context, broker: Broker) -> list[Record]:
    """Return the records that fence a broker, its partitions first; none if it is fenced."""
    if broker.fenced:
        return []
    return [
        *changes_for_fenced(context, broker.broker_id),
        change_record(context, broker, fenced=FENCE),
    ]


def unfence(context: Context, broker: Broker) -> list[Record]:
    """Return the records that unfence a broker, which may then lead leaderless partitions.

    A broker that was fenced during its controlled shutdown may not: a late heartbeat, sent before
    the shutdown began, does not undo the shutdown (C4).
    """
    records = [change_record(context, broker, fenced=UNFENCE)]
    if not broker.in_controlled_shutdown:
        records += changes_for_unfenced(context, broker.broker_id)
    return records


def begin_shutdown(context: Context, broker: Broker) -> list[Record]:
    """Return the records that begin a controlled shutdown: no leadership, no ISR membership."""
    return [
        change_record(context, broker, stopping=IN_CONTROLLED_SHUTDOWN),
        *changes_for_shutdown(context, broker.broker_id),
    ]


def fence_stalest(context: Context) -> list[Record]:
    """Return the records that fence the broker whose session ended first; none if none has.

    One at a time: the next one must be computed from the resulting state (KAFKA-13173).
    """
    brokers = context.image.brokers
    stale = context.sessions.stalest(brokers.values(), context.now)
    return [] if stale is None else fence(context, brokers[stale])


def unregister_broker(context: Context, version: int, body: Body) -> Outcome:
    """UnregisterBroker (64): remove a broker, also from all ISRs and eligible replicas."""
    broker_id = body["broker_id"]
    broker = context.image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    fields = {"broker_id": broker_id, "broker_epoch": broker.epoch}
    return Outcome(
        [
            *changes_for_unregistered(context, broker_id),
            ("UnregisterBrokerRecord", 0, fields),
        ],
        {"throttle_time_ms": 0, "error_code": NONE, "error_message": None},
        atomic=False,
        appended=lambda _: context.sessions.forget(broker_id),
    )
