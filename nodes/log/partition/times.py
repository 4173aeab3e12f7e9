"""The first record of a timestamp or later: the only look at records of users.

Records of a batch that is not compressed, or by gzip, are read up to the one found. The standard
library has no other codec that Kafka uses: of such a batch the first record is returned. It is at
or before the one asked for, so that a consumer that begins there misses nothing.
"""

from __future__ import annotations

import zlib
from typing import Final

from kraftwreck.nodes.log.batch import HEADER_SIZE, BatchError, get_varint, parse_header
from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.partition.partition_log import PartitionLog

MOST_UNPACKED: Final = 64 << 20
"""Bytes of a gzip batch that are read; the rest of a larger one is not looked at."""
_GZIP: Final = 1
_GZIP_FORM: Final = 31
_LOG_APPEND_TIME: Final = 0x08

Found = tuple[int, int]
"""Offset and timestamp (ms) of a record."""


def offset_at(
    log: PartitionLog, media: Media, timestamp: int, start: int, end: int
) -> tuple[int, int, int] | None:
    """Return offset, timestamp and leader epoch of the first record of ``timestamp`` or later.

    Only offsets from ``start`` to before ``end`` count; None if there is none. Raises OSError, and
    BatchError for records that cannot be read.
    """
    first = log.find_time(timestamp)
    if first is None:
        return None
    for header in log.batches(max(first[1][1].base_offset, start, log.start_offset)):
        if header.base_offset >= end:
            break
        if header.max_timestamp < timestamp:
            continue
        part = log.read(max(header.base_offset, log.start_offset), log.end_offset, 1)
        if part is None:
            break
        found = record_at(media.read_at(part.path, part.position, part.length), timestamp, start)
        if found is not None:
            return (*found, header.epoch) if found[0] < end else None
    return None


def record_at(batch: bytes, timestamp: int, start: int) -> Found | None:
    """Return the first record of one whole batch with ``timestamp`` or later, from ``start`` on.

    None if there is none. Raises BatchError for records that cannot be read.
    """
    header = parse_header(batch)
    if header.attributes & _LOG_APPEND_TIME:
        # All of its records carry the time of the append.
        return max(header.base_offset, start), header.max_timestamp
    if header.codec > _GZIP:
        return max(header.base_offset, start), header.base_timestamp
    records = batch[HEADER_SIZE:]
    if header.codec == _GZIP:
        try:
            records = zlib.decompressobj(_GZIP_FORM).decompress(records, MOST_UNPACKED)
        except zlib.error as error:
            raise BatchError(f"records at {header.base_offset}: {error}") from error
    position = 0
    try:
        for _ in range(header.count):
            size, position = get_varint(records, position)
            time_delta, inside = get_varint(records, position + 1)
            delta, _ = get_varint(records, inside)
            offset, time_ms = header.base_offset + delta, header.base_timestamp + time_delta
            if time_ms >= timestamp and offset >= start:
                return offset, time_ms
            if size < 0:
                raise BatchError(f"a record of {size} bytes at {offset}")
            position += size
    except IndexError:
        if len(records) < MOST_UNPACKED:
            raise BatchError(f"a record ends outside of the batch {header.base_offset}") from None
    return None
