"""Appends and reads of a log, from calls or from typed columns.

``append`` v is answered with nothing, with ``[offset, v]``, or with a field ``offset``.
``read`` returns the whole list; with a field ``offset`` it returns the one value there (null:
nothing yet). ``fetch`` returns pairs ``[[offset, v], …]``, ``size`` the number of records,
which is the next offset.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.models import ModelError, freeze
from kraftwreck.checkers.linearizability.zones.operations import Ints, pair_rows
from kraftwreck.histories.operation import FAIL, OK

NOWHERE = -1


@dataclass
class LogOperations:
    """Appends, values seen at offsets, and sizes; times are positions of events.

    ``values`` are codes, equal for equal values, -1 for an empty offset. ``call`` numbers
    operations; ``failed`` are the codes of values of which all appends failed.
    """

    append_call: Ints
    append_start: Ints
    append_end: Ints
    append_value: Ints
    append_offset: Ints
    point_call: Ints
    point_start: Ints
    point_end: Ints
    point_value: Ints
    point_offset: Ints
    size_call: Ints
    size_start: Ints
    size_end: Ints
    size: Ints
    failed: Ints
    never: int
    dense: bool


@dataclass
class _Rows:
    appends: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    points: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    sizes: list[tuple[int, int, int, int]] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)


def from_calls(calls: Sequence[Call]) -> LogOperations:
    """Convert calls. ``call`` numbers are the calls' ``start``.

    Raises :class:`~checkers.linearizability.models.ModelError` for values of another shape.
    """
    rows = _Rows()
    codes: dict[Hashable, int] = {}
    never = max((max(call.start, call.completion) for call in calls), default=0) + 1
    longest: list[Any] = []
    whole: list[tuple[Call, list[Any]]] = []
    for call in calls:
        end = call.end if call.type == OK else never
        if call.f == "append":
            value = codes.setdefault(freeze(call.argument), len(codes))
            if call.type == FAIL:
                rows.failed.append(value)
                continue
            rows.appends.append((call.start, call.start, end, value, _told(call)))
            continue
        if call.f not in ("read", "fetch", "size"):
            raise ModelError(f"operation {call.start}: model log has no operation {call.f!r}")
        if call.type != OK:
            continue
        seen: Any = call.value
        if call.f == "size":
            if not isinstance(seen, int):
                raise ModelError(f"operation {call.start}: a size must be a number")
            rows.sizes.append((call.start, call.start, end, seen))
        elif call.f == "fetch":
            for offset, value in _pairs(call):
                code = NOWHERE if value is None else codes.setdefault(freeze(value), len(codes))
                rows.points.append((call.start, call.start, end, code, offset))
        else:
            if not isinstance(seen, list):
                raise ModelError(f"operation {call.start}: a read must be the list of all values")
            whole.append((call, seen))
            rows.sizes.append((call.start, call.start, end, len(seen)))
            if len(seen) > len(longest):
                longest = seen
    for call, listed in whole:
        # A prefix of the longest read adds only its length.
        if listed is not longest and listed == longest[: len(listed)]:
            continue
        for offset, item in enumerate(listed):
            code = codes.setdefault(freeze(item), len(codes))
            rows.points.append((call.start, call.start, call.end, code, offset))
    return _arrays(rows, never, bool(whole))


def _told(call: Call) -> int:
    """Return the offset in an append's answer, or NOWHERE."""
    value = call.value
    if call.type == OK and isinstance(value, list) and len(value) == 2 and value != call.argument:
        offset, echoed = value
        if isinstance(offset, int) and not isinstance(offset, bool) and echoed == call.argument:
            return offset
        raise ModelError(
            f"operation {call.start}: an append is answered with [offset, value], got {value!r}"
        )
    return NOWHERE


def _pairs(call: Call) -> list[tuple[int, Any]]:
    pairs = call.value
    if not isinstance(pairs, list) or not all(
        isinstance(p, list) and len(p) == 2 and isinstance(p[0], int) for p in pairs
    ):
        raise ModelError(f"operation {call.start}: a fetch must be a list of [offset, value]")
    return [(offset, value) for offset, value in pairs]


def _arrays(rows: _Rows, never: int, dense: bool) -> LogOperations:
    def columns(items: list[Any], count: int) -> list[Ints]:
        table = np.array(items, np.int64).reshape(len(items), count)
        return [table[:, i] for i in range(count)]

    appended = {row[3] for row in rows.appends}
    appends, points, sizes = (
        columns(rows.appends, 5),
        columns(rows.points, 5),
        columns(rows.sizes, 4),
    )
    return LogOperations(
        append_call=appends[0],
        append_start=appends[1],
        append_end=appends[2],
        append_value=appends[3],
        append_offset=appends[4],
        point_call=points[0],
        point_start=points[1],
        point_end=points[2],
        point_value=points[3],
        point_offset=points[4],
        size_call=sizes[0],
        size_start=sizes[1],
        size_end=sizes[2],
        size=sizes[3],
        failed=np.array(sorted(set(rows.failed) - appended), np.int64),
        never=never,
        dense=dense,
    )


def from_columns(table: pa.Table) -> LogOperations:
    """Convert a table with whole-number columns ``value`` and ``offset``.

    ``call`` numbers are rows of invocations. Raises
    :class:`~checkers.linearizability.models.ModelError` for other operations than append and read.
    """
    pairs = pair_rows(table)
    f = pc.index_in(table.column("f"), pa.array(["append", "read"])).to_numpy()[pairs.begun]
    if len(f) and (np.isnan(f).any() if f.dtype.kind == "f" else (f < 0).any()):
        raise ModelError("a log with a column 'offset' has no operations but append and read")
    value, offset = (_whole(table.column(name)) for name in ("value", "offset"))
    values = pc.fill_null(value, NOWHERE).to_numpy()
    if int((values == NOWHERE).sum()) != value.null_count:
        # Some append has the very number that stands for nothing here.
        values = pc.fill_null(value.dictionary_encode().indices, NOWHERE).to_numpy()
    offsets = pc.fill_null(offset, NOWHERE).to_numpy()
    never = len(table)
    ok, failed = pairs.outcome == 1, pairs.outcome == 2
    appends = np.flatnonzero((f == 0) & ~failed)
    reads = np.flatnonzero((f == 1) & ok)
    begun, done, sure = pairs.begun[appends], pairs.done[appends], ok[appends]
    seen = pairs.done[reads]
    lost = values[pairs.begun[(f == 0) & failed]]
    nothing = np.zeros(0, np.int64)
    return LogOperations(
        append_call=begun,
        append_start=begun,
        append_end=np.where(sure, done, never),
        append_value=values[begun],
        append_offset=np.where(sure, offsets[np.maximum(done, 0)], NOWHERE),
        point_call=pairs.begun[reads],
        point_start=pairs.begun[reads],
        point_end=seen,
        point_value=np.where(
            value.is_null().to_numpy(zero_copy_only=False)[seen], NOWHERE, values[seen]
        ),
        point_offset=offsets[seen],
        size_call=nothing,
        size_start=nothing,
        size_end=nothing,
        size=nothing,
        failed=np.setdiff1d(lost, values[begun]) if len(lost) else nothing,
        never=never,
        dense=False,
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
