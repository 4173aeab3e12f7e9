"""Fetch requests by hand: versions 4 to 18 are read, 12 to 17 are written, as followers send them.

The quorum's own Fetch, of one partition, is read by the schema of
:mod:`nodes.protocol.schemas.quorum`; the tests hold the two against each other. Topics have names
up to version 12, ids from 13 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint
from kraftwreck.nodes.protocol.reader import PlainReader, read_body
from kraftwreck.nodes.protocol.writer import put_count, put_topic

FIRST: Final = 4
LAST: Final = 18
_LOG_START: Final = 5
_SESSIONS: Final = 7
_LEADER_EPOCH: Final = 9
_RACK: Final = 11
_VERSIONS: Final = range(FIRST, LAST + 1)
_FLEXIBLE: Final = 12
BY_ID: Final = 13
"""The first version in which topics have ids."""
_REPLICA_STATE: Final = 15
_REPLICA_STATE_TAG: Final = 1

_INT = Struct(">i")
_LIMITS = Struct(">iiib")
_WITH_SESSION = Struct(">iiibii")
_NO_SESSION: Final = (0, -1)
_STATE = Struct(">iq")
_STATE_AND_TAGS = Struct(">iqB")
_ONE_STATE: Final = b"\1\1\x0d"
"""One tag: the number and the size of a replica's state."""
_NOTHING_FORGOTTEN_NO_RACK: Final = b"\1\1"
_NEWEST = Struct(">iiqiqi")
_WITH_EPOCH = Struct(">iiqqi")
_WITH_START = Struct(">iqqi")
_OLDEST = Struct(">iqi")

Partition = tuple[str | bytes, int]
"""A topic's name or the 16 bytes of its id, and a number."""


class FetchPartition(NamedTuple):
    """One partition to read; epochs and ``log_start`` are -1 where not known."""

    key: Partition
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start: int


class FetchRequest(NamedTuple):
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
    place = (frame, offset, most_parts)
    return read_body("Fetch", version, _VERSIONS, _FLEXIBLE, place, _body)


def _body(reader: PlainReader, version: int) -> FetchRequest:
    replica = (reader.integer() if version < _REPLICA_STATE else -1, -1)
    frame = reader.frame
    if version >= _SESSIONS:
        fields = _WITH_SESSION.unpack_from(frame, reader.skip(_WITH_SESSION.size))
    else:
        fields = (*_LIMITS.unpack_from(frame, reader.skip(_LIMITS.size)), *_NO_SESSION)
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = fields
    partitions: list[FetchPartition] = []
    for _ in range(reader.count()):
        topic = reader.topic(version >= BY_ID)
        for _ in range(reader.count()):
            partitions.append(_partition(reader, version, topic))
            reader.end_of_struct()
        reader.end_of_struct()
    forgotten: list[Partition] = []
    if version >= _SESSIONS:
        for _ in range(reader.count()):
            topic = reader.topic(version >= BY_ID)
            forgotten += [(topic, reader.integer()) for _ in range(reader.count())]
            reader.end_of_struct()
    if version >= _RACK and reader.text() is None:
        raise MalformedError("the rack is null")
    if version >= _FLEXIBLE and frame[reader.position]:
        replica = _tags(reader, version, replica)
    return FetchRequest(
        *replica,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        tuple(partitions),
        tuple(forgotten),
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


Wanted = tuple[int, int, int, int, int, int]
"""A partition as it is written: number, leader epoch, offset, epoch of the last record fetched, log
start, most bytes."""


def follower_fetch(
    version: int,
    replica: tuple[int, int],
    max_wait_ms: int,
    max_bytes: int,
    topics: Sequence[tuple[str | bytes, Sequence[Wanted]]],
) -> bytes:
    """Return the body of a follower's request, which has no session, in versions 12 to 17.

    ``replica`` has the follower's id and broker epoch. Topics have names in version 12, then ids.
    """
    out = bytearray()
    if version < _REPLICA_STATE:
        out += _INT.pack(replica[0])
    out += _WITH_SESSION.pack(max_wait_ms, 1, max_bytes, 0, *_NO_SESSION)
    put_count(out, len(topics), flexible=True)
    for topic, parts in topics:
        put_topic(out, topic, flexible=True)
        put_count(out, len(parts), flexible=True)
        for part in parts:
            out += _NEWEST.pack(*part)
            out.append(0)
        out.append(0)
    out += _NOTHING_FORGOTTEN_NO_RACK
    if version < _REPLICA_STATE:
        out.append(0)
    else:
        out += _ONE_STATE
        out += _STATE_AND_TAGS.pack(*replica, 0)
    return bytes(out)
