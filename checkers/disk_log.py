"""The metadata logs of disk images, as lists of batches."""

from __future__ import annotations

from typing import NamedTuple

from checkers.run_data import DiskImage, RunData
from nodes.log.batch import BatchError, decode_batch, parse_header, split_batches, verify_crc
from nodes.protocol.records import LEADER_CHANGE, decode_control


class StoredBatch(NamedTuple):
    """``leader`` is the id in the batch's LeaderChange record, None if it has none."""

    base: int
    last: int
    epoch: int
    crc: int
    leader: int | None


class StoredLog(NamedTuple):
    """A log as an image holds it. ``damage`` says where the readable part ends early."""

    image: DiskImage
    batches: list[StoredBatch]
    damage: str | None


def disk_logs(run: RunData) -> list[StoredLog]:
    """Return the logs of all images, decoded once for all checkers."""
    return run.derived("disk", lambda run: [read_log(image) for image in run.images])


def read_log(image: DiskImage) -> StoredLog:
    """Decode ``image``'s log up to its end, its torn tail, or its first damaged batch."""
    batches: list[StoredBatch] = []
    try:
        for data in split_batches(image.log):
            header = parse_header(data)
            if not verify_crc(data):
                return StoredLog(image, batches, f"wrong CRC at offset {header.base_offset}")
            leader = _leader_of(data) if header.is_control else None
            batches.append(
                StoredBatch(
                    header.base_offset, header.last_offset, header.epoch, header.crc, leader
                )
            )
    except BatchError as error:
        return StoredLog(image, batches, str(error))
    return StoredLog(image, batches, None)


def _leader_of(data: bytes) -> int | None:
    for _, key, value in decode_batch(data)[1]:
        kind, fields = decode_control(key, value)
        if kind == LEADER_CHANGE:
            return int(fields["leader_id"])
    return None
