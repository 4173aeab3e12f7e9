"""BrokerRegistration (62): a process registers under a broker id, with a new epoch (KIP-631)."""

from __future__ import annotations

from kraftwreck.nodes.metadata.eligibility import (
    DIRECTORIES,
    METADATA_VERSION,
    elr_enabled,
    metadata_version,
)
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.features import MIGRATING_FLAG, unsupported_finalized
from kraftwreck.nodes.metadata.image_values import Broker
from kraftwreck.nodes.metadata.operation import (
    MAX_RECORDS_PER_BATCH,
    RESERVED_IDS,
    Body,
    Context,
    Outcome,
    Record,
)
from kraftwreck.nodes.metadata.partition_change import changes_for_shutdown, changes_for_unclean
from kraftwreck.nodes.protocol.errors import (
    BROKER_ID_NOT_REGISTERED,
    DUPLICATE_BROKER_REGISTRATION,
    INCONSISTENT_CLUSTER_ID,
    INVALID_REGISTRATION,
    NONE,
    UNSUPPORTED_VERSION,
)


def _check_identity(context: Context, body: Body, existing: Broker | None) -> None:
    if body["cluster_id"] != context.cluster_id:
        raise ApiError(
            INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {context.cluster_id}, but got cluster ID {body['cluster_id']}.",
        )
    if existing is None or existing.incarnation == bytes(body["incarnation_id"]):
        return
    if context.sessions.is_valid(existing.broker_id, existing.epoch, context.now):
        raise ApiError(
            DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with id {existing.broker_id} and its session is valid.",
        )


def _check_directories(context: Context, broker_id: int, directories: list[bytes]) -> None:
    if metadata_version(context.image) < DIRECTORIES:
        return
    if not directories:
        raise ApiError(INVALID_REGISTRATION, "No directories specified in request.")
    if any(int.from_bytes(directory, "big") < RESERVED_IDS for directory in directories):
        raise ApiError(INVALID_REGISTRATION, "Reserved directory ID in request.")
    if len(set(directories)) != len(directories):
        raise ApiError(INVALID_REGISTRATION, "Duplicate directory ID in request.")
    wanted = set(directories)
    for other_id, other in context.image.brokers.items():
        if other_id != broker_id and not wanted.isdisjoint(other.log_dirs):
            raise ApiError(
                INVALID_REGISTRATION, f"Broker {other_id} has a directory of this broker already."
            )


def _check_features(context: Context, ranges: list[tuple[str, int, int]]) -> None:
    if not any(name == METADATA_VERSION for name, _, _ in ranges):
        raise ApiError(
            INVALID_REGISTRATION, f"The broker does not say which {METADATA_VERSION} it supports."
        )
    unsupported = unsupported_finalized(context.image, ranges)
    if unsupported is not None:
        name, level = unsupported
        raise ApiError(
            UNSUPPORTED_VERSION, f"The broker does not support {name} {level}, which is finalized."
        )


def _record_version(level: int) -> int:
    if level >= DIRECTORIES:
        return 3
    return 2 if level >= MIGRATING_FLAG else 1


def _clean_up(
    context: Context, broker_id: int, existing: Broker | None, previous_epoch: int
) -> list[Record]:
    """Return the records that remove the previous process from its partitions.

    A broker that did not stop cleanly may have lost the end of its logs, so it is no eligible
    leader. Nor is one whose registration was removed: it may still be the last member of an ISR
    from before eligible leader replicas were switched on.
    """
    cleanly = existing is not None and previous_epoch == existing.epoch
    unclean = not cleanly and elr_enabled(context.image)
    changes = changes_for_unclean if unclean else changes_for_shutdown
    return changes(context, broker_id)


def broker_registration(context: Context, version: int, body: Body) -> Outcome:
    """Register a broker, fenced; the same process again changes its endpoints only.

    The epoch of a new one is the offset at which the batch that holds its record begins.
    """
    broker_id = body["broker_id"]
    existing = context.image.brokers.get(broker_id)
    _check_identity(context, body, existing)
    if body["is_migrating_zk_broker"]:
        raise ApiError(
            BROKER_ID_NOT_REGISTERED, "This controller does not register migrating ZK brokers."
        )
    directories = [bytes(directory) for directory in body["log_dirs"]]
    _check_directories(context, broker_id, directories)
    ranges = [
        (f["name"], f["min_supported_version"], f["max_supported_version"])
        for f in body["features"]
    ]
    _check_features(context, ranges)
    record_version = _record_version(metadata_version(context.image))
    fields: Body = {
        "broker_id": broker_id,
        "is_migrating_zk_broker": False,
        "incarnation_id": bytes(body["incarnation_id"]),
        "end_points": [dict(listener) for listener in body["listeners"]],
        "features": [dict(feature) for feature in body["features"]],
        "rack": body["rack"],
        "log_dirs": directories if record_version >= 3 else [],
        "cordoned_log_dirs": None,
    }
    records: list[Record] = []
    if existing is not None and existing.incarnation == fields["incarnation_id"]:
        epoch = existing.epoch
        fields |= {
            "fenced": existing.fenced,
            "in_controlled_shutdown": existing.in_controlled_shutdown,
        }
    else:
        records = _clean_up(context, broker_id, existing, body["previous_broker_epoch"])
        # The records of a long clean-up go into batches before that of the registration.
        epoch = context.offset + len(records) // MAX_RECORDS_PER_BATCH * MAX_RECORDS_PER_BATCH
        fields |= {"fenced": True, "in_controlled_shutdown": False}
    fields["broker_epoch"] = epoch

    def appended(last_offset: int) -> None:
        context.sessions.register(broker_id, epoch, context.now, last_offset)

    return Outcome(
        [*records, ("RegisterBrokerRecord", record_version, fields)],
        {"throttle_time_ms": 0, "error_code": NONE, "broker_epoch": epoch},
        atomic=False,
        appended=appended,
    )
