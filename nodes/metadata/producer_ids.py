"""AllocateProducerIds (67): blocks of producer ids, each allocated only once (KIP-730)."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.metadata.brokers import checked_broker
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome
from kraftwreck.nodes.protocol.errors import NONE, UNKNOWN_SERVER_ERROR

_LAST: Final = 2**63 - 1


def allocate_producer_ids(context: Context, version: int, body: Body) -> Outcome:
    """Allocate the next block; the answer waits until its record is committed."""
    broker = checked_broker(context, body["broker_id"], body["broker_epoch"])
    start, length = context.image.next_producer_id, context.settings.producer_id_block
    if start > _LAST - length:
        raise ApiError(UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    fields = {
        "broker_id": broker.broker_id,
        "broker_epoch": broker.epoch,
        "next_producer_id": start + length,
    }
    answer = {
        "throttle_time_ms": 0,
        "error_code": NONE,
        "producer_id_start": start,
        "producer_id_len": length,
    }
    return Outcome([("ProducerIdsRecord", 0, fields)], answer)
