"""The compiled loop of :mod:`checkers.linearizability.logs.stream` (decision 11)."""

from __future__ import annotations

from typing import Any

from numba import njit

NOTHING = -(1 << 63)
"""Stands for null among values and offsets."""
ROW, F, VALUE, BOUND, RIVAL = range(5)
"""Fields of an open operation: its invocation, its kind, the highest level that ended before it."""
LAST_INDEX, TOP, TOP_ROW, OPERATIONS, DOUBTS, LATE, EARLY = range(7)
SCALARS = 7
FREE, SEEN, TOLD = 0, 1, 2
FINE, UNDECIDED, ORDER, ONE_OFFSET, OTHER_VALUE, TWO_VALUES = range(6)
_INVOKE, _OK, _FAIL = 0, 1, 2
_APPEND = 0


@njit(cache=True, nogil=True)
def advance(
    first: int, index: Any, process: Any, kind: Any, f: Any, value: Any, offset: Any,
    open_: Any, held: Any, teller: Any, state: Any, doubts: Any, scalars: Any,
) -> int:  # fmt: skip
    """Take in one batch of events, the first of which is event ``first`` of the history.

    ``open_`` has a row for every process. ``held``, ``teller`` (an invocation) and ``state`` have
    an entry for every offset. ``doubts`` has a row for each event. Returns FINE or the kind of
    error; then LATE and EARLY of ``scalars`` are the invocations that show it.
    """
    for at in range(len(index)):
        if index[at] <= scalars[LAST_INDEX] or f[at] < 0 or kind[at] < 0:
            return UNDECIDED
        scalars[LAST_INDEX] = index[at]
        mine = open_[process[at]]
        if kind[at] == _INVOKE:
            if mine[ROW] >= 0 or (f[at] == _APPEND and value[at] == NOTHING):
                return UNDECIDED
            mine[ROW] = first + at
            mine[F] = f[at]
            mine[VALUE] = value[at]
            mine[BOUND] = scalars[TOP]
            mine[RIVAL] = scalars[TOP_ROW]
            continue
        row = mine[ROW]
        if row < 0 or mine[F] != f[at]:
            return UNDECIDED
        mine[ROW] = -1
        if kind[at] == _FAIL:
            continue
        if kind[at] != _OK:
            if f[at] == _APPEND:
                scalars[OPERATIONS] += 1
                doubts[scalars[DOUBTS]] = mine
                doubts[scalars[DOUBTS], ROW] = row
                scalars[DOUBTS] += 1
            continue
        scalars[OPERATIONS] += 1
        where = offset[at]
        if where < 0:
            return UNDECIDED
        scalars[LATE] = row
        if f[at] == _APPEND:
            level = 4 * where + 1
            what = mine[VALUE]
            if state[where] != FREE and (state[where] == TOLD or held[where] != what):
                scalars[EARLY] = teller[where]
                return ONE_OFFSET if state[where] == TOLD else OTHER_VALUE
            state[where] = TOLD
            held[where] = what
            teller[where] = row
        elif value[at] != NOTHING:
            level = 4 * where + 2
            if state[where] == FREE:
                state[where] = SEEN
                held[where] = value[at]
                teller[where] = row
            elif held[where] != value[at]:
                scalars[EARLY] = teller[where]
                return OTHER_VALUE if state[where] == TOLD else TWO_VALUES
        else:
            level = 4 * where
        # A seen value binds only from below, and an empty result only from above.
        if level % 4 != 2 and mine[BOUND] > level:
            scalars[EARLY] = mine[RIVAL]
            return ORDER
        if level % 4 != 0 and level > scalars[TOP]:
            scalars[TOP] = level
            scalars[TOP_ROW] = row
    return FINE
