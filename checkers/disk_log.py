"""The metadata logs of disk images, as lists of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from checkers.run_data import DiskImage, RunData
from nodes.log.batch import BatchError, decode_batch, parse_header, split_batches, verify_crc
from nodes.protocol.codec import ProtocolError
from nodes.protocol.records import LEADER_CHANGE, decode_control


class StoredBatch(NamedTuple):
    """``leader`` is the id in the batch's LeaderChange record, None if it has none."""

    base: int
    last: int
    epoch: int
    crc: int
    leader: int | None
    control: bool
    data: bytes


class StoredLog(NamedTuple):
    """A log as an image holds it. ``damage`` says where the readable part ends early."""

    image: DiskImage
    batches: list[StoredBatch]
    damage: str | None

    @property
    def start(self) -> int:
        """The offset at which the log begins."""
        return self.batches[0].base if self.batches else self.image.start_offset

    @property
    def end(self) -> int:
        """The offset after the last record that can be read."""
        return self.batches[-1].last + 1 if self.batches else self.image.start_offset


def disk_logs(run: RunData) -> list[StoredLog]:
    """Return the logs of all images, decoded once for all checkers."""
    return run.derived("disk", lambda run: read_logs(run.images))


def read_logs(images: Iterable[DiskImage]) -> list[StoredLog]:
    """Decode the logs of ``images``; a batch that several of them hold is decoded once."""
    known: dict[bytes, StoredBatch] = {}
    return [read_log(image, known) for image in images]


def read_log(image: DiskImage, known: dict[bytes, StoredBatch] | None = None) -> StoredLog:
    """Decode ``image``'s log up to its end, its torn tail, or its first damaged batch."""
    known = {} if known is None else known
    batches: list[StoredBatch] = []
    try:
        for data in split_batches(image.log):
            batch = known.get(data)
            if batch is None:
                batch = _read_batch(data)
                if batch is None:
                    base = parse_header(data).base_offset
                    return StoredLog(image, batches, f"wrong CRC at offset {base}")
                known[data] = batch
            batches.append(batch)
    except (BatchError, ProtocolError) as error:
        return StoredLog(image, batches, str(error))
    return StoredLog(image, batches, None)


def read_batches(
    written: Iterable[bytes],
) -> Iterator[tuple[tuple[int, int, int], StoredBatch]]:
    """Yield batches that can be read, with (base offset, epoch, checksum)."""
    for data in written:
        try:
            batch = _read_batch(data)
        except (BatchError, ProtocolError):
            continue
        if batch is not None:
            yield (batch.base, batch.epoch, batch.crc), batch


def _read_batch(data: bytes) -> StoredBatch | None:
    header = parse_header(data)
    if not verify_crc(data):
        return None
    control = header.is_control
    return StoredBatch(
        header.base_offset,
        header.last_offset,
        header.epoch,
        header.crc,
        _leader_of(data) if control else None,
        control,
        data,
    )


def _leader_of(data: bytes) -> int | None:
    for _, key, value in decode_batch(data)[1]:
        kind, fields = decode_control(key, value)
        if kind == LEADER_CHANGE:
            return int(fields["leader_id"])
    return None
