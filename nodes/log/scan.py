"""Read a segment's bytes as far as they are good, and say why they are not any further."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.log.batch import HEADER_SIZE, BatchError, parse_header, verify_crc


@dataclass(slots=True)
class Scan:
    """``batches`` are the good ones, ``length`` their bytes; ``defect`` is None if that is all."""

    batches: list[bytes]
    length: int
    end_offset: int
    last_epoch: int
    defect: str | None


def scan_segment(data: bytes, expected_offset: int, last_epoch: int) -> Scan:
    """Take whole batches from ``data`` until one is torn or wrong.

    Good is a batch with a right checksum whose base offset is ``expected_offset`` or follows its
    predecessor, and whose epoch is not below its predecessor's (``last_epoch``).
    """
    scan = Scan([], 0, expected_offset, last_epoch, None)
    while scan.length < len(data):
        try:
            header = parse_header(data, scan.length)
        except BatchError as error:
            scan.defect = str(error)
            return scan
        batch = data[scan.length : scan.length + header.length]
        if len(batch) < header.length:
            scan.defect = f"batch of {header.length} bytes is cut off after {len(batch)}"
        elif header.base_offset != scan.end_offset:
            scan.defect = f"batch has base offset {header.base_offset}, not {scan.end_offset}"
        elif header.epoch < scan.last_epoch:
            scan.defect = f"epoch goes back from {scan.last_epoch} to {header.epoch}"
        elif header.count != header.last_offset - header.base_offset + 1:
            scan.defect = f"batch has {header.count} records up to offset {header.last_offset}"
        elif not verify_crc(batch):
            scan.defect = "batch has a wrong checksum"
        if scan.defect is not None:
            return scan
        scan.batches.append(batch)
        scan.length += header.length
        scan.end_offset = header.last_offset + 1
        scan.last_epoch = header.epoch
    return scan


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
