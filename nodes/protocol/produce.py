"""Produce requests, read from a frame without a copy of their records.

The schema of :mod:`nodes.protocol.schemas.data` describes the same message; the tests hold the two
against each other. Versions 3 to 13; topics have names up to 12, ids from 13 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint, skip_tags

FIRST: Final = 3
LAST: Final = 13
_FLEXIBLE: Final = 9
_BY_ID: Final = 13
_SHORT = Struct(">h")
_INT = Struct(">i")
_ACKS = Struct(">hi")


@dataclass(frozen=True, slots=True)
class ProducePart:
    """Records for a partition: bytes ``start`` to ``end`` of the frame; -1 and -1: null.

    ``topic`` is a name, or the 16 bytes of an id.
    """

    topic: str | bytes
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """``acks`` is any 16-bit number; 0, 1 and -1 are valid. ``timeout_ms`` may be negative."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: tuple[ProducePart, ...]


def parse_produce(frame: Buffer, offset: int, version: int, most_parts: int) -> ProduceRequest:
    """Read the body of a request that begins at ``offset``; bytes after it are ignored.

    Raises :class:`ProtocolError` for bytes that are not such a request, or for more than
    ``most_parts`` topics and partitions.
    """
    if not FIRST <= version <= LAST:
        raise ProtocolError(f"Produce has versions {FIRST} to {LAST}, not {version}")
    try:
        reader = _Flexible(frame, offset) if version >= _FLEXIBLE else _Plain(frame, offset)
        return _body(reader, version >= _BY_ID, most_parts)
    except (IndexError, error):
        reason = "it ends too early"
    except UnicodeDecodeError as text:
        reason = f"a string is not UTF-8 ({text.reason})"
    except MalformedError as malformed:
        reason = str(malformed)
    raise ProtocolError(f"cannot decode ProduceRequest v{version}: {reason}")


class _Plain:
    """Reads lengths of versions before 9, which have no tags."""

    def __init__(self, frame: Buffer, position: int) -> None:
        self.frame = frame
        self.position = position
        self.size = len(frame)

    def text_length(self) -> int:
        """Return the length of a string, -1 for null."""
        (length,) = _SHORT.unpack_from(self.frame, self.position)
        self.position += 2
        return int(length)

    def length(self) -> int:
        """Return the length of an array or of records, -1 for null."""
        (length,) = _INT.unpack_from(self.frame, self.position)
        self.position += 4
        return int(length)

    def end_of_struct(self) -> None:
        """Skip what may follow the last field."""

    def skip(self, length: int) -> int:
        """Return the present position and go ``length`` bytes forward."""
        start = self.position
        if length < 0 or start + length > self.size:
            raise MalformedError(f"{length} bytes do not fit in it")
        self.position += length
        return start

    def text(self) -> str | None:
        """Return a string, None for null."""
        length = self.text_length()
        if length == -1:
            return None
        start = self.skip(length)
        return str(self.frame[start : start + length], "utf-8")

    def integer(self) -> int:
        """Return a 32-bit number."""
        (value,) = _INT.unpack_from(self.frame, self.position)
        self.position += 4
        return int(value)


class _Flexible(_Plain):
    """Reads lengths and tags of versions from 9 on."""

    def text_length(self) -> int:
        """Return the length of a string, -1 for null."""
        return self.length()

    def length(self) -> int:
        """Return the length of anything, -1 for null."""
        value, self.position = get_uvarint(self.frame, self.position)
        return value - 1

    def end_of_struct(self) -> None:
        """Skip the tagged fields; none is known."""
        count, self.position = get_uvarint(self.frame, self.position)
        if count:
            self.position = skip_tags(self.frame, self.position, self.size, count)


def _body(reader: _Plain, by_id: bool, most_parts: int) -> ProduceRequest:
    transactional_id = reader.text()
    acks, timeout_ms = _ACKS.unpack_from(reader.frame, reader.skip(_ACKS.size))
    parts: list[ProducePart] = []
    topics = _count(reader, most_parts)
    left = most_parts - topics
    for _ in range(topics):
        topic: str | bytes | None
        if by_id:
            start = reader.skip(16)
            topic = bytes(reader.frame[start : start + 16])
        else:
            topic = reader.text()
        if topic is None:
            raise MalformedError("the name of a topic is null")
        count = _count(reader, left)
        left -= count
        for _ in range(count):
            partition = reader.integer()
            length = reader.length()
            start = -1 if length == -1 else reader.skip(length)
            parts.append(ProducePart(topic, partition, start, start + max(length, 0)))
            reader.end_of_struct()
        reader.end_of_struct()
    reader.end_of_struct()
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(parts))


def _count(reader: _Plain, most: int) -> int:
    count = reader.length()
    if count < 0:
        raise MalformedError("an array is null")
    if count > most:
        raise MalformedError(f"an array has {count} items, more than {most}")
    return count
