"""One order of operations whose places are known, or two operations that contradict each other.

Every operation has a level, and operations on lower levels come first. An operation may bind from
below: it comes *after* all lower levels, so it must not end before an operation there began. Or it
may bind from above: it comes *before* all higher levels. There is no order iff an operation that
binds from below ended before one on a lower level, which binds from above, began. Otherwise the
moment of each level is the latest start on it or below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kraftwreck.checkers.linearizability.zones.operations import Flags, Ints


@dataclass(frozen=True)
class Placed:
    """``before``: comes before higher levels; ``after``: comes after lower ones."""

    level: Ints
    start: Ints
    end: Ints
    before: Flags
    after: Flags


def contradiction(placed: Placed) -> tuple[int, int] | None:
    """Return two positions (late, early), or None when there is an order.

    ``late`` has the lower level, yet began after ``early`` ended. Of all such pairs the
    first is returned whose ``late`` operation ended first.
    """
    lows = np.flatnonzero(placed.before)
    highs = np.flatnonzero(placed.after)
    if not len(lows) or not len(highs):
        return None
    size = int(placed.level.max()) + 2
    never = int(placed.end.max())
    if size <= 8 * len(placed.level) + 1024:
        # least[l]: the first end on a level above l.
        first = np.full(size + 1, never, np.int64)
        np.minimum.at(first, placed.level[highs], placed.end[highs])
        least = np.minimum.accumulate(first[::-1])[::-1]
        bound = least[placed.level[lows] + 1]
    else:
        order = highs[np.argsort(placed.level[highs], kind="stable")]
        ends = np.minimum.accumulate(placed.end[order][::-1])[::-1]
        at = np.searchsorted(placed.level[order], placed.level[lows], side="right")
        bound = np.append(ends, never)[at]
    wrong = lows[bound < placed.start[lows]]
    if not len(wrong):
        return None
    late = int(wrong[np.argmin(placed.end[wrong])])
    above = (placed.level[highs] > placed.level[late]) & (placed.end[highs] < placed.start[late])
    rivals = highs[above]
    return late, int(rivals[np.argmax(placed.end[rivals])])


def order_of(placed: Placed) -> Ints:
    """Return a legal order, as positions: each level's moment, then operations by level.

    An operation that binds only from below is placed at its start if that is later than its
    level's moment. One that binds only from above is placed as early as it began.
    """
    by_level = np.argsort(placed.level, kind="stable")
    starts = np.where(placed.before, placed.start, -1)[by_level]
    reach = np.maximum.accumulate(starts)
    # Levels share one moment: that of the last operation on the level.
    levels = placed.level[by_level]
    last = np.searchsorted(levels, levels, side="right") - 1
    moment = np.empty(len(levels), np.int64)
    moment[by_level] = reach[last]
    bound_below = np.maximum(moment, placed.start)
    at = np.where(placed.before & placed.after, moment, bound_below)
    at = np.where(placed.before & ~placed.after, placed.start, at)
    free = ~placed.before & ~placed.after
    at = np.where(free, placed.start, at)
    return np.lexsort((placed.start, placed.level, at))
