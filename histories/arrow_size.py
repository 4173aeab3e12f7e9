"""The memory that the compressed buffers of an Arrow file need, read before they are unpacked.

Each compressed buffer begins with its length before compression. This reads the file's footer, the
headers of its batches and those lengths, and nothing else: Apache Arrow, "Columnar Format",
sections IPC File Format and Buffer Compression; the tables are FlatBuffers of its Message.fbs and
File.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAGIC: Final = b"ARROW1"
_DICTIONARY_BATCH: Final = 2
_BLOCK: Final = 24
"""Bytes of a Block: offset, length of its metadata, padding, length of its body."""
_BUFFER: Final = 16
"""Bytes of a Buffer: offset in the body, length."""


class _Table:
    """A table of a FlatBuffer; fields are numbered in the order of the schema."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _place(self, field: int) -> int:
        """Return where a field is, 0 if it is left out."""
        known = self._at - struct.unpack_from("<i", self._data, self._at)[0]
        entry = 4 + 2 * field
        if entry >= struct.unpack_from("<H", self._data, known)[0]:
            return 0
        offset = struct.unpack_from("<H", self._data, known + entry)[0]
        return self._at + offset if offset else 0

    def byte(self, field: int) -> int:
        place = self._place(field)
        return self._data[place] if place else 0

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        if not place:
            return None
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def structs(self, field: int, size: int) -> Iterator[bytes]:
        """Yield the structs of a vector."""
        place = self._place(field)
        if place:
            start = place + struct.unpack_from("<I", self._data, place)[0]
            for number in range(struct.unpack_from("<I", self._data, start)[0]):
                at = start + 4 + number * size
                yield self._data[at : at + size]


def unpacked_bytes(path: Path) -> int:
    """Return the bytes of all compressed buffers of an Arrow file after unpacking.

    0 for a file without compression. Raises :class:`ValueError` if the file is no Arrow file or
    its parts do not fit together.
    """
    try:
        return _unpacked(path)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"not an Arrow file: {error}") from None


def _unpacked(path: Path) -> int:
    size, total = path.stat().st_size, 0
    with path.open("rb") as file:

        def read(at: int, count: int) -> bytes:
            if at < 0 or count < 0 or at + count > size:
                raise ValueError(f"not an Arrow file: it ends before byte {at + count}")
            file.seek(at)
            return file.read(count)

        tail = 4 + len(_MAGIC)
        end = read(size - tail, tail)
        if end[4:] != _MAGIC:
            raise ValueError("not an Arrow file: no footer")
        length = struct.unpack("<I", end[:4])[0]
        footer = _Table.root(read(size - tail - length, length))
        for blocks in (2, 3):  # dictionaries, recordBatches
            for block in footer.structs(blocks, _BLOCK):
                at, metadata, _, _ = struct.unpack("<qiiq", block)
                # The marker of a continuation and a length come before the metadata.
                message = _Table.root(read(at + 8, metadata - 8))
                header = message.table(2)
                if header is not None and message.byte(1) == _DICTIONARY_BATCH:
                    header = header.table(1)
                if header is None or header.table(3) is None:
                    continue  # It is not compressed.
                for buffer in header.structs(2, _BUFFER):
                    place, stored = struct.unpack("<qq", buffer)
                    if stored >= 8:
                        total += max(0, struct.unpack("<q", read(at + metadata + place, 8))[0])
    return total
