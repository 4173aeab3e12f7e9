"""Linearizability of registers, from columns: near-linear where values are distinct.

Keys with a value that is written twice are left to the search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.decide import Outcome
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.keyed import KeyVerdict, describe
from kraftwreck.checkers.linearizability.level_walk import time_left
from kraftwreck.checkers.linearizability.models import Model, freeze, thaw
from kraftwreck.checkers.linearizability.zones import searched as columns
from kraftwreck.checkers.linearizability.zones.decide import (
    gather,
    judge,
    needed,
    order_of,
    repeated,
)
from kraftwreck.checkers.linearizability.zones.operations import (
    Ints,
    Operations,
    Pairs,
    call_at,
    pair_rows,
    read_operations,
)
from kraftwreck.checkers.linearizability.zones.window import Contradiction, explain, of_key
from kraftwreck.histories.tables import HISTORY_SCHEMA

_EXPLAINED = 8
"""Keys for which a contradiction is explained; the others are only named."""
_FEW = 64
"""Up to this many calls are made one by one."""


@dataclass(frozen=True)
class Decision:
    """Verdicts of all keys that are not clearly valid, and the number of keys.

    ``order`` is a legal order of the operations of all valid keys, as indices of their
    invocations, made on request; those of one key are in their order.
    """

    verdicts: list[KeyVerdict]
    keys: int
    operations: int
    sorted_keys: int
    order: Callable[[], list[int]]


def decide(
    table: pa.Table,
    model: Model,
    *,
    initial: Any = None,
    cas: bool = True,
    time_limit_s: float = 120.0,
    stop: Callable[[], bool] | None = None,
) -> Decision:
    """Decide a table of :data:`~histories.tables.HISTORY_SCHEMA`, ordered by index.

    Raises :class:`~checkers.calls.HistoryShapeError` and
    :class:`~checkers.linearizability.models.ModelError`.
    """
    deadline = thread_time() + time_limit_s
    pairs = pair_rows(table)
    every = read_operations(table, pairs, initial=initial, cas=cas)
    keys = _used(every)
    operations = kept = needed(every)
    searched = repeated(operations)
    if len(searched):
        operations = operations.where(~np.isin(operations.key, searched))
    clusters = gather(operations)
    _, faults = judge(operations, clusters)
    wrong = np.unique(clusters.key[np.array([fault.a for fault in faults], np.int64)])
    verdicts = []
    calls = _Calls(table, pairs, model.initial)
    for number, key in enumerate(wrong):
        outcome = Outcome(valid=False, order=[])
        if number < _EXPLAINED:
            outcome = _explained(calls, of_key(operations, int(key)))
        count = int((every.key == key).sum())
        verdicts.append(KeyVerdict(key=every.keys[int(key)], count=count, outcome=outcome))
    if len(searched):
        verdicts += _searched(model, (every, kept), searched, calls, deadline, stop)

    def order() -> list[int]:
        valid = ~np.isin(operations.key, wrong)
        good = operations.where(valid)
        grouped = gather(good)
        placed = order_of(good, grouped, judge(good, grouped)[0])
        found: list[int] = calls.index[good.start[placed]].tolist()
        return found + [
            start for v in verdicts if v.outcome.valid is True for start in v.outcome.order
        ]

    return Decision(verdicts, keys, len(pairs.begun), keys - len(searched), order)


def _searched(
    model: Model,
    both: tuple[Operations, Operations],
    searched: Ints,
    calls: _Calls,
    deadline: float,
    stop: Callable[[], bool] | None,
) -> list[KeyVerdict]:
    """Judge the keys with a value that was written twice.

    ``both`` are all operations, and those that an order needs.
    """
    if len(searched) < len(both[0].keys):
        every, needed_ones = (some.where(np.isin(some.key, searched)) for some in both)
    else:
        every, needed_ones = both
    groups = _by_key(every, searched)
    compiled = len(every) > columns.MANY
    kept = _by_key(needed_ones, searched) if compiled else {}
    verdicts = []
    for key, mine in groups.items():
        left = time_left(deadline)
        found = None
        if compiled:
            found = columns.search(kept[key], calls.of, partial(_named, calls, mine), left, stop)
        if found is None:
            found = search(model, calls.of(mine.start), time_limit_s=left, stop=stop)
        else:
            found.order = calls.index[found.order].tolist()
        name = every.keys[key]
        verdicts.append(KeyVerdict(key=name, count=len(mine), outcome=found))
    return verdicts


def _by_key(operations: Operations, keys: Ints) -> dict[int, Operations]:
    """Return the operations of each of ``keys``, in order of their beginning."""
    if len(keys) > 1:
        operations = operations.where(np.argsort(operations.key, kind="stable"))
    bounds = np.searchsorted(operations.key, keys), np.searchsorted(operations.key, keys, "right")
    return {
        int(key): replace(operations.where(slice(low, high)), keys=[operations.keys[key]])
        for key, low, high in zip(keys, *bounds, strict=True)
    }


def _named(calls: _Calls, operations: Operations, codes: Sequence[int]) -> list[Hashable]:
    """Return the values of codes."""
    names: list[Hashable] = []
    for code in codes:
        if code == 0:
            names.append(calls.initial)
            continue
        (call,) = calls.of(operations.start[np.flatnonzero(operations.value == code)[:1]])
        if call.f == "cas":
            names.append(freeze(call.argument[1]))
        else:
            names.append(freeze(call.value if call.f == "read" else call.argument))
    return names


def _used(operations: Operations) -> int:
    if len(operations.keys) == 1:
        return 1 if len(operations) else 0
    return len(np.unique(operations.key))


class _Calls:
    """Makes call objects of the few operations that explanations name."""

    def __init__(self, table: pa.Table, pairs: Pairs, initial: Hashable) -> None:
        self.initial = initial
        self._table = table.select(HISTORY_SCHEMA.names)
        self._pairs = pairs
        self.index = table.column("index").to_numpy()

    def of(self, starts: Any) -> list[Call]:
        """Return the calls that began at these positions."""
        at = np.searchsorted(self._pairs.begun, starts)
        done = self._pairs.done[at]
        if len(at) <= _FEW:
            return [
                call_at(self._table, int(begun), int(end), int(how) in (1, 2))
                for begun, end, how in zip(starts, done, self._pairs.outcome[at], strict=True)
            ]
        rows = np.concatenate([starts, done[done >= 0]])
        rows.sort()
        from kraftwreck.checkers.calls import pair
        from kraftwreck.histories.operation import Op
        from kraftwreck.histories.tables import from_table

        return pair(from_table(self._table.take(pa.array(rows)), Op))


def _explained(calls: _Calls, operations: Operations) -> Outcome:
    found = explain(operations)
    window = calls.of(operations.start[found.core])
    (stuck,) = calls.of(operations.start[[found.stuck]])
    return Outcome(
        valid=False,
        order=calls.index[operations.start[found.legal]].tolist(),
        placed=found.placed,
        stuck=stuck,
        window=window,
        why=words(found, dict(zip(found.core, window, strict=True)), _value),
    )


def words(found: Contradiction, named: dict[int, Call], value: Callable[..., str]) -> str:
    """Explain why the core of ``found``, whose calls are ``named`` by position, has no order.

    ``value`` names the value that one of some calls saw or made.
    """
    names = [describe(call) for call in named.values()]
    match found.kind:
        case "phantom":
            return f"{names[0]} cannot be explained: no call ever wrote the value it needs."
        case "early":
            read, write = found.pairs[0]
            return f"{describe(named[read])} ended before {describe(named[write])} began."
        case "twice":
            return f"{names[0]} and {names[1]} both replaced the same value, written only once."
        case "circle":
            return f"Each of {'; '.join(names)} needs a value that another of them wrote."
        case "order":
            first, second = found.pairs[0]
            rest = [describe(call) for place, call in named.items() if place not in (first, second)]
            through = f" (through {'; '.join(rest)})" if rest else ""
            return (
                f"{describe(named[first])} ended before {describe(named[second])} began, "
                f"but comes after it in the chain of compare-and-sets{through}."
            )
    (a, b), (c, d) = found.pairs
    one, other = value(named[a], named[d]), value(named[c], named[b])
    return (
        f"The register cannot hold {one} and {other} one after the other: "
        f"{_precedence(named[a], named[b])}, so {one} comes first; "
        f"{_precedence(named[c], named[d])}, so {other} comes first."
    )


def _precedence(first: Call, second: Call) -> str:
    if first is second:
        return f"{describe(first)} began after the initial value was there"
    return f"{describe(first)} ended before {describe(second)} began"


def _value(*calls: Call) -> str:
    for call in calls:
        if call.f == "read":
            return str(thaw_text(call.value))
        if call.f == "write":
            return str(thaw_text(call.argument))
    return str(thaw_text(calls[0].argument[1]))


def thaw_text(value: Any) -> str:
    """Return a value as JSON text."""
    import msgspec

    return msgspec.json.encode(thaw(value) if isinstance(value, tuple) else value).decode()
