"""Registers with repeated values: a search, from columns."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.decide import MEMORY, Outcome
from kraftwreck.checkers.linearizability.zones.operations import CAS, READ, Ints, Operations

MANY = 20_000
"""From this many operations on compiled code is used. The choice must not depend on whether it is
loaded already, as that depends on the other histories of a command."""


def search(
    operations: Operations,
    calls: Callable[[Any], list[Call]],
    name: Callable[[Any], list[Any]],
    time_limit_s: float,
    stop: Callable[[], bool] | None,
) -> Outcome | None:
    """Search for an order of the operations of one key; None if they are too concurrent.

    ``operations`` lacks those that no order needs. ``calls`` makes objects of the operations that
    began at some positions, ``name`` returns the values of codes. An order is verified before it
    counts.
    """
    from kraftwreck.checkers.linearizability import search_kernel as kernel
    from kraftwreck.checkers.linearizability.compiled_search import (
        MAX_OPEN,
        CompiledSearch,
        Problem,
    )
    from kraftwreck.checkers.linearizability.narrowing import narrow

    kind, value = operations.kind, operations.value
    need = np.where(kind == READ, value, np.where(kind == CAS, operations.expected, kernel.ANY))
    result = np.where(kind == READ, kernel.SAME, value)
    certain = operations.end < operations.never
    made = np.zeros(operations.values, np.bool_)
    made[0] = True
    made[value[kind != READ]] = True
    phantoms = np.flatnonzero(certain & (need >= 0) & ~made[need])
    if len(phantoms):
        first = calls(operations.start[phantoms[:1]])
        return Outcome(valid=False, order=[], stuck=first[0], window=first)
    end = np.where(certain, operations.end, -1)
    problem = Problem(operations.start, end, need, result, 0)
    found = CompiledSearch(problem, MEMORY)
    if found.max_open > MAX_OPEN:
        return None
    verdict = found.run(thread_time() + time_limit_s, stop, time_limit_s)
    order = found.order()
    starts = operations.start[order]
    if isinstance(verdict, str):
        return Outcome(valid="unknown", order=starts.tolist(), steps=found.steps, reason=verdict)
    if verdict:
        doubt = unproven(operations, order)
        if doubt is not None:
            raise AssertionError(
                f"key {operations.keys[0]}: the order found proves nothing: {doubt}"
            )
        return Outcome(valid=True, order=starts.tolist(), steps=found.steps)
    at = int(found.positions[found.deepest])
    (stuck,) = calls(operations.start[[at]])
    outcome = Outcome(
        valid=False,
        order=starts.tolist(),
        stuck=stuck,
        window=calls(operations.start[found.window()]),
        states=name(found.states()),
        steps=found.steps,
    )
    stretch = narrow(problem, at)
    if stretch is not None:
        outcome.core = calls(operations.start[stretch.core])
        outcome.helpers = calls(operations.start[stretch.helpers]) if stretch.helpers else []
        outcome.whole = stretch.whole
    return outcome


def unproven(operations: Operations, order: Ints) -> str | None:
    """Return why ``order``, by position, is no legal order of a register's operations."""
    placed = np.zeros(len(operations), np.bool_)
    placed[order] = True
    if int(placed.sum()) != len(order):
        return "an operation is named twice"
    if (~placed & (operations.end < operations.never)).any():
        return "an operation that happened is missing"
    latest = np.maximum.accumulate(operations.start[order])
    if (operations.end[order] < latest).any():
        return "an operation ended before one that precedes it began"
    kind, value = operations.kind[order], operations.value[order]
    places = np.where(kind == READ, -1, np.arange(len(order)))
    last = np.maximum.accumulate(np.concatenate([[-1], places]))[:-1]
    before = np.where(last >= 0, value[last], 0)
    needs = np.where(kind == CAS, operations.expected[order], value)
    if ((kind == READ) | (kind == CAS))[needs != before].any():
        return "an operation found another value than the register has there"
    return None
