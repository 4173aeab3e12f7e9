"""Logs judged key by key: by levels, or by a search if values do not distinguish appends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import thread_time
from typing import cast

import numpy as np
import pyarrow as pa

from kraftwreck.checkers.calls import Call, by_key, known, pair
from kraftwreck.checkers.linearizability.decide import Outcome
from kraftwreck.checkers.linearizability.keyed import KeyVerdict, describe
from kraftwreck.checkers.linearizability.level_walk import time_left
from kraftwreck.checkers.linearizability.logs import stream
from kraftwreck.checkers.linearizability.logs.decide import AmbiguousError, Verdict, decide
from kraftwreck.checkers.linearizability.logs.operations import (
    LogOperations,
    from_calls,
    from_columns,
)
from kraftwreck.checkers.linearizability.logs.typed_file import TypedFile, typed_file
from kraftwreck.checkers.linearizability.machines.log import Log
from kraftwreck.checkers.linearizability.machines.narrowing import narrowed
from kraftwreck.checkers.linearizability.machines.search import check as search
from kraftwreck.checkers.linearizability.zones.operations import call_at, pair_rows
from kraftwreck.histories.column_files import with_schema
from kraftwreck.histories.events import Event, to_ops
from kraftwreck.histories.operation import INFO, OK
from kraftwreck.histories.source import Source
from kraftwreck.histories.tables import HistoryError

_LOOKED_S = 10.0
_LOOKED_ROWS = 2_000_000
"""The limit, in time and in events, of halving to find the first impossible moment. Longer logs
are decided while they are read, if that is enough."""
_WORDS = {
    "one-offset": "Two appends were answered with one offset",
    "other-value": "A read found another value than was appended at the offset",
    "two-values": "Two reads found different values at one offset",
    "two-offsets": "One value, appended once, was found at two offsets",
    "phantom": "A read found a value that no call tried to append",
    "room": "This append happened, but no offset is left for it",
    "hole": "A record has an offset above one that no append can have",
    "aborted": "A read found a value whose append failed",
}


Order = Callable[[], list[int]]


def check_log(source: Source, time_limit_s: float) -> list[tuple[KeyVerdict, Order]]:
    """Return for every key the verdict, and a function for the order that proves it.

    Raises :class:`~checkers.linearizability.models.ModelError`.
    """
    deadline = thread_time() + time_limit_s
    file = typed_file(source)
    if file is not None:
        judged = _streamed(file) if file.rows > _LOOKED_ROWS else None
        return [judged or _judged_columns(file.table(), deadline)]
    calls = pair(to_ops(_with_offsets(source.events())))
    found = []
    for key, group in by_key(calls).items():
        outcome, order = judge_calls(group, deadline)
        found.append((KeyVerdict(key=key, count=len(group), outcome=outcome), order))
    return found


def _with_offsets(events: Iterator[Event]) -> Iterator[Event]:
    """Move the field ``offset`` of answers into their values."""
    for event in events:
        offset = event.fields.get("offset")
        if offset is not None:
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise HistoryError(f"{event.where()}: offset must be a whole number")
            if event.f == "append" and event.type == OK:
                event.value = [offset, event.value]
            elif event.f == "read":
                event.f = "fetch"
                if event.type == OK:
                    event.value = [[offset, event.value]]
        yield event


def judge_calls(calls: Sequence[Call], deadline: float) -> tuple[Outcome, Order]:
    """Judge one log: the verdict, and a function for the order that proves it."""
    try:
        verdict = decide(from_calls(calls))
    except AmbiguousError:
        machine = Log(calls)
        outcome = search(machine, calls, time_limit_s=time_left(deadline))
        return narrowed(machine, calls, outcome), lambda: outcome.order
    if verdict.fault is None:
        return Outcome(valid=True, order=[]), lambda: verdict.order().tolist()
    return _failed(calls, verdict, deadline), list


def _failed(calls: Sequence[Call], verdict: Verdict, deadline: float) -> Outcome:
    """Find the first completion without an order, and the legal order up to there."""
    ends = sorted(call.completion for call in calls if call.type != INFO)

    def until(count: int) -> Verdict:
        last = ends[count - 1] if count else -1
        return decide(from_calls([known(call, last) for call in calls if call.start <= last]))

    verdict, order = _longest(until, len(ends), verdict, deadline)
    kind, places = verdict.fault or ("", [])
    by_start = {call.start: call for call in calls}
    return _outcome(kind, [by_start[place] for place in places], order)


def _longest(
    until: Callable[[int], Verdict], count: int, verdict: Verdict, deadline: float
) -> tuple[Verdict, list[int]]:
    """Return the first error, and the longest legal order before it that is found in time.

    ``until(n)`` judges the first n of ``count`` steps; ``verdict`` is that of all.
    """
    legal, illegal = 0, count
    longest = until(0)
    deadline = min(deadline, thread_time() + _LOOKED_S)
    try:
        while illegal - legal > 1 and thread_time() < deadline:
            middle = (legal + illegal) // 2
            found = until(middle)
            if found.fault is None:
                legal, longest = middle, found
            else:
                illegal = middle
                # An unknown value may have been appended later: the whole history decides.
                if found.fault[0] != "phantom":
                    verdict = found
    except AmbiguousError:
        # If the beginning is harder to judge than the whole, the known verdict is reported.
        pass
    return verdict, longest.order().tolist()


def _outcome(kind: str, window: list[Call], order: list[int]) -> Outcome:
    names = [describe(call) for call in window]
    if kind == "order":
        why = f"{names[0]} ended before {names[1]} began, but comes after it in the log."
    else:
        why = f"{_WORDS[kind]}: {' and '.join(names)}."
    stuck = max(window, key=lambda call: call.completion)
    return Outcome(valid=False, order=order, placed=len(order), stuck=stuck, window=window, why=why)


def _streamed(file: TypedFile) -> tuple[KeyVerdict, Order] | None:
    """Decide a long log in one pass; None if that does not decide it."""
    passed = stream.run(file.batches())
    if passed is None:
        return None
    if passed.fault is None:

        def order() -> list[int]:
            table = file.table()
            placed = decide(from_columns(table)).order()
            return cast("list[int]", table.column("index").to_numpy()[placed].tolist())

        outcome = Outcome(valid=True, order=[])
        return KeyVerdict(key="null", count=passed.operations, outcome=outcome), order
    kind, places = passed.fault
    table = with_schema(file.head(passed.events))
    process = table.column("process").to_numpy()
    window = []
    for begun in places:
        later = np.flatnonzero(process[begun + 1 :] == process[begun])
        done = begun + 1 + int(later[0]) if len(later) else -1
        certain = done >= 0 and table.column("type")[done].as_py() == OK
        window.append(call_at(table, begun, done, certain))
    outcome = _outcome(kind, window, [])
    return KeyVerdict(key="null", count=passed.operations, outcome=outcome), list


def _judged_columns(table: pa.Table, deadline: float) -> tuple[KeyVerdict, Order]:
    log: LogOperations = from_columns(table)
    count = len(log.append_call) + len(log.point_call)
    try:
        verdict = decide(log)
    except AmbiguousError:
        outcome = Outcome(
            valid="unknown",
            order=[],
            reason="a read value may be that of several appends, whose offsets are unknown",
        )
        return KeyVerdict(key="null", count=count, outcome=outcome), list
    index = table.column("index").to_numpy()
    if verdict.fault is None:
        valid = KeyVerdict(key="null", count=count, outcome=Outcome(valid=True, order=[]))
        return valid, lambda: index[verdict.order()].tolist()
    order: list[int] = []
    if len(table) <= _LOOKED_ROWS:

        def until(rows: int) -> Verdict:
            return decide(from_columns(table.slice(0, rows)))

        verdict, placed = _longest(until, len(table), verdict, deadline)
        order = index[placed].tolist()
    kind, places = verdict.fault or ("", [])
    pairs = pair_rows(table)
    at = np.searchsorted(pairs.begun, places)
    full = with_schema(table)
    window = [
        call_at(full, int(begun), int(pairs.done[i]), int(pairs.outcome[i]) in (1, 2))
        for begun, i in zip(places, at, strict=True)
    ]
    return KeyVerdict(key="null", count=count, outcome=_outcome(kind, window, order)), list
