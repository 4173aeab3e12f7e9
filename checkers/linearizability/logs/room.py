"""Offsets for appends whose offset was neither in an answer nor seen.

An append comes after all operations behind lower offsets that ended before it began. That bounds
its offset from below. Operations before higher offsets that began after it ended bound it from
above. Each append needs an offset of its own within its bounds. Free offsets are assigned from the
lowest on, each to the append with the least upper bound. That is exact: if one append ended before
another began, it has the lower bounds, so it gets the lower offset.
"""

from __future__ import annotations

import heapq

import numpy as np

from kraftwreck.checkers.linearizability.logs.levels import Placed
from kraftwreck.checkers.linearizability.zones.operations import Flags, Ints

_FAR = 1 << 60


def hand_out(
    starts: Ints, ends: Ints, sure: Flags, placed: Placed, taken: Ints, dense: bool
) -> tuple[Ints, int | None]:
    """Return an offset for every append (-1: it did not happen), or an append without one.

    ``placed`` has all operations with a place, ``taken`` the offsets in use. In a ``dense`` log
    every offset below a used one, or below a size, is used. If no append can fill such an offset
    there is no order; this is returned as append ``len(starts)``.
    """
    offsets = np.full(len(starts), -1, np.int64)
    lows, highs = _bounds(starts, ends, placed)
    until = -1
    if dense:
        until = max(int(taken.max(initial=-1)), int(placed.level.max(initial=0) - 1) // 4)
    order = np.lexsort((starts, lows)).tolist()
    free = _Free(taken)
    waiting: list[tuple[int, int, int]] = []
    at, left, offset = 0, int(sure.sum()), 0
    while left or offset <= until:
        if not waiting and not dense:
            # Every append that is left is certain, so one is to come.
            offset = max(offset, int(lows[order[at]]))
        offset = free.at_least(offset)
        if not left and offset > until:
            break
        while at < len(order) and lows[order[at]] <= offset:
            append = order[at]
            heapq.heappush(waiting, (int(highs[append]), int(starts[append]), append))
            at += 1
        if offset > until:
            waiting = [entry for entry in waiting if sure[entry[2]]]
            heapq.heapify(waiting)
        if not waiting:
            return offsets, len(starts)
        high, _, append = heapq.heappop(waiting)
        if high < offset:
            return offsets, append
        offsets[append] = offset
        left -= int(sure[append])
        offset += 1
    return offsets, None


class _Free:
    """The offsets that are not in use."""

    def __init__(self, taken: Ints) -> None:
        every = np.unique(taken)
        ends = np.flatnonzero(np.diff(every) != 1)
        self._first = every[np.concatenate([[0], ends + 1])] if len(every) else every
        self._last = every[np.concatenate([ends, [len(every) - 1]])] if len(every) else every

    def at_least(self, offset: int) -> int:
        """Return the lowest free offset from ``offset`` on."""
        run = int(np.searchsorted(self._first, offset, side="right")) - 1
        if run >= 0 and offset <= self._last[run]:
            return int(self._last[run]) + 1
        return offset


def _bounds(starts: Ints, ends: Ints, placed: Placed) -> tuple[Ints, Ints]:
    """Return the least and the greatest offset of each append; levels are 4 to an offset."""
    after = np.flatnonzero(placed.after)
    after = after[np.argsort(placed.end[after], kind="stable")]
    highest = np.maximum.accumulate(np.concatenate([[-2], placed.level[after]]))
    level = highest[np.searchsorted(placed.end[after], starts, side="left")]
    # The first offset whose level 4 n + 1 is above it.
    lows = np.maximum((level + 3) // 4, 0)
    before = np.flatnonzero(placed.before)
    before = before[np.argsort(placed.start[before], kind="stable")]
    levels = np.concatenate([placed.level[before], [_FAR]])
    lowest = np.minimum.accumulate(levels[::-1])[::-1]
    level = lowest[np.searchsorted(placed.start[before], ends, side="right")]
    return lows, np.maximum((level + 2) // 4 - 1, -1)
