"""Reads requests by hand: lengths, texts, numbers and tags, in plain and in flexible versions.

Nothing is copied but texts. Bytes that end too early raise IndexError or struct.error, other wrong
ones :class:`MalformedError`; :func:`refused` makes one ProtocolError of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct

from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint, skip_tags

_SHORT = Struct(">h")
_INT = Struct(">i")


@contextmanager
def refused(message: str, version: int) -> Iterator[None]:
    """Raise :class:`ProtocolError` for bytes that cannot be read."""
    try:
        yield
        return
    except (IndexError, struct.error):
        reason = "it ends too early"
    except UnicodeDecodeError as text:
        reason = f"a string is not UTF-8 ({text.reason})"
    except MalformedError as malformed:
        reason = str(malformed)
    raise ProtocolError(f"cannot decode {message} v{version}: {reason}")


class PlainReader:
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

    def count(self, most: int) -> int:
        """Return the length of an array. Raises MalformedError for null or above ``most``."""
        count = self.length()
        if count < 0:
            raise MalformedError("an array is null")
        if count > most:
            raise MalformedError(f"an array has {count} items, more than {most}")
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
