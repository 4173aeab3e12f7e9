"""Answers to Fetch with records that stay where they are: versions 4 to 18, written by hand.

An answer is a list of pieces: bytes, and records that are sent as they are, whatever their type.
The schema of :mod:`nodes.protocol.schemas.quorum` describes the same message; the tests hold the
two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from struct import Struct
from typing import Final

from kraftwreck.nodes.protocol.writer import put_count, put_topic

_LOG_START: Final = 5
_SESSIONS: Final = 7
_PREFERRED: Final = 11
_FLEXIBLE: Final = 12
_INT = Struct(">i")
_SESSION = Struct(">ihi")
_NEWEST = Struct(">ihqqqBi")
"""Ends with no aborted transactions (null) and no preferred replica (-1)."""
_PART = Struct(">ihqq")
_NULL: Final = b"\xff\xff\xff\xff"
_LONG = Struct(">q")
_EPOCH_END = Struct(">iqB")
_LEADER = Struct(">iiB")
_EPOCH_END_TAG: Final = b"\0\x0d"
_LEADER_TAG: Final = b"\1\x09"
"""Number and size of a tag."""


@dataclass(slots=True)
class Fetched:
    """One partition of the answer. ``diverging`` is (epoch, end offset), ``leader`` (id, epoch)."""

    number: int
    error: int
    high_watermark: int
    log_start: int
    records: Sized = b""
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None


def fetch_answer(
    version: int,
    correlation: int,
    error: int,
    session_id: int,
    topics: Mapping[str | bytes, Sequence[Fetched]],
) -> list[Sized]:
    """Return header and body of the answer in pieces, without the length before them.

    Topics have names up to version 12, ids of 16 bytes from 13 on.
    """
    flexible = version >= _FLEXIBLE
    pieces: list[Sized] = []
    out = bytearray(_INT.pack(correlation))
    if flexible:
        out += b"\0"
    if version >= _SESSIONS:
        out += _SESSION.pack(0, error, session_id)
    else:
        out += _INT.pack(0)
    put_count(out, len(topics), flexible)
    for topic, parts in topics.items():
        put_topic(out, topic, flexible)
        put_count(out, len(parts), flexible)
        for part in parts:
            _before_records(out, part, version)
            put_count(out, len(part.records), flexible)
            if len(part.records):
                pieces.append(out)
                pieces.append(part.records)
                out = bytearray()
            if flexible:
                _tags(out, part)
        if flexible:
            out += b"\0"
    if flexible:
        out += b"\0"
    pieces.append(out)
    return pieces


def _before_records(out: bytearray, part: Fetched, version: int) -> None:
    # Without transactions everything below the high watermark is stable.
    stable = part.high_watermark
    if version >= _FLEXIBLE:
        out += _NEWEST.pack(part.number, part.error, stable, stable, part.log_start, 0, -1)
        return
    out += _PART.pack(part.number, part.error, stable, stable)
    if version >= _LOG_START:
        out += _LONG.pack(part.log_start)
    out += _NULL
    if version >= _PREFERRED:
        out += _NULL


def _tags(out: bytearray, part: Fetched) -> None:
    if part.diverging is None and part.leader is None:
        out.append(0)
        return
    out.append((part.diverging is not None) + (part.leader is not None))
    if part.diverging is not None:
        out += _EPOCH_END_TAG + _EPOCH_END.pack(*part.diverging, 0)
    if part.leader is not None:
        out += _LEADER_TAG + _LEADER.pack(*part.leader, 0)
