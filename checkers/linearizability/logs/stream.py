"""Long logs with offsets, decided while they are read.

In the order of events, levels (:mod:`checkers.linearizability.logs.decide`) need no sorting. An
operation that begins remembers the highest level on which another had ended by then, and must not
turn out to be below it. So one pass, with a few numbers per process and one entry per offset, shows
that a history is valid, or finds the first event that contradicts an earlier one. At the end,
appends without an answer are matched with seen values that no append has. Harder cases are left to
:mod:`checkers.linearizability.logs.decide`: equal values that might be confused, an append answered
without its offset, values that were never appended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.checkers.linearizability.zones.operations import TYPES, Ints, codes_in

_SPREAD = 8
"""At most this many offsets, or processes, per event have an entry each."""
_NAMES = {2: "order", 3: "one-offset", 4: "other-value", 5: "two-values"}


@dataclass(frozen=True)
class Passed:
    """The result of one pass over ``operations`` operations, up to the fault if there is one.

    ``fault`` is None for a valid history, else the kind of error and two invocations, by
    position, after ``events`` events.
    """

    operations: int
    fault: tuple[str, list[int]] | None
    events: int


def run(batches: Iterable[pa.RecordBatch]) -> Passed | None:
    """Return the result of one pass over the events; None if one pass is not enough."""
    from kraftwreck.checkers.linearizability.logs import kernels

    scalars = np.full(kernels.SCALARS, -1, np.int64)
    scalars[[kernels.OPERATIONS, kernels.DOUBTS]] = 0
    open_ = np.full((0, 5), -1, np.int64)
    doubts = np.empty((0, 5), np.int64)
    held, teller = np.empty(0, np.int64), np.empty(0, np.int64)
    state = np.zeros(0, np.int8)
    first = 0
    for batch in batches:
        columns = _columns(batch, first, kernels.NOTHING)
        if columns is None:
            return None
        index, process, kind, f, value, offset = columns
        last = first + len(index)
        highest = int(process.max(initial=-1)), int(offset.max(initial=-1))
        if process.min(initial=0) < 0 or max(highest) > _SPREAD * last + 1024:
            return None
        open_ = _longer(open_, highest[0], -1)
        doubts = _longer(doubts, int(scalars[kernels.DOUBTS]) + len(index), 0)
        held, teller = _longer(held, highest[1], 0), _longer(teller, highest[1], -1)
        state = _longer(state, highest[1], 0)
        found = kernels.advance(
            first, index, process, kind, f, value, offset,
            open_, held, teller, state, doubts, scalars,
        )  # fmt: skip
        first = last
        if found == kernels.UNDECIDED:
            return None
        count = int(scalars[kernels.OPERATIONS])
        if found != kernels.FINE:
            pair = [int(scalars[kernels.EARLY]), int(scalars[kernels.LATE])]
            return Passed(count, (_NAMES[found], pair), first)
    never = open_[(open_[:, kernels.ROW] >= 0) & (open_[:, kernels.F] == 0)]
    doubtful = np.concatenate([doubts[: scalars[kernels.DOUBTS]], never])
    seen = np.flatnonzero(state == kernels.SEEN)
    count = int(scalars[kernels.OPERATIONS]) + len(never)
    return _matched(doubtful, seen, held[seen], count, first)


def _matched(doubtful: Ints, where: Ints, what: Ints, count: int, events: int) -> Passed | None:
    """Match appends of unknown end with values that were seen, and check their places."""
    from kraftwreck.checkers.linearizability.logs import kernels

    order = np.argsort(what, kind="stable")
    where, what = where[order], what[order]
    if (what[1:] == what[:-1]).any():
        return None
    at = np.searchsorted(what, doubtful[:, kernels.VALUE])
    near = np.minimum(at, max(len(what) - 1, 0))
    mine = np.flatnonzero(what[near] == doubtful[:, kernels.VALUE]) if len(what) else at[:0]
    if len(mine) != len(what) or len(np.unique(near[mine])) != len(mine):
        return None
    late = mine[doubtful[mine, kernels.BOUND] > 4 * where[near[mine]] + 1]
    if len(late):
        one = doubtful[late[np.argmin(doubtful[late, kernels.ROW])]]
        return Passed(count, ("order", [int(one[kernels.RIVAL]), int(one[kernels.ROW])]), events)
    return Passed(count, None, events)


def _longer(array: Any, last: int, filling: int) -> Any:
    """Return ``array`` with an entry ``last``."""
    if last < len(array):
        return array
    size = max(last + 1, 2 * len(array))
    more = np.full((size - len(array), *array.shape[1:]), filling, array.dtype)
    return np.concatenate([array, more])


def _columns(batch: pa.RecordBatch, first: int, nothing: int) -> tuple[Any, ...] | None:
    """Return the columns as arrays; None if a value equals the number that stands for null."""
    if "index" not in batch.schema.names:
        batch = batch.append_column("index", pa.array(np.arange(first, first + len(batch))))
    index, process, value, offset = (
        batch.column(batch.schema.get_field_index(name))
        for name in ("index", "process", "value", "offset")
    )
    if index.null_count or process.null_count:
        return None
    kind, f = (
        codes_in(pa.chunked_array([batch.column(batch.schema.get_field_index(name))]), names)
        for name, names in (("type", TYPES), ("f", ("append", "read")))
    )
    numbers = [np.asarray(column.to_numpy(), np.int64) for column in (index, process)]
    for column in (value, offset):
        filled = np.asarray(pc.fill_null(column, nothing).to_numpy(), np.int64)
        if int((filled == nothing).sum()) != column.null_count:
            return None
        numbers.append(filled)
    return numbers[0], numbers[1], kind, f, numbers[2], numbers[3]
