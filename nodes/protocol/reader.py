"""Reads requests by hand: lengths, texts, numbers and tags, in plain and in flexible versions.

Nothing is copied but texts. A reader raises one of :data:`nodes.protocol.codec.UNREADABLE` for
wrong bytes; :func:`read_body` makes a ProtocolError of it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar

from kraftwreck.nodes.protocol.codec import UNREADABLE, ProtocolError, unreadable
from kraftwreck.nodes.protocol.primitives import (
    Buffer,
    MalformedError,
    get_uvarint,
    more_uvarint,
    skip_tags,
)

_SHORT = Struct(">h")
_INT = Struct(">i")
_MORE: Final = 128
"""A byte from this on has more of the varint after it."""
T = TypeVar("T")


def read_body(
    api: str,
    version: int,
    versions: range,
    flexible: int,
    place: tuple[Buffer, int, int],
    body: Callable[[PlainReader, int], T],
) -> T:
    """Return what ``body`` reads of a request of ``api``, given a reader and the version.

    ``place`` has the frame, the offset of the body, and how many items all arrays together may
    have. Versions from ``flexible`` on have tags. Raises :class:`ProtocolError` for a version
    outside of ``versions``, and for bytes that cannot be read.
    """
    if version not in versions:
        known = f"{versions[0]} to {versions[-1]}"
        raise ProtocolError(f"{api} has versions {known}, not {version}")
    kind = FlexibleReader if version >= flexible else PlainReader
    try:
        return body(kind(*place), version)
    except UNREADABLE as error:
        reason = unreadable(f"{api}Request", version, error)
    raise ProtocolError(reason)


class PlainReader:
    """Reads lengths of plain versions, which have no tags."""

    def __init__(self, frame: Buffer, position: int, items: int) -> None:
        self.frame = frame
        self.position = position
        self.size = len(frame)
        self._items = items

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

    def count(self) -> int:
        """Return the length of an array. Raises MalformedError for null, or for too many items."""
        count = self.length()
        if count < 0:
            raise MalformedError("an array is null")
        if count > self._items:
            raise MalformedError(f"an array has {count} items, more than {self._items}")
        self._items -= count
        return count

    def topic(self, by_id: bool) -> str | bytes:
        """Return the 16 bytes of a topic's id, or its name."""
        if by_id:
            start = self.skip(16)
            return bytes(self.frame[start : start + 16])
        name = self.text()
        if name is None:
            raise MalformedError("the name of a topic is null")
        return name

    def end_of_struct(self) -> None:
        """Skip tagged fields; there are none in plain versions."""

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


class FlexibleReader(PlainReader):
    """Reads lengths and tags of flexible versions. Most lengths have one byte, most tags none."""

    def text_length(self) -> int:
        """Return the length of a string, -1 for null."""
        return self.length()

    def length(self) -> int:
        """Return the length of anything, -1 for null."""
        position = self.position
        first = self.frame[position]
        if first < _MORE:
            self.position = position + 1
            return first - 1
        value, self.position = more_uvarint(self.frame, position + 1, first)
        return value - 1

    def end_of_struct(self) -> None:
        """Skip the tagged fields; none is known."""
        position = self.position
        if self.frame[position] == 0:
            self.position = position + 1
            return
        count, position = get_uvarint(self.frame, position)
        self.position = skip_tags(self.frame, position, self.size, count)
