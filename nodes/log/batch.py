"""Record batches, magic 2: the units of the log, on disk and on the wire.

Big-endian: ``base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4`` and then, under the CRC,
``attributes 2 | last offset delta 4 | base timestamp 8 | max timestamp 8 | producer id 8 | producer
epoch 2 | base sequence 4 | count 4 | records``. The CRC does not cover offset and epoch. Records
use signed (zig-zag) varints. Batches here are uncompressed, without producer and headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from kraftwreck.nodes.log.crc import crc32c

Buffer = bytes | bytearray | memoryview
Record = tuple[bytes | None, bytes | None]

HEADER_SIZE: Final = 61
LENGTH_END: Final = 12
"""The length field counts the bytes after itself: the total less 12."""
CRC_START: Final = 21
CONTROL: Final = 0x20
CODEC_MASK: Final = 0x07
NO_TIMESTAMP: Final = -1
_MAGIC: Final = 2
_SMALLEST_RECORD: Final = 7
_LARGE: Final = 4096

_HEAD = Struct(">qiibI")
_TAIL = Struct(">hiqqqhii")
_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_CRC = Struct(">I")


class BatchError(ValueError):
    """Bytes are not a record batch that this project can read; the text states why."""


class BatchHeader:
    """The header of a batch. ``length`` is the whole batch in bytes, timestamps are ms.

    ``producer_id``, ``producer_epoch`` and ``base_sequence`` are -1 without an idempotent producer.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "epoch",
        "last_offset",
        "length",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    length: int
    epoch: int
    crc: int
    attributes: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def is_control(self) -> bool:
        """Whether the records are control records (leader changes, …), not data."""
        return self.attributes & CONTROL != 0

    @property
    def codec(self) -> int:
        """The compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 are not defined."""
        return self.attributes & CODEC_MASK

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"BatchHeader({fields})"


