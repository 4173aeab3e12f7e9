"""Sparse indexes of a segment: ``.index`` by offset, ``.timeindex`` by timestamp.

Kafka's formats, big-endian. An entry of the first is ``last offset of a batch - base 4 | position
of the batch 4``, of the second ``largest timestamp so far 8 | last offset of its batch - base 4``.
New entries wait in memory, at most :data:`SPILL` bytes of each index, so that most appends write
the log only. They are lost with the process; a start after a crash rebuilds the indexes.
Look-ups read pieces of the file, never all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from kraftwreck.nodes.log.media import Media

SPILL: Final = 4096
_BLOCK: Final = 512
"""Entries that are read at once; a search in a longer range reads single ones first."""

_OFFSET = Struct(">ii")
_TIME = Struct(">qi")
Entry = tuple[int, int]


class SparseIndex:
    """Entries in ascending order: those in the file at ``path``, then those in memory."""

    def __init__(self, path: Path, form: Struct, media: Media, stored: int = 0) -> None:
        self.path = path
        self._form = form
        self._media = media
        self._stored = stored
        """Entries in the file."""
        self._waiting = bytearray()

    def __len__(self) -> int:
        return self._stored + len(self._waiting) // self._form.size

    def entry(self, number: int) -> Entry:
        """Return entry ``number``. Raises OSError, or IndexError if there is none."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self.path}: no entry {number} of {len(self)}")
        first, second = self._form.unpack(self._read(number, 1))
        return first, second

    def last(self) -> Entry | None:
        """Return the last entry, None without any. Raises OSError."""
        return self.entry(len(self) - 1) if len(self) else None

    def count_below(self, is_above: Callable[[Entry], bool]) -> int:
        """Return the number of entries before the first that ``is_above``, as are all after it.

        Raises OSError.
        """
        low, high = 0, len(self)
        while high - low > _BLOCK:
            middle = (low + high) // 2
            if is_above(self.entry(middle)):
                high = middle
            else:
                low = middle + 1
        start, block = low, self._read(low, high - low)
        unpack, size = self._form.unpack_from, self._form.size
        while low < high:
            middle = (low + high) // 2
            if is_above(unpack(block, (middle - start) * size)):
                high = middle
            else:
                low = middle + 1
        return low

    def add(self, first: int, second: int) -> None:
        """Append an entry, in memory only."""
        self._waiting += self._form.pack(first, second)

    def drop_from(self, count: int) -> None:
        """Keep the first ``count`` entries. Raises OSError."""
        if count < self._stored:
            file = self._media.open(self.path)
            try:
                file.truncate(count * self._form.size)
            finally:
                file.close()
            self._stored = count
            self._waiting.clear()
        else:
            del self._waiting[(count - self._stored) * self._form.size :]

    def is_full(self) -> bool:
        """Return whether enough entries wait to be written."""
        return len(self._waiting) >= SPILL

    def write(self, *, durably: bool = False) -> None:
        """Write the waiting entries. Raises OSError, and then they still wait."""
        if not self._waiting and not durably:
            return
        file = self._media.open(self.path)
        try:
            # What an earlier attempt may have left is overwritten.
            file.truncate(self._stored * self._form.size)
            file.append(bytes(self._waiting))
            if durably:
                file.fsync()
        finally:
            file.close()
        self._stored += len(self._waiting) // self._form.size
        self._waiting.clear()

    def _read(self, number: int, count: int) -> bytes:
        """Return the bytes of ``count`` entries from ``number`` on. Raises OSError."""
        size = self._form.size
        stored = max(min(self._stored - number, count), 0)
        data = self._media.read_at(self.path, number * size, stored * size) if stored else b""
        if len(data) != stored * size:
            raise OSError(f"{self.path}: {stored} entries from {number} on cannot be read")
        start = max(number - self._stored, 0) * size
        return data + self._waiting[start : start + (count - stored) * size]


def offset_index(path: Path, media: Media, size: int = 0) -> SparseIndex:
    """Return the index by offset whose file has ``size`` bytes. Raises ValueError for a part."""
    return _opened(path, _OFFSET, media, size)


def time_index(path: Path, media: Media, size: int = 0) -> SparseIndex:
    """Return the index by timestamp whose file has ``size`` bytes. Raises ValueError for a part."""
    return _opened(path, _TIME, media, size)


def _opened(path: Path, form: Struct, media: Media, size: int) -> SparseIndex:
    if size % form.size:
        raise ValueError(f"{path}: {size} bytes are no whole entries")
    return SparseIndex(path, form, media, size // form.size)
