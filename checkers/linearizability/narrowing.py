"""The smallest part of a register's history that no order explains, whatever came before it.

The search finds the first completion that cannot be placed, but the reason may lie far back. A part
that begins at some event is judged from every state at once: its first operation may find any
value. A call open at its begin may have happened before it, or in it, and so may a call that never
ended. Three steps only remove constraints: to begin later, to leave out a read, or to leave open
whether a write happened. So a part that still has no order had none before. Halving finds the
begin, and then operations are removed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np

from kraftwreck.checkers.linearizability import search_kernel as kernel
from kraftwreck.checkers.linearizability.compiled_search import (
    MAX_OPEN,
    CompiledSearch,
    Ints,
    Problem,
)

SECONDS = 10.0
_MEMORY = 1 << 24
"""Bytes for each search. This bound counts, as it does not depend on the machine's load."""
_FEW = 48
"""Up to this many operations are removed one by one."""


@dataclass(frozen=True)
class Stretch:
    """``core`` are operations, by position, that have no order; ``helpers`` are writes that may
    have happened between them, or not. ``whole``: it begins with the history, so the
    initial value counts."""

    core: list[int]
    helpers: list[int]
    whole: bool


def narrow(problem: Problem, stuck: int, seconds: float = SECONDS) -> Stretch | None:
    """Return the smallest part without an order that ends with ``stuck``, the first call
    without a place; None if none was found in time.
    """
    narrowing = _Narrowing(problem, stuck, seconds)
    return narrowing.run() if seconds > 0 else None


class _Narrowing:
    def __init__(self, problem: Problem, stuck: int, seconds: float) -> None:
        self._problem = problem
        self._stuck = stuck
        self._seconds = seconds
        # Counted from the end of the first search, which may have to load compiled code.
        self._deadline: float | None = None
        moment = int(problem.end[stuck])
        self._certain = (problem.end >= 0) & (problem.end <= moment)
        self._there = problem.start <= moment
        self._begins = np.sort(problem.start[self._certain])[::-1]

    def run(self) -> Stretch | None:
        most = len(self._begins)
        size, fits = 1, 0
        while not self._impossible(self._members(size), size == most):
            if size == most:
                return None
            fits, size = size, min(2 * size, most)
        while size - fits > 1:
            middle = (size + fits) // 2
            if self._impossible(self._members(middle), False):
                size = middle
            else:
                fits = middle
        core = self._members(size)
        open_from = int(self._begins[size - 1])
        whole = size == most and not self._impossible(core, False)
        if int(core.sum()) <= _FEW:
            for one in np.flatnonzero(core).tolist():
                if one != self._stuck:
                    core[one] = False
                    core[one] = not self._impossible(core, whole, open_from)
        helpers = self._helpers(core, open_from)
        return Stretch(np.flatnonzero(core).tolist(), helpers.tolist(), whole)

    def _members(self, size: int) -> Any:
        """Return the operations that certainly happen in the part of the last ``size`` begins."""
        return self._certain & (self._problem.start >= self._begins[size - 1])

    def _optional(self, core: Any, open_from: int) -> Any:
        problem = self._problem
        reaches = (problem.end < 0) | (problem.end >= open_from)
        return self._there & ~core & reaches & (problem.result != kernel.SAME)

    def _impossible(self, core: Any, whole: bool, open_from: int | None = None) -> bool:
        """Return whether ``core`` certainly has no order."""
        problem = self._problem
        until = self._deadline or thread_time() + 10 * self._seconds
        if thread_time() >= until:
            return False
        if open_from is None:
            open_from = int(problem.start[core].min())
        chosen = np.flatnonzero(core | self._optional(core, open_from))
        start, need, result = (c[chosen] for c in (problem.start, problem.need, problem.result))
        end = np.where(core[chosen], problem.end[chosen], -1)
        initial = problem.initial
        if not whole:
            initial = kernel.UNKNOWN
            values = np.unique(np.append(need[need >= 0], 0))
            none = np.full(len(values), -1, np.int64)
            start = np.concatenate([none, start])
            end = np.concatenate([none, end])
            need = np.concatenate([np.full(len(values), initial, np.int64), need])
            result = np.concatenate([values, result])
        search = CompiledSearch(Problem(start, end, need, result, initial), _MEMORY)
        if search.max_open > MAX_OPEN:
            return False
        impossible = search.run(until, None, self._seconds) is False
        self._deadline = self._deadline or thread_time() + self._seconds
        return impossible

    def _helpers(self, core: Any, open_from: int) -> Ints:
        """Return the writes left open whose values a call may need."""
        needs = set(self._problem.need[core].tolist())
        waiting = np.flatnonzero(self._optional(core, open_from)).tolist()
        kept: list[int] = []
        grew = True
        while grew:
            mine = [one for one in waiting if int(self._problem.result[one]) in needs]
            waiting = [one for one in waiting if int(self._problem.result[one]) not in needs]
            needs |= {int(self._problem.need[one]) for one in mine}
            kept += mine
            grew = bool(mine)
        return np.array(sorted(kept), np.int64)
