"""The first records of a controller that claims the role.

An empty log gets the bootstrap records, as one metadata transaction if the metadata version
supports transactions (KIP-868). A transaction that a predecessor left open is aborted, because
nothing can be committed after it before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.nodes.metadata.eligibility import ELR_VERSION, METADATA_VERSION, MIN_INSYNC_REPLICAS
from kraftwreck.nodes.metadata.features import (
    DEFAULT_METADATA_VERSION,
    TRANSACTIONS,
    elr_records,
    feature_record,
)
from kraftwreck.nodes.metadata.image_values import BROKER
from kraftwreck.nodes.metadata.operation import Context, Record

TRANSACTION_NAME: Final = "Bootstrap records"
ABORT_REASON: Final = "The controller that began it has failed."


def _levels(records: Sequence[Record]) -> dict[str, int]:
    return {
        fields["name"]: fields["feature_level"]
        for name, _, fields in records
        if name == "FeatureLevelRecord"
    }


def _sets_min_insync(records: Sequence[Record]) -> bool:
    return any(
        name == "ConfigRecord"
        and (fields["resource_type"], fields["resource_name"]) == (BROKER, "")
        and fields["name"] == MIN_INSYNC_REPLICAS
        for name, _, fields in records
    )


def bootstrap_records(context: Context, bootstrap: Sequence[Record]) -> list[Record]:
    """Return the first records of an empty log.

    ``bootstrap`` are the records of formatting; it may be empty, and may lack a metadata version.
    """
    records = list(bootstrap)
    levels = _levels(records)
    if METADATA_VERSION not in levels:
        levels[METADATA_VERSION] = DEFAULT_METADATA_VERSION
        records.insert(0, feature_record(METADATA_VERSION, DEFAULT_METADATA_VERSION))
    if levels.get(ELR_VERSION, 0) > 0 and not _sets_min_insync(records):
        records.extend(elr_records(context.image.stable, context.settings))
    if levels[METADATA_VERSION] >= TRANSACTIONS:
        begin: Record = ("BeginTransactionRecord", 0, {"name": TRANSACTION_NAME})
        return [begin, *records, ("EndTransactionRecord", 0, {})]
    return records


def activation_records(context: Context, bootstrap: Sequence[Record]) -> list[Record]:
    """Return the records that a controller writes when it claims; possibly none.

    The records of an open transaction are above the stable layer, so the stable layer shows whether
    the log was empty before it.
    """
    image = context.image
    records: list[Record] = []
    if image.in_transaction:
        records.append(("AbortTransactionRecord", 0, {"reason": ABORT_REASON}))
    if METADATA_VERSION not in image.stable.features:
        records.extend(bootstrap_records(context, bootstrap))
    return records
