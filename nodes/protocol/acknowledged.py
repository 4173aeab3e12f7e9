"""Answers to Produce, versions 3 to 13, written by hand.

The schema of :mod:`nodes.protocol.schemas.data` describes the same message; the tests compare the
bytes of both. Topics have names up to version 12, ids from 13 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.primitives import put_uvarint

_LOG_START: Final = 5
_MESSAGES: Final = 8
_FLEXIBLE: Final = 9
_NO_TIME: Final = -1
"""The time of the append, which is given only for topics with ``LogAppendTime``."""
_COUNT = Struct(">i")
_LENGTH = Struct(">h")
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
    out = bytearray(_COUNT.pack(correlation))
    if version < _FLEXIBLE:
        _plain(out, version, topics)
    else:
        _flexible(out, topics)
    return bytes(out)


def _plain(
    out: bytearray, version: int, topics: Mapping[str | bytes, Sequence[Acknowledged]]
) -> None:
    out += _COUNT.pack(len(topics))
    for topic, parts in topics.items():
        name = topic.encode() if isinstance(topic, str) else topic
        out += _LENGTH.pack(len(name))
        out += name
        out += _COUNT.pack(len(parts))
        for number, error, base_offset, log_start in parts:
            if version < _LOG_START:
                out += _OLDEST.pack(number, error, base_offset, _NO_TIME)
            else:
                out += _WITH_START.pack(number, error, base_offset, _NO_TIME, log_start)
            if version >= _MESSAGES:
                out += _NO_MESSAGES
    out += _NO_THROTTLE


def _flexible(out: bytearray, topics: Mapping[str | bytes, Sequence[Acknowledged]]) -> None:
    out.append(0)
    put_uvarint(out, len(topics) + 1)
    for topic, parts in topics.items():
        if isinstance(topic, str):
            name = topic.encode()
            put_uvarint(out, len(name) + 1)
            out += name
        else:
            out += topic
        put_uvarint(out, len(parts) + 1)
        for number, error, base_offset, log_start in parts:
            out += _WITH_START.pack(number, error, base_offset, _NO_TIME, log_start)
            out += _NO_MESSAGES_NOR_TAGS
        out.append(0)
    out += _NO_THROTTLE
    out.append(0)
