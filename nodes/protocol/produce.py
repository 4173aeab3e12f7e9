"""Produce requests, read from a frame without a copy of their records.

The schema of :mod:`nodes.protocol.schemas.data` describes the same message; the tests hold the two
against each other. Versions 3 to 13; topics have names up to 12, ids from 13 on.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.protocol.reader import PlainReader, read_body

FIRST: Final = 3
LAST: Final = 13
_VERSIONS: Final = range(FIRST, LAST + 1)
_FLEXIBLE: Final = 9
_BY_ID: Final = 13
_ACKS = Struct(">hi")


class ProducePart(NamedTuple):
    """Records for a partition: bytes ``start`` to ``end`` of the frame; -1 and -1: null.

    ``topic`` is a name, or the 16 bytes of an id.
    """

    topic: str | bytes
    partition: int
    start: int
    end: int


class ProduceRequest(NamedTuple):
    """``acks`` is any 16-bit number; 0, 1 and -1 are valid. ``timeout_ms`` may be negative."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    parts: tuple[ProducePart, ...]


def parse_produce(frame: Buffer, offset: int, version: int, most_parts: int) -> ProduceRequest:
    """Read the body of a request that begins at ``offset``; bytes after it are ignored.

    Raises :class:`~nodes.protocol.codec.ProtocolError` for bytes that are not such a request, or
    for more than ``most_parts`` topics and partitions.
    """
    place = (frame, offset, most_parts)
    return read_body("Produce", version, _VERSIONS, _FLEXIBLE, place, _body)


def _body(reader: PlainReader, version: int) -> ProduceRequest:
    transactional_id = reader.text()
    acks, timeout_ms = _ACKS.unpack_from(reader.frame, reader.skip(_ACKS.size))
    parts: list[ProducePart] = []
    for _ in range(reader.count()):
        topic = reader.topic(version >= _BY_ID)
        for _ in range(reader.count()):
            partition = reader.integer()
            length = reader.length()
            start = -1 if length == -1 else reader.skip(length)
            parts.append(ProducePart(topic, partition, start, start + max(length, 0)))
            reader.end_of_struct()
        reader.end_of_struct()
    reader.end_of_struct()
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(parts))
