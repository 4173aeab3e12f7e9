"""Checks of the records that a producer sends, with the error codes of Apache Kafka.

The records stay opaque: only the header and the checksum are read. The order of the checks is
Apache Kafka's, so that bytes with two faults get the same answer.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kraftwreck.nodes.log.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    parse_header,
)
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.protocol import errors

_LENGTH = Struct(">i")
_MAGIC_AT: Final = 16
_SMALLEST: Final = 14
"""Bytes after the length that even the oldest format had."""
_MAGIC: Final = 2
_ZSTD: Final = 4
_ZSTD_SINCE: Final = 7
_AFTER_MAX_MS: Final = 3_600_000
"""``message.timestamp.after.max.ms``."""


class RefusedError(Exception):
    """The records of a partition are refused with ``code``; the text gives the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def check_records(
    records: memoryview, version: int, most_bytes: int, wall_ms: int
) -> tuple[BatchHeader, memoryview]:
    """Return header and bytes of the one batch of ``records``, sent by Produce of ``version``.

    ``most_bytes`` is ``max.message.bytes``. Bytes after the batch that are no whole batch are left
    out, as Apache Kafka does. Raises :class:`RefusedError`.
    """
    batch = _next_batch(records)
    if batch is None:
        raise RefusedError(errors.INVALID_RECORD, "there is no record batch")
    if batch[_MAGIC_AT] != _MAGIC:
        raise RefusedError(errors.INVALID_RECORD, f"the batch has magic {batch[_MAGIC_AT]}")
    if len(batch) < HEADER_SIZE:
        raise RefusedError(errors.CORRUPT_MESSAGE, f"a batch of {len(batch)} bytes")
    codec = batch[22] & CODEC_MASK
    if version < _ZSTD_SINCE and codec == _ZSTD:
        reason = f"zstd needs version {_ZSTD_SINCE}"
        raise RefusedError(errors.UNSUPPORTED_COMPRESSION_TYPE, reason)
    if len(batch) < len(records) and _next_batch(records[len(batch) :]) is not None:
        raise RefusedError(errors.INVALID_RECORD, "there is more than one record batch")
    if any(batch[:8]):
        raise RefusedError(errors.INVALID_RECORD, "the base offset is not 0")
    if len(batch) > most_bytes:
        reason = f"a batch of {len(batch)} bytes, more than {most_bytes}"
        raise RefusedError(errors.MESSAGE_TOO_LARGE, reason)
    if crc32c(batch[CRC_START:]) != int.from_bytes(batch[17:21], "big"):
        raise RefusedError(errors.CORRUPT_MESSAGE, "the checksum is wrong")
    if codec > _ZSTD:
        raise RefusedError(errors.UNKNOWN_SERVER_ERROR, f"there is no codec {codec}")
    return _checked_header(batch, wall_ms), batch


def _checked_header(batch: memoryview, wall_ms: int) -> BatchHeader:
    """Return the header of a batch whose checksum is right. Raises :class:`RefusedError`."""
    try:
        header = parse_header(batch)
    except ValueError as error:
        raise RefusedError(errors.INVALID_RECORD, str(error)) from None
    if header.count <= 0 or header.last_offset + 1 != header.count:
        reason = f"{header.count} records up to offset {header.last_offset}"
        raise RefusedError(errors.INVALID_RECORD, reason)
    if header.is_control:
        raise RefusedError(errors.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise RefusedError(errors.INVALID_RECORD, f"sequence {header.base_sequence}")
    if header.max_timestamp - wall_ms > _AFTER_MAX_MS:
        raise RefusedError(errors.INVALID_TIMESTAMP, f"timestamp {header.max_timestamp}")
    return header


def _next_batch(data: memoryview) -> memoryview | None:
    """Return the first whole batch of any magic, None if there is none.

    Raises :class:`RefusedError` for a length or a magic that no batch has.
    """
    if len(data) < LENGTH_END:
        return None
    (length,) = _LENGTH.unpack_from(data, 8)
    if length < _SMALLEST:
        raise RefusedError(errors.CORRUPT_MESSAGE, f"a batch of {length} bytes")
    if len(data) <= _MAGIC_AT:
        return None
    if data[_MAGIC_AT] > _MAGIC:
        raise RefusedError(errors.CORRUPT_MESSAGE, f"magic {data[_MAGIC_AT]}")
    if len(data) < LENGTH_END + length:
        return None
    return data[: LENGTH_END + length]
