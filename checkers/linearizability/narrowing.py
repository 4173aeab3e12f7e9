"""The smallest stretch of a register's history that no order explains, whatever was before it.

The search tells the first completion that cannot be placed. Why may lie far back. A stretch
that begins at some event is judged from every state at once: the first operation in it may find
any value. Whoever was open at its begin may have happened before it, or in it; so may what
never ended. To begin later, to leave out a read, or to leave open whether a write happened,
takes constraints away: what still has no order had none before. So the begin is found by
halving, and then one operation after the other is let go of.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np

from checkers.linearizability import search_kernel as kernel
from checkers.linearizability.compiled_search import MAX_OPEN, CompiledSearch, Ints, Problem

SECONDS = 10.0
_MEMORY = 1 << 24
"""Bytes for each search, the bound that counts: it does not depend on what else a machine does."""
_FEW = 48
"""Up to so many operations are let go of one by one."""


@dataclass(frozen=True)
class Stretch:
    """``core`` are operations, by position, which no order holds; ``helpers`` are writes that may
    have happened between them, or not. ``whole``: it begins with the history, so the
    initial value counts."""

    core: list[int]
    helpers: list[int]
    whole: bool


def narrow(problem: Problem, stuck: int, seconds: float = SECONDS) -> Stretch | None:
    """Return the smallest stretch up to the end of ``stuck``, the first that has no place.

    None where none was found in time.
    """
    narrowing = _Narrowing(problem, stuck, seconds)
    return narrowing.run() if seconds > 0 else None


class _Narrowing:
    def __init__(self, problem: Problem, stuck: int, seconds: float) -> None:
        self._problem = problem
        self._stuck = stuck
        self._seconds = seconds
        # From the end of the first search on, which may have compiled code to load.
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
        """Return which operations certainly happen in the stretch of the last ``size`` begins."""
        return self._certain & (self._problem.start >= self._begins[size - 1])

    def _optional(self, core: Any, open_from: int) -> Any:
        problem = self._problem
        reaches = (problem.end < 0) | (problem.end >= open_from)
        return self._there & ~core & reaches & (problem.result != kernel.SAME)

    def _impossible(self, core: Any, whole: bool, open_from: int | None = None) -> bool:
        """Say whether certainly no order holds ``core``."""
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
            # One more state, of an unknown value, from which any other may have been meant.
            initial = problem.states
            values = np.unique(np.append(need[need >= 0], 0))
            none = np.full(len(values), -1, np.int64)
            start = np.concatenate([none, start])
            end = np.concatenate([none, end])
            need = np.concatenate([np.full(len(values), initial, np.int64), need])
            result = np.concatenate([values, result])
        search = CompiledSearch(
            Problem(start, end, need, result, initial, problem.states + 1), _MEMORY
        )
        if search.max_open > MAX_OPEN:
            return False
        impossible = search.run(until, None, self._seconds) is False
        self._deadline = self._deadline or thread_time() + self._seconds
        return impossible

    def _helpers(self, core: Any, open_from: int) -> Ints:
        """Return the writes left open whose values somebody may need."""
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
