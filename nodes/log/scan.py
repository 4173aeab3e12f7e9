"""Read a segment's bytes up to the first defect, and classify the defect.

A defect is either **torn**, which a crash can cause at the end of a log that was being written, or
damage. A crash leaves a prefix of a batch, or sectors of zeros where the file grew before its data
came; anything else was changed after it was written. Torn bytes were never acknowledged. Damage may
destroy acknowledged records, so the two are distinguished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.log.batch import (
    CRC_START,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    decode_batch,
    parse_header,
    verify_crc,
)
from kraftwreck.nodes.log.crc import crc32c

_SECTOR: Final = 512
_LEADER_CHANGE: Final = b"\x00\x02"
"""The type in the key of a LeaderChange control record."""
_SOME_ZEROS: Final = 17
"""Up to the magic byte: no one changed byte makes a sound batch begin with that many zeros."""


@dataclass(slots=True)
class Scan:
    """The good ``batches``, ``length`` their bytes; ``defect`` is None if that is all."""

    batches: list[bytes]
    length: int
    end_offset: int
    last_epoch: int | None
    defect: str | None = None
    torn: bool = False


def scan_segment(
    data: bytes,
    expected_offset: int,
    last_epoch: int | None,
    known_epochs: Mapping[int, int] | None = None,
) -> Scan:
    """Take whole batches from ``data`` until one is torn or wrong.

    A good batch has a right checksum, and its base offset is ``expected_offset`` or follows its
    predecessor. Its epoch is its predecessor's (``last_epoch``, None if not known), and that of
    ``known_epochs`` (by base offset) if there is one. A control batch may have a higher epoch than
    its predecessor. Unless ``known_epochs`` confirms that epoch, it must be the LeaderChange that
    begins it.
    """
    scan = Scan([], 0, expected_offset, last_epoch)
    known_epochs = known_epochs or {}
    while scan.length < len(data):
        try:
            header = parse_header(data, scan.length)
        except BatchError as error:
            scan.defect = str(error)
            break
        batch = data[scan.length : scan.length + header.length]
        scan.defect = _defect(header, batch, scan, known_epochs.get(header.base_offset))
        if scan.defect is not None:
            break
        scan.batches.append(batch)
        scan.length += header.length
        scan.end_offset = header.last_offset + 1
        scan.last_epoch = header.epoch
    scan.torn = scan.defect is not None and _is_torn(data, scan.length)
    return scan


def epoch_defect(header: BatchHeader, last_epoch: int | None) -> str | None:
    """Return why a batch cannot follow one of ``last_epoch``, None if it can."""
    if last_epoch is None or header.epoch == last_epoch:
        return None
    if header.epoch < last_epoch:
        return f"epoch goes back from {last_epoch} to {header.epoch}"
    if not header.is_control:
        return f"epoch {header.epoch} begins after {last_epoch} without a control batch"
    return None


def position_of(data: bytes, offset: int) -> int:
    """Return the byte at which the batch with base ``offset`` starts in good segment ``data``.

    ``len(data)`` if it is the offset after the last. Raises ValueError inside a batch.
    """
    position = 0
    following = offset
    while position + HEADER_SIZE <= len(data):
        header = parse_header(data, position)
        if header.base_offset >= offset:
            following = header.base_offset
            break
        position += header.length
        following = header.last_offset + 1
    if following != offset:
        raise ValueError(f"offset {offset} is inside of a batch")
    return position


def _defect(header: BatchHeader, batch: bytes, scan: Scan, known_epoch: int | None) -> str | None:
    if len(batch) < header.length:
        return f"batch of {header.length} bytes is cut off after {len(batch)}"
    if header.base_offset != scan.end_offset:
        return f"batch has base offset {header.base_offset}, not {scan.end_offset}"
    if header.count != header.last_offset - header.base_offset + 1:
        return f"batch has {header.count} records up to offset {header.last_offset}"
    if not verify_crc(batch):
        return "batch has a wrong checksum"
    if known_epoch not in (None, header.epoch):
        return f"batch has epoch {header.epoch}, and the epoch checkpoint says {known_epoch}"
    unknown = known_epoch is None and scan.last_epoch not in (None, header.epoch)
    # If no other source confirms its epoch, it must be the one batch that may begin an epoch.
    if unknown and header.is_control and not _is_leader_change(batch):
        return f"epoch {header.epoch} begins after {scan.last_epoch} without a leader change"
    return epoch_defect(header, scan.last_epoch)


def _is_leader_change(batch: bytes) -> bool:
    """Return whether a control batch with a right checksum begins with a LeaderChange."""
    try:
        records = decode_batch(batch)[1]
    except BatchError:
        return False
    return bool(records) and records[0][1] is not None and records[0][1][2:4] == _LEADER_CHANGE


def _is_torn(data: bytes, position: int) -> bool:
    """Return whether a crash can have left ``data`` from ``position`` on."""
    rest = data[position:]
    if len(rest) < HEADER_SIZE:
        return True
    try:
        header = parse_header(rest)
    except BatchError:
        return _has_lost_sector(data, position, position + HEADER_SIZE + _SECTOR)
    if _has_lost_sector(data, position, position + header.length):
        return True
    if header.length <= len(rest):
        return False
    # Its length extends beyond the end of the file. If it is whole nevertheless, or others come
    # after it, then its length was changed after it was written.
    return crc32c(memoryview(rest)[CRC_START:]) != header.crc and not _has_batch(rest, header)


def _has_lost_sector(data: bytes, start: int, end: int) -> bool:
    """Return whether some sector that overlaps ``start`` to ``end`` is all zeros.

    Sectors are read from ``start`` to the end of the file: one may hold only the batch's last byte.
    """
    end = min(end, len(data))
    while start < end:
        stop = min(start - start % _SECTOR + _SECTOR, len(data))
        if stop - start >= _SOME_ZEROS and not any(data[start:stop]):
            return True
        start = stop
    return False


def _has_batch(rest: bytes, after: BatchHeader) -> bool:
    """Return whether ``rest`` contains a whole batch of higher offsets."""
    magic = rest.find(b"\x02", HEADER_SIZE + 16)
    while magic != -1:
        try:
            header = parse_header(rest, magic - 16)
        except BatchError:
            header = None
        if header is not None and header.base_offset > after.base_offset:
            batch = rest[magic - 16 : magic - 16 + header.length]
            if len(batch) == header.length and verify_crc(batch):
                return True
        magic = rest.find(b"\x02", magic + 1)
    return False
