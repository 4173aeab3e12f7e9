"""Fetch requests of clients and followers, read by hand: versions 4 to 18.

The quorum's own Fetch, of one partition, is read by the schema of
:mod:`nodes.protocol.schemas.quorum`; the tests hold the two against each other. Topics have names
up to version 12, ids from 13 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint
from kraftwreck.nodes.protocol.reader import PlainReader, reading

FIRST: Final = 4
LAST: Final = 18
_LOG_START: Final = 5
_SESSIONS: Final = 7
_LEADER_EPOCH: Final = 9
_RACK: Final = 11
_VERSIONS: Final = range(FIRST, LAST + 1)
_FLEXIBLE: Final = 12
_BY_ID: Final = 13
_REPLICA_STATE: Final = 15
_REPLICA_STATE_TAG: Final = 1

_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_STATE = Struct(">iq")
_NEWEST = Struct(">iiqiqi")
_WITH_EPOCH = Struct(">iiqqi")
_WITH_START = Struct(">iqqi")
_OLDEST = Struct(">iqi")

Partition = tuple[str | bytes, int]
"""A topic's name or the 16 bytes of its id, and a number."""


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition to read; epochs and ``log_start`` are -1 where not known."""

    key: Partition
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """``replica_id`` is -1 for a consumer; session id 0 and epoch -1 are no session (KIP-227)."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: tuple[FetchPartition, ...]
    forgotten: tuple[Partition, ...]


def parse_fetch(frame: Buffer, offset: int, version: int, most_parts: int) -> FetchRequest:
    """Read the body of a request that begins at ``offset``; bytes after it are ignored.

    Raises :class:`~nodes.protocol.codec.ProtocolError` for bytes that are not such a request, or
    for more than ``most_parts`` topics and partitions.
    """
    with reading("Fetch", version, _VERSIONS, _FLEXIBLE, frame, offset, most_parts) as reader:
        return _body(reader, version)


def _body(reader: PlainReader, version: int) -> FetchRequest:
    replica = (reader.integer() if version < _REPLICA_STATE else -1, -1)
    limits = _LIMITS.unpack_from(reader.frame, reader.skip(_LIMITS.size))
    max_wait_ms, min_bytes, max_bytes, isolation_level = limits
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS:
        place = reader.skip(_SESSION.size)
        session_id, session_epoch = _SESSION.unpack_from(reader.frame, place)
    partitions: list[FetchPartition] = []
    for _ in range(reader.count()):
        topic = reader.topic(version >= _BY_ID)
        for _ in range(reader.count()):
            partitions.append(_partition(reader, version, topic))
            reader.end_of_struct()
        reader.end_of_struct()
    forgotten: list[Partition] = []
    if version >= _SESSIONS:
        for _ in range(reader.count()):
            topic = reader.topic(version >= _BY_ID)
            forgotten += [(topic, reader.integer()) for _ in range(reader.count())]
            reader.end_of_struct()
    if version >= _RACK and reader.text() is None:
        raise MalformedError("the rack is null")
    if version >= _FLEXIBLE:
        replica = _tags(reader, version, replica)
    return FetchRequest(
        *replica,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        partitions=tuple(partitions),
        forgotten=tuple(forgotten),
    )


def _partition(reader: PlainReader, version: int, topic: str | bytes) -> FetchPartition:
    frame = reader.frame
    epoch = last = start = -1
    if version >= _FLEXIBLE:
        fields = _NEWEST.unpack_from(frame, reader.skip(_NEWEST.size))
        number, epoch, offset, last, start, most = fields
    elif version >= _LEADER_EPOCH:
        fields = _WITH_EPOCH.unpack_from(frame, reader.skip(_WITH_EPOCH.size))
        number, epoch, offset, start, most = fields
    elif version >= _LOG_START:
        number, offset, start, most = _WITH_START.unpack_from(frame, reader.skip(_WITH_START.size))
    else:
        number, offset, most = _OLDEST.unpack_from(frame, reader.skip(_OLDEST.size))
    return FetchPartition((topic, number), offset, most, epoch, last, start)


def _tags(reader: PlainReader, version: int, replica: tuple[int, int]) -> tuple[int, int]:
    """Read the tags after the last field; return the replica's id and epoch."""
    count, reader.position = get_uvarint(reader.frame, reader.position)
    for _ in range(count):
        tag, reader.position = get_uvarint(reader.frame, reader.position)
        size, reader.position = get_uvarint(reader.frame, reader.position)
        start = reader.skip(size)
        if tag == _REPLICA_STATE_TAG and version >= _REPLICA_STATE:
            if size < _STATE.size:
                raise MalformedError(f"a replica state of {size} bytes")
            replica = _STATE.unpack_from(reader.frame, start)
    return replica
