"""The compiled search for registers: it converts calls to arrays, and arrays to an outcome.

Used where plain Python would be slow; at most 64 calls may be open at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability import search_kernel as kernel
from kraftwreck.checkers.linearizability.models import ANY, PRESENT, SAME, Action, Model
from kraftwreck.histories.operation import OK

MAX_OPEN = 64
_SLICE = 200_000
_STUCK = 64
_ROOM = 1 << 8
"""Rows of each array at first; the kernel asks for more."""
_RUN: Any = kernel.run
_REHASH: Any = kernel.rehash
_MEASURE: Any = kernel.measure
_LAY_OUT: Any = kernel.lay_out
_UNWIND: Any = kernel.unwind
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Calls by position: moments of begin and end (-1: indeterminate), need and result.

    A state is the code of a value, or ``kernel.UNKNOWN``. A need may also be ``kernel.ANY`` or
    ``kernel.PRESENT`` (any but 0), a result ``kernel.SAME``.
    """

    start: Ints
    end: Ints
    need: Ints
    result: Ints
    initial: int


class Coded:
    """A problem made of calls, with the names of its states."""

    def __init__(self, model: Model, items: Sequence[tuple[Call, Action]]) -> None:
        self._codes: dict[Hashable, int] = {None: 0}
        initial = self._code(model.initial)
        columns = np.array(
            [
                (
                    call.start,
                    call.end if call.type == OK else -1,
                    self._need(action),
                    kernel.SAME if action.result is SAME else self._code(action.result),
                )
                for call, action in items
            ],
            np.int64,
        ).reshape(len(items), 4)
        start, end, need, result = (np.ascontiguousarray(column) for column in columns.T)
        self.problem = Problem(start, end, need, result, initial)

    def _code(self, state: Hashable) -> int:
        return self._codes.setdefault(state, len(self._codes))

    def _need(self, action: Action) -> int:
        if action.need is ANY:
            return kernel.ANY
        return kernel.PRESENT if action.need is PRESENT else self._code(action.need)

    def names(self, states: Sequence[int]) -> list[Hashable]:
        """Return the names of states."""
        names = {code: state for state, code in self._codes.items()}
        return [names[state] for state in states]


