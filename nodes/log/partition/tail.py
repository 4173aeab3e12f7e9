"""Where the last batches of a segment are, so that readers at its end need no index."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

KEPT: Final = 512
"""Batches that are remembered, and up to twice as many."""


class Tail:
    """The base offsets and positions of the last batches, without gaps between offsets."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")

    def note(self, base_offset: int, position: int) -> None:
        """Remember a batch that was appended."""
        self._offsets.append(base_offset)
        self._positions.append(position)
        if len(self._offsets) > 2 * KEPT:
            del self._offsets[:KEPT]
            del self._positions[:KEPT]

    def clear(self) -> None:
        """Forget everything."""
        del self._offsets[:]
        del self._positions[:]

    def has(self, offset: int) -> bool:
        """Return whether the batch with ``offset`` is remembered, unless the log ends before it."""
        return len(self._offsets) > 0 and offset >= self._offsets[0]

    def extent(
        self, offset: int, limit: int, most_bytes: int, end_offset: int, length: int
    ) -> tuple[int, int] | None:
        """Return where the bytes from the batch at ``offset`` to that at ``limit`` begin and end.

        The first batch, and others up to ``most_bytes`` with it; None if there is none. The segment
        ends at ``end_offset``, byte ``length``.
        """
        offsets, positions = self._offsets, self._positions
        first = bisect_right(offsets, offset) - 1
        stop = len(offsets) if limit >= end_offset else bisect_right(offsets, limit) - 1
        if stop <= first or offset >= end_offset:
            return None
        start = positions[first]
        end = positions[stop] if stop < len(positions) else length
        if start + most_bytes < end:  # A client may also name a negative number.
            after_first = positions[first + 1] if first + 1 < len(positions) else length
            whole = bisect_right(positions, start + max(most_bytes, 0)) - 1
            end = max(positions[whole], after_first)
        return start, end
