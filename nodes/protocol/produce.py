"""Produce requests, read from a frame without a copy of their records.

The schema of :mod:`nodes.protocol.schemas.data` describes the same message; the tests hold the two
against each other. Versions 3 to 13; topics have names up to 12, ids from 13 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.protocol.reader import FlexibleReader, PlainReader, refused

FIRST: Final = 3
LAST: Final = 13
_FLEXIBLE: Final = 9
_BY_ID: Final = 13
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
    with refused("ProduceRequest", version):
        flexible = version >= _FLEXIBLE
        reader = FlexibleReader(frame, offset) if flexible else PlainReader(frame, offset)
        return _body(reader, version >= _BY_ID, most_parts)


def _body(reader: PlainReader, by_id: bool, most_parts: int) -> ProduceRequest:
    transactional_id = reader.text()
    acks, timeout_ms = _ACKS.unpack_from(reader.frame, reader.skip(_ACKS.size))
    parts: list[ProducePart] = []
    topics = reader.count(most_parts)
    left = most_parts - topics
    for _ in range(topics):
        topic = reader.topic(by_id)
        count = reader.count(left)
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