def encode_batch(
    base_offset: int, epoch: int, timestamp_ms: int, records: Sequence[Record], control: bool
) -> bytes:
    """Return one batch of (key, value) ``records``, at offsets from ``base_offset`` on.

    All records carry ``timestamp_ms``. Raises ValueError without records.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    parts: list[bytes] = []
    short = _SHORT
    for delta, (key, value) in enumerate(records):
        place = short[delta] if delta < _MANY else _varint(delta)
        # Nearly all records have no key; 4: attributes, timestamp delta, key and headers.
        if key is None and value is not None:
            count = len(value)
            length = short[count] if count < _MANY else _varint(count)
            count += len(place) + len(length) + 4
            size = short[count] if count < _MANY else _varint(count)
            parts += (size, b"\0\0", place, b"\1", length, value, b"\0")
        else:
            inside = b"".join((b"\0\0", place, *_length_and(key), *_length_and(value), b"\0"))
            parts += (_varint(len(inside)), inside)
    count = len(records)
    attributes = CONTROL if control else 0
    head = _TAIL.pack(attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    tail = b"".join((head, *parts))
    size_ = len(tail) + CRC_START - LENGTH_END
    return _HEAD.pack(base_offset, size_, epoch, _MAGIC, crc32c(tail)) + tail


def parse_header(data: Buffer, offset: int = 0) -> BatchHeader:
    """Read the header at ``offset``; the records may be missing. Raises BatchError."""
    header = BatchHeader.__new__(BatchHeader)
    if len(data) - offset < HEADER_SIZE:
        raise BatchError(f"batch header needs {HEADER_SIZE} bytes, not {len(data) - offset}")
    (
        header.base_offset,
        length,
        header.epoch,
        magic,
        header.crc,
        header.attributes,
        delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    ) = _HEADER.unpack_from(data, offset)
    header.length = length = length + LENGTH_END
    header.last_offset = header.base_offset + delta
    if magic != _MAGIC:
        raise BatchError(f"batch has magic {magic}, not {_MAGIC}")
    if length < HEADER_SIZE or delta < 0 or header.base_offset < 0:
        raise BatchError(
            f"batch with base offset {header.base_offset}, {length} bytes, offset delta {delta}"
        )
    return header


def split_batches(data: Buffer) -> Iterator[bytes]:
    """Yield the whole batches of ``data``; a partial one at the end is left out.

    Raises :class:`BatchError` for a length no batch can have.
    """
    position, end = 0, len(data)
    while end - position >= HEADER_SIZE:
        (length,) = _LENGTH.unpack_from(data, position + 8)
        stop = position + LENGTH_END + length
        if stop - position < HEADER_SIZE:
            raise BatchError(f"batch at byte {position} says it has {stop - position} bytes")
        if stop > end:
            return
        yield bytes(data[position:stop])
        position = stop


def verify_crc(batch: Buffer) -> bool:
    """Return whether the checksum of one whole batch is right."""
    if len(batch) < HEADER_SIZE:
        return False
    (crc,) = _CRC.unpack_from(batch, 17)
    if len(batch) > _LARGE:
        batch = memoryview(batch)  # avoids a copy of a large one
    return bool(crc32c(batch[CRC_START:]) == crc)


def decode_batch(batch: Buffer) -> tuple[BatchHeader, list[tuple[int, bytes | None, bytes | None]]]:
    """Return the header and the (offset, key, value) of each record of one whole batch.

    The checksum is not checked, see :func:`verify_crc`. Raises :class:`BatchError` if the bytes are
    compressed or not exactly one batch.
    """
    header = parse_header(batch)
    return header, decode_records(batch, header)


def decode_records(
    batch: Buffer, header: BatchHeader
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the records of :func:`decode_batch` for a batch whose header is known already."""
    if header.length != len(batch):
        raise BatchError(f"batch has {len(batch)} bytes but says {header.length}")
    if header.codec:
        raise BatchError(f"batch is compressed (codec {header.codec})")
    if not 0 <= header.count <= (len(batch) - HEADER_SIZE) // _SMALLEST_RECORD:
        raise BatchError(f"batch of {len(batch)} bytes says it has {header.count} records")
    records = []
    position = HEADER_SIZE
    try:
        for _ in range(header.count):
            size, position = get_varint(batch, position)
            stop = position + size
            position += 1  # attributes
            if batch[position] == 0:
                position += 1
            else:
                _, position = get_varint(batch, position)  # timestamp delta
            delta, position = get_varint(batch, position)
            key: bytes | None = None
            if batch[position] == 1:
                position += 1
            else:
                key, position = _get_bytes(batch, position, stop)
            value, position = _get_bytes(batch, position, stop)
            if batch[position] == 0:
                position += 1
            else:
                headers, position = get_varint(batch, position)
                for _ in range(headers):
                    _, position = _get_bytes(batch, position, stop)
                    _, position = _get_bytes(batch, position, stop)
            if position != stop:
                raise BatchError("a record does not have the length it says")
            records.append((header.base_offset + delta, key, value))
    except IndexError:
        raise BatchError("a record ends outside of its batch") from None
    if position != len(batch):
        raise BatchError(f"{len(batch) - position} bytes after the last record")
    return records


def _length_and(part: bytes | None) -> tuple[bytes, bytes]:
    return (b"\1", b"") if part is None else (_varint(len(part)), part)


def _long_varint(value: int) -> bytes:
    """Return a non-negative ``value`` as a signed (zig-zag) varint."""
    out = bytearray()
    value <<= 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_MANY: Final = 2048
_SHORT: Final = tuple(map(_long_varint, range(_MANY)))


def _varint(value: int) -> bytes:
    return _SHORT[value] if value < _MANY else _long_varint(value)


def get_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the signed (zig-zag) varint at ``position`` and the position after it.

    Raises :class:`BatchError` beyond ten bytes and IndexError at the end of ``data``.
    """
    value = data[position]
    if value < 128:
        return value >> 1 ^ -(value & 1), position + 1
    value &= 127
    for shift in range(7, 70, 7):
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value >> 1 ^ -(value & 1), position + 1
    raise BatchError("a varint is longer than ten bytes")


def _get_bytes(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = get_varint(data, position)
    if size < 0:
        return None, position
    stop = position + size
    if stop > end or stop > len(data):
        raise BatchError("a record's key or value ends outside of it")
    return bytes(data[position:stop]), stop
