"""Drives the compiled search for registers: arrays in, an outcome out.

Used where plain Python would take long; at most 64 calls may be open at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from typing import Any

import numpy as np

from checkers import search_kernel as kernel
from checkers.calls import Call
from checkers.models import ANY, PRESENT, SAME, Action, Model
from histories.operation import OK

MAX_OPEN = 64
_SLICE = 200_000
_STUCK = 64
_RUN: Any = kernel.run
_REHASH: Any = kernel.rehash


class CompiledSearch:
    """One search. ``run`` returns the verdict (True, False or why it is unknown)."""

    def __init__(self, model: Model, items: Sequence[tuple[Call, Action]], memory: int) -> None:
        self._items = items
        self._memory = memory
        self._codes: dict[Hashable, int] = {None: 0}
        self._initial = self._code(model.initial)
        self.members: list[list[int]] = []
        self.max_open = 0
        self._tables()

    def _code(self, state: Hashable) -> int:
        return self._codes.setdefault(state, len(self._codes))

    def _need(self, action: Action) -> int:
        if action.need is ANY:
            return kernel.ANY
        return kernel.PRESENT if action.need is PRESENT else self._code(action.need)

    def _result(self, action: Action) -> int:
        return kernel.SAME if action.result is SAME else self._code(action.result)

    def _tables(self) -> None:
        """Walk through the events once and write down who is open at each completion."""
        events = []
        for position, (call, _) in enumerate(self._items):
            events.append((call.start, position))
            if call.type == OK:
                events.append((call.end, ~position))
        events.sort()
        needs = [self._need(action) for _, action in self._items]
        results = [self._result(action) for _, action in self._items]
        groups: dict[tuple[int, int], int] = {}
        group_levels: list[list[int]] = []
        free: list[int] = []
        bits: dict[int, int] = {}
        levels: list[tuple[int, int]] = []
        reads: list[tuple[int, int]] = []
        writes: list[tuple[int, int]] = []
        read_from, write_from = [0], [0]
        for _, code in events:
            if code >= 0:
                if self._items[code][0].type == OK:
                    bits[code] = free.pop() if free else len(bits)
                    self.max_open = max(self.max_open, len(bits))
                    continue
                group = groups.setdefault((needs[code], results[code]), len(groups))
                if group == len(self.members):
                    self.members.append([])
                    group_levels.append([])
                self.members[group].append(code)
                group_levels[group].append(len(levels))
                continue
            position = ~code
            levels.append((position, bits[position]))
            for other, bit in bits.items():
                (reads if results[other] == kernel.SAME else writes).append((other, bit))
            read_from.append(len(reads))
            write_from.append(len(writes))
            free.append(bits.pop(position))
        if self.max_open > MAX_OPEN:
            return
        need, result = np.array(needs, np.int64), np.array(results, np.int64)
        self.positions = np.array([position for position, _ in levels], np.int64)

        def flags(pairs: list[tuple[int, int]]) -> Any:
            return np.uint64(1) << np.array([bit for _, bit in pairs], np.uint64)

        def places(pairs: list[tuple[int, int]]) -> Any:
            return np.array([position for position, _ in pairs], np.int64)

        read_at, write_at = places(reads), places(writes)
        self._read_at, self._write_at = read_at, write_at
        self._read_from = np.array(read_from, np.int64)
        self._write_from = np.array(write_from, np.int64)
        self._fixed = (
            self.positions, flags(levels), need[self.positions], result[self.positions],
            self._read_from, flags(reads), need[read_at], read_at,
            self._write_from, flags(writes), need[write_at], result[write_at], write_at,
            np.array([n for n, _ in groups], np.int64), np.array([r for _, r in groups], np.int64),
            np.cumsum([0, *map(len, self.members)]).astype(np.int64),
            np.array([level for members in group_levels for level in members], np.int64),
        )  # fmt: skip

    def run(
        self, deadline: float, stop: Callable[[], bool] | None, time_limit_s: float
    ) -> bool | str:
        """Search until decided, or until time, memory or ``stop`` end it."""
        levels, groups = len(self.positions), len(self.members)
        states = len(self._codes)
        self.scalars = np.zeros(kernel.SCALARS, np.int64)
        self.scalars[[kernel.VECTORS, kernel.BEST]] = [1, -1]
        self.stuck = np.zeros(_STUCK, np.int64)
        heads_of, tails_of = np.zeros(levels + 1, np.int64), np.zeros(levels + 1, np.int64)
        tails_of[0] = 1
        lows_of = np.zeros(levels + 1, np.int64)
        queue: list[Any] = [
            np.zeros(1 << 14, kind) for kind in (np.int64, np.uint64, np.int64, np.int64)
        ]
        queue[0][0], queue[3][0] = self._initial, -1
        vectors: Any = np.zeros((max(1 << 12, 4 * groups), groups), np.uint16)
        trail: list[Any] = [np.zeros(1 << 16, np.int64), np.zeros(1 << 16, np.int64)]
        seen: list[Any] = [
            np.full(1 << 16, -1, np.int64),
            np.zeros(1 << 16, np.uint64),
            np.zeros(1 << 16, np.int64),
        ]
        entries: list[Any] = [np.zeros(1 << 16, np.int64), np.zeros(1 << 16, np.int64)]
        while True:
            code = _RUN(
                _SLICE, states, self.scalars, self.stuck, heads_of, tails_of, lows_of,
                *queue, vectors, *trail, *seen, *entries, *self._fixed,
            )  # fmt: skip
            self.trail = trail
            if code in (kernel.VALID, kernel.INVALID):
                return bool(code == kernel.VALID)
            if code == kernel.ROOM_QUEUE:
                queue = [_doubled(column) for column in queue]
            elif code == kernel.ROOM_VECTORS:
                vectors = _doubled(vectors)
            elif code == kernel.ROOM_TRAIL:
                trail = [_doubled(column) for column in trail]
            elif code == kernel.ROOM_SEEN:
                if 2 * (self.scalars[kernel.FILLED] + 2) > len(seen[0]):
                    size = 2 * len(seen[0])
                    larger = [
                        np.full(size, -1, np.int64),
                        np.zeros(size, np.uint64),
                        np.zeros(size, np.int64),
                    ]
                    _REHASH(*seen, states, tuple(larger))
                    seen = larger
                else:
                    entries = [_doubled(column) for column in entries]
            used = sum(c.nbytes for c in (*queue, vectors, *trail, *seen, *entries))
            if used > self._memory:
                return f"no decision in {self._memory >> 20} MiB"
            if monotonic() > deadline:
                return f"no decision within {time_limit_s:g} s"
            if stop is not None and stop():
                return "the search was interrupted"

    @property
    def steps(self) -> int:
        """Configurations looked at."""
        return int(self.scalars[kernel.STEPS])

    @property
    def deepest(self) -> int:
        """The first completion that could not be placed."""
        return int(self.scalars[kernel.DEEPEST])

    def codes(self) -> list[int]:
        """Return the best order: positions of calls, or ``~group`` for an indeterminate one."""
        found = []
        at = int(self.scalars[kernel.BEST])
        while at >= 0:
            found.append(int(self.trail[0][at]))
            at = int(self.trail[1][at])
        return found[::-1]

    def states(self) -> list[Hashable]:
        """Return the values that were possible before the completion that is stuck."""
        if self.deepest == 0:
            return [next(s for s, code in self._codes.items() if code == self._initial)]
        names = {code: state for state, code in self._codes.items()}
        return [names[int(code)] for code in self.stuck[: int(self.scalars[kernel.STATES])]]

    def window(self) -> list[int]:
        """Return the calls open at the completion that is stuck, by position."""
        level = self.deepest
        reads = self._read_at[self._read_from[level] : self._read_from[level + 1]]
        writes = self._write_at[self._write_from[level] : self._write_from[level + 1]]
        return sorted([*reads.tolist(), *writes.tolist()])


def _doubled(column: Any) -> Any:
    return np.concatenate([column, np.zeros_like(column)])
