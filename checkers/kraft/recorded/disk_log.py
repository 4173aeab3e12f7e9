"""The metadata logs of disk images, as lists of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.nodes.log.batch import (
    BatchError,
    decode_batch,
    parse_header,
    split_batches,
    verify_crc,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, decode_control


class StoredBatch(NamedTuple):
    """``leader`` is the id in the batch's LeaderChange record, None if it has none."""

    base: int
    last: int
    epoch: int
    crc: int
    leader: int | None
    control: bool
    data: bytes

    @property
    def key(self) -> tuple[int, int, int]:
        """Base offset, epoch and checksum, which identify it in all logs."""
        return self.base, self.epoch, self.crc


class StoredLog(NamedTuple):
    """A log as in an image. ``damage`` describes where the readable part ends early.

    The first ``shared`` batches are those that the node's previous image begins with.
    """

    image: DiskImage
    batches: list[StoredBatch]
    damage: str | None
    shared: int = 0

    @property
    def fresh(self) -> list[StoredBatch]:
        """The batches that the node's previous image did not have."""
        return self.batches[self.shared :]

    @property
    def start(self) -> int:
        """The offset at which the log begins."""
        return self.batches[0].base if self.batches else self.image.start_offset

    @property
    def end(self) -> int:
        """The offset after the last readable record."""
        return self.batches[-1].last + 1 if self.batches else self.image.start_offset


def disk_logs(run: RunData) -> list[StoredLog]:
    """Return the logs of all images, decoded once for all checkers."""
    return run.derived("disk", lambda run: read_logs(run.images))


def read_logs(images: Iterable[DiskImage]) -> list[StoredLog]:
    """Decode the logs of ``images``; a batch that several of them hold is decoded once.

    Of a node's next image only the part that differs from the previous one is read.
    """
    known: dict[bytes, StoredBatch] = {}
    seen: dict[str, _Seen] = {}
    logs = []
    for image in images:
        data = image.log
        before = seen.get(image.node)
        shared, position = (0, 0) if before is None else before.common(data)
        batches = before.batches[:shared] if before is not None else []
        damage = _read(memoryview(data)[position:], batches, known)
        logs.append(StoredLog(image, batches, damage, shared))
        read = position + sum(len(batch.data) for batch in batches[shared:])
        seen[image.node] = _Seen(data, batches, read)
    return logs


class _Seen(NamedTuple):
    """The last image of a node: its bytes, the batches in them, and how long those are."""

    data: bytes
    batches: list[StoredBatch]
    read: int

    def common(self, data: bytes) -> tuple[int, int]:
        """Return how many batches ``data`` shares at its beginning, and their length."""
        count, position, drop = len(self.batches), self.read, 1
        while count and not data.startswith(self.data[:position]):
            # A log was truncated, usually by little.
            cut = self.batches[max(count - drop, 0) : count]
            position -= sum(len(batch.data) for batch in cut)
            count -= len(cut)
            drop *= 2
        return count, position


def _read(
    data: memoryview, batches: list[StoredBatch], known: dict[bytes, StoredBatch]
) -> str | None:
    """Add the batches of ``data`` up to its end, its torn tail, or its first damaged one.

    Returns the damage, None without any.
    """
    try:
        for content in split_batches(data):
            batch = known.get(content)
            if batch is None:
                batch = _read_batch(content)
                if batch is None:
                    return f"wrong CRC at offset {parse_header(content).base_offset}"
                known[content] = batch
            batches.append(batch)
    except (BatchError, ProtocolError) as error:
        return str(error)
    return None


def read_batches(written: Iterable[bytes]) -> Iterator[StoredBatch]:
    """Yield the readable batches."""
    for data in written:
        try:
            batch = _read_batch(data)
        except (BatchError, ProtocolError):
            continue
        if batch is not None:
            yield batch


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
