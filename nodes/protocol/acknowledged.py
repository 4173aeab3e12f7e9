"""Answers to Produce, versions 3 to 13, written by hand.

The schema of :mod:`nodes.protocol.schemas.data` describes the same message; the tests compare the
bytes of both. Topics have names up to version 12, ids from 13 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.writer import put_count, put_topic

_LOG_START: Final = 5
_MESSAGES: Final = 8
_FLEXIBLE: Final = 9
_NO_TIME: Final = -1
"""The time of the append, which is given only for topics with ``LogAppendTime``."""
_INT = Struct(">i")
_OLDEST = Struct(">ihqq")
_WITH_START = Struct(">ihqqq")
_NO_MESSAGES: Final = b"\0\0\0\0\xff\xff"
_NO_MESSAGES_NOR_TAGS: Final = b"\1\0\0"
"""No errors of single records, no message (null), and in flexible versions no tags."""
_NO_THROTTLE: Final = bytes(4)


class Acknowledged(NamedTuple):
    """The result of one partition; offsets are -1 if they are not known."""

    number: int
    error: int
    base_offset: int = -1
    log_start: int = -1


def produce_answer(
    version: int, correlation: int, topics: Mapping[str | bytes, Sequence[Acknowledged]]
) -> bytes:
    """Return header and body of the answer, without the length before them."""
    flexible = version >= _FLEXIBLE
    out = bytearray(_INT.pack(correlation))
    if flexible:
        out.append(0)
    put_count(out, len(topics), flexible)
    for topic, parts in topics.items():
        put_topic(out, topic, flexible)
        put_count(out, len(parts), flexible)
        for number, error, base_offset, log_start in parts:
            if version < _LOG_START:
                out += _OLDEST.pack(number, error, base_offset, _NO_TIME)
            else:
                out += _WITH_START.pack(number, error, base_offset, _NO_TIME, log_start)
            if flexible:
                out += _NO_MESSAGES_NOR_TAGS
            elif version >= _MESSAGES:
                out += _NO_MESSAGES
        if flexible:
            out.append(0)
    out += _NO_THROTTLE
    if flexible:
        out.append(0)
    return bytes(out)