class CompiledSearch:
    """One search. ``run`` returns the verdict: True, False or the reason why it is unknown.

    It cannot be run if ``max_open`` exceeds :data:`MAX_OPEN`.
    """

    def __init__(self, problem: Problem, memory: int) -> None:
        self._problem = problem
        self._memory = memory
        certain = problem.end >= 0
        ended = np.flatnonzero(certain)
        moments = np.concatenate([problem.start, problem.end[ended]])
        codes = np.concatenate([np.arange(len(problem.start)), ~ended])
        events = codes[np.argsort(moments, kind="stable")]
        most, reads, writes = _MEASURE(events, certain, problem.result)
        self.max_open = int(most)
        if self.max_open <= MAX_OPEN:
            self._tables(events, certain, len(ended), int(reads), int(writes))

    def _tables(self, events: Ints, certain: Any, levels: int, reads: int, writes: int) -> None:
        """Write the tables of the calls open at each completion."""
        need, result = self._problem.need, self._problem.result
        doubtful = np.flatnonzero(~certain)
        effects = np.stack([need[doubtful], result[doubtful]], axis=1)
        kinds, first, of, sizes = np.unique(
            effects, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        # In the order of their first occurrence, as in plain Python.
        rank = np.argsort(first, kind="stable")
        kinds, sizes = kinds[rank], sizes[rank]
        group = np.full(len(need), -1, np.int64)
        group[doubtful] = np.argsort(rank, kind="stable")[of]
        self._group_from = np.zeros(len(kinds) + 1, np.int64)
        np.cumsum(sizes, out=self._group_from[1:])
        self._members, member_level = np.zeros((2, len(doubtful)), np.int64)
        self.positions = np.zeros(levels, np.int64)
        level_bit = np.zeros(levels, np.uint64)
        self._read_from, self._write_from = np.zeros((2, levels + 1), np.int64)
        read_bit, write_bit = np.zeros(reads, np.uint64), np.zeros(writes, np.uint64)
        self._read_at, self._write_at = np.zeros(reads, np.int64), np.zeros(writes, np.int64)
        _LAY_OUT(
            events, certain, result, group, self.positions, level_bit,
            self._read_from, read_bit, self._read_at,
            self._write_from, write_bit, self._write_at,
            self._group_from[:-1].copy(), member_level, self._members,
        )  # fmt: skip
        self._fixed = (
            _table(self.positions, level_bit, need, result),
            self._read_from, _table(self._read_at, read_bit, need, result),
            self._write_from, _table(self._write_at, write_bit, need, result),
            self._group_from, *np.ascontiguousarray(kinds.T), member_level,
        )  # fmt: skip

    def run(
        self, deadline: float, stop: Callable[[], bool] | None, time_limit_s: float
    ) -> bool | str:
        """Search until decided, or until time, memory or ``stop`` end it."""
        levels, groups = len(self.positions), len(self._group_from) - 1
        self.scalars = np.zeros(kernel.SCALARS, np.int64)
        self.scalars[[kernel.VECTORS, kernel.BEST]] = [1, -1]
        self.trail: Any = np.zeros((0, 2), np.int64)
        if not levels:
            return True
        self.stuck = np.zeros(_STUCK, np.int64)
        spans = np.zeros((levels, 3), np.int64)
        spans[0, kernel.TAIL] = 1
        queue: Any = np.zeros((_ROOM, 4), np.int64)
        queue[0, [kernel.STATE, kernel.ORDER]] = [self._problem.initial, -1]
        vectors: Any = np.zeros((_ROOM, groups), np.uint16)
        trail: Any = np.zeros((_ROOM, 2), np.int64)
        seen: Any = _empty(_ROOM)
        entries: Any = np.zeros((_ROOM, 2), np.int64)
        while True:
            code = _RUN(
                _SLICE, self.scalars, self.stuck, spans, queue, vectors, trail, seen, entries,
                *self._fixed,
            )  # fmt: skip
            self.trail = trail
            if code in (kernel.VALID, kernel.INVALID):
                return bool(code == kernel.VALID)
            if code == kernel.ROOM_QUEUE:
                queue = _doubled(queue)
            elif code == kernel.ROOM_VECTORS:
                vectors = _doubled(vectors)
            elif code == kernel.ROOM_TRAIL:
                trail = _doubled(trail)
            elif code == kernel.ROOM_ENTRIES:
                entries = _doubled(entries)
            elif code == kernel.ROOM_SEEN:
                larger = _empty(2 * len(seen))
                _REHASH(seen, larger)
                seen = larger
            used = sum(array.nbytes for array in (queue, vectors, trail, seen, entries))
            if used > self._memory:
                return f"no decision in {self._memory >> 20} MiB"
            if thread_time() > deadline:
                return f"no decision within {time_limit_s:g} s"
            if stop is not None and stop():
                return "the search was interrupted"

    @property
    def steps(self) -> int:
        """The number of configurations examined."""
        return int(self.scalars[kernel.STEPS])

    @property
    def deepest(self) -> int:
        """The first completion that could not be placed."""
        return int(self.scalars[kernel.DEEPEST])

    def order(self) -> Ints:
        """Return the best order: positions of calls."""
        best = int(self.scalars[kernel.BEST])
        found: Ints = _UNWIND(best, self.trail, self._group_from, self._members)
        return found

    def states(self) -> list[int]:
        """Return the states that were possible before the stuck completion."""
        if self.deepest == 0:
            return [self._problem.initial]
        found: list[int] = self.stuck[: int(self.scalars[kernel.STATES])].tolist()
        return found

    def window(self) -> list[int]:
        """Return the calls open at the stuck completion, by position."""
        level = self.deepest
        reads = self._read_at[self._read_from[level] : self._read_from[level + 1]]
        writes = self._write_at[self._write_from[level] : self._write_from[level + 1]]
        return sorted([*reads.tolist(), *writes.tolist()])


def _table(calls: Ints, bits: Any, need: Ints, result: Ints) -> Ints:
    """Return a table of ``calls`` (by position), with the rows of the kernel."""
    return np.stack([calls, bits.view(np.int64), need[calls], result[calls]])


def _empty(size: int) -> Ints:
    """Return a hash table of places without any."""
    table = np.zeros((size, 4), np.int64)
    table[:, kernel.PLACE] = -1
    return table


def _doubled(array: Any) -> Any:
    return np.concatenate([array, np.zeros_like(array)])
