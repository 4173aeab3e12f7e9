"""Walks over the batches of a segment's file that read headers, and checksums on demand.

Pieces of the file are read, never all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.batch import (
    CRC_START,
    HEADER_SIZE,
    BatchError,
    BatchHeader,
    parse_header,
)
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.log.media import Media

_PAGE: Final = 4096
_PIECE: Final = 1 << 20

Placed = tuple[int, BatchHeader]
"""The position of a batch in its file, and its header."""


def walk(path: Path, media: Media, position: int, end: int) -> Iterator[Placed]:
    """Yield the batches from byte ``position`` on; the last must end at byte ``end``.

    Raises :class:`BatchError` at the first that is no whole batch, and OSError.
    """
    start, page = position, b""
    while position < end:
        if position + HEADER_SIZE > start + len(page):
            start = position
            page = media.read_at(path, start, min(_PAGE, end - start))
        header = parse_header(page, position - start)
        if position + header.length > end:
            raise BatchError(f"batch of {header.length} bytes is cut off after {end - position}")
        yield position, header
        position += header.length


class Checked:
    """A walk over a whole file that also checks checksums and the order of offsets and epochs.

    It ends at the first batch that is not sound. ``length`` are the sound bytes; ``defect`` says
    why it ended before the end of the file, None if it did not.
    """

    def __init__(self, path: Path, media: Media, size: int, base_offset: int) -> None:
        self.length = 0
        self.defect: str | None = None
        self._path = path
        self._media = media
        self._size = size
        self._end_offset = base_offset
        self._epoch = -1
        self._piece = b""
        self._start = 0

    def __iter__(self) -> Iterator[Placed]:
        while self.length < self._size:
            try:
                header = parse_header(self._bytes(self.length, HEADER_SIZE))
            except BatchError as error:
                self.defect = str(error)
                return
            self.defect = self._defect_of(header)
            if self.defect is not None:
                return
            position = self.length
            self.length += header.length
            self._end_offset = header.last_offset + 1
            self._epoch = header.epoch
            yield position, header

    def _defect_of(self, header: BatchHeader) -> str | None:
        if self.length + header.length > self._size:
            return f"batch of {header.length} bytes is cut off after {self._size - self.length}"
        if header.base_offset < self._end_offset:
            return f"base offset {header.base_offset} comes after {self._end_offset - 1}"
        if header.epoch < self._epoch:
            return f"epoch goes back from {self._epoch} to {header.epoch}"
        if self._checksum(self.length + CRC_START, self.length + header.length) != header.crc:
            return "batch has a wrong checksum"
        return None

    def _checksum(self, position: int, end: int) -> int:
        value = 0
        while position < end:
            part = self._bytes(position, min(end - position, _PIECE))
            if not part:
                return -1
            value = crc32c(part, value)
            position += len(part)
        return value

    def _bytes(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end of the file."""
        start = position - self._start
        if start < 0 or start + size > len(self._piece):
            self._start, start = position, 0
            self._piece = self._media.read_at(self._path, position, _PIECE)
        return self._piece[start : start + size]
