"""Frames of Kafka's protocol in the bytes of a connection: each has its length before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

SIZE: Final = 4
"""Bytes of the length."""


def framed(frame: bytes) -> bytes:
    """Return ``frame`` with its length before it."""
    return len(frame).to_bytes(SIZE, "big") + frame


class Frames:
    """Puts frames together from the pieces in which they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def taken(self, data: bytes) -> Iterator[bytes]:
        """Take in ``data``, and yield each frame that is whole, without its length."""
        self._buffer += data
        while len(self._buffer) >= SIZE:
            end = SIZE + int.from_bytes(self._buffer[:SIZE], "big")
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[SIZE:end])
            del self._buffer[:end]
            yield frame
