"""The search for an order of operations of any machine.

The same just-in-time search as :mod:`checkers.linearizability` (Lowe, CCPE 2017), with the
same reductions, over a machine's steps. States are memoised: equal states are one object, so
that a configuration costs its open calls and no copy of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from time import monotonic
from typing import Any

import msgspec

from checkers.calls import Call
from checkers.linearizability import Outcome
from checkers.machines.models import Machine, Operation
from checkers.witness import misplaced
from histories.operation import FAIL, OK

Link = Any
"""A linked list (position, rest) of calls in the order, last first; None when empty."""
_PULSE = 1024


class _StoppedError(Exception):
    """The search was stopped; the message says by what."""


class _Level(msgspec.Struct):
    """One completion: the call, its bit, and who is open then."""

    position: int
    bit: int
    looks: list[tuple[int, Operation, int]]
    changes: list[tuple[int, Operation, int]]
    available: dict[int, int]
    """Indeterminate calls invoked so far, by group."""


def check(
    machine: Machine,
    calls: Sequence[Call],
    *,
    time_limit_s: float = 60.0,
    max_steps: int = 2_000_000,
    stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Search for a legal order of ``calls``; see :func:`checkers.linearizability.check`."""
    return _Search(machine, calls, time_limit_s, max_steps, stop).run()


class _Search:
    def __init__(
        self,
        machine: Machine,
        calls: Sequence[Call],
        time_limit_s: float,
        max_steps: int,
        stop: Callable[[], bool] | None,
    ) -> None:
        self._machine = machine
        self._items: list[tuple[Call, Operation]] = []
        for call in calls:
            operation = machine.operation(call) if call.type != FAIL else None
            if operation is not None and (call.type == OK or not operation.looks):
                self._items.append((call, operation))
        self._groups: dict[Operation, int] = {}
        self._members: list[list[int]] = []
        self._steps_of: dict[tuple[Hashable, Operation], Hashable | None] = {}
        self._levels = self._prepare()
        self._deadline = monotonic() + time_limit_s
        self._time_limit_s = time_limit_s
        self._max_steps = max_steps
        self._stop = stop
        self._steps = 0
        self._seen: set[tuple[int, Hashable, int, tuple[int, ...]]] = set()

    def _prepare(self) -> list[_Level]:
        events = []
        for position, (call, _) in enumerate(self._items):
            events.append((call.start, position))
            if call.type == OK:
                events.append((call.end, ~position))
        events.sort()
        free: list[int] = []
        bits: dict[int, int] = {}
        levels = []
        for _, code in events:
            if code >= 0:
                call, operation = self._items[code]
                if call.type == OK:
                    bits[code] = free.pop() if free else 1 << len(bits)
                    continue
                group = self._groups.setdefault(operation, len(self._groups))
                if group == len(self._members):
                    self._members.append([])
                self._members[group].append(code)
                continue
            entries = [(bit, self._items[p][1], p) for p, bit in bits.items()]
            levels.append(
                _Level(
                    ~code,
                    bits[~code],
                    [entry for entry in entries if entry[1].looks],
                    [entry for entry in entries if not entry[1].looks],
                    {group: len(m) for group, m in enumerate(self._members)},
                )
            )
            free.append(bits.pop(~code))
        return levels

    def _step(self, state: Hashable, operation: Operation) -> Hashable | None:
        key = (state, operation)
        if key not in self._steps_of:
            self._steps_of[key] = self._machine.step(state, operation)
        return self._steps_of[key]

    def run(self) -> Outcome:
        levels = self._levels
        if not levels:
            return Outcome(valid=True, order=[])
        stack = [self._expand(0, self._machine.initial, 0, (), None)]
        deepest, best = 0, None
        states: dict[Hashable, None] = {self._machine.initial: None}
        try:
            while stack:
                found = next(stack[-1], None)
                if found is None:
                    stack.pop()
                    continue
                state, mask, used, link = found
                depth = len(stack)
                if depth == len(levels):
                    return Outcome(valid=True, order=self._order(link), steps=self._steps)
                if depth > deepest:
                    deepest, best, states = depth, link, {}
                if depth == deepest:
                    states[state] = None
                stack.append(self._expand(depth, state, mask, used, link))
        except _StoppedError as bound:
            return Outcome(
                valid="unknown", order=self._order(best), steps=self._steps, reason=str(bound)
            )
        level = levels[deepest]
        window = sorted(level.looks + level.changes, key=lambda entry: entry[2])
        return Outcome(
            valid=False,
            order=self._order(best),
            stuck=self._items[level.position][0],
            window=[self._items[position][0] for _, _, position in window],
            states=list(states),
            steps=self._steps,
        )

    def _order(self, link: Link) -> list[int]:
        codes = []
        while link is not None:
            code, link = link
            codes.append(code)
        used = [0] * len(self._members)
        starts = []
        for code in reversed(codes):
            position = code
            if code < 0:
                position = self._members[~code][used[~code]]
                used[~code] += 1
            starts.append(self._items[position][0].start)
        return starts

    def _pulse(self) -> None:
        if self._steps > self._max_steps:
            raise _StoppedError(f"no decision after {self._max_steps} configurations")
        if monotonic() > self._deadline:
            raise _StoppedError(f"no decision within {self._time_limit_s:g} s")
        if self._stop is not None and self._stop():
            raise _StoppedError("the search was interrupted")

    def _fresh(self, place: int, state: Hashable, mask: int, used: tuple[int, ...]) -> bool:
        key = (place, state, mask, used)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _expand(
        self, depth: int, state: Hashable, mask: int, used: tuple[int, ...], link: Link
    ) -> Iterator[tuple[Hashable, int, tuple[int, ...], Link]]:
        """Yield the configurations just after the level's call was put into the order."""
        level = self._levels[depth]
        queue = [(state, mask, used, link)]
        for here, done, counts, trail in queue:
            self._steps += 1
            if self._steps % _PULSE == 0:
                self._pulse()
            for bit, operation, position in level.looks:
                if not done & bit and self._step(here, operation) is not None:
                    done, trail = done | bit, (position, trail)
            if not self._fresh(depth, here, done, counts):
                continue
            if done & level.bit:
                yield here, done ^ level.bit, counts, trail
                continue
            for bit, operation, position in level.changes:
                following = None if done & bit else self._step(here, operation)
                if following is not None:
                    queue.append((following, done | bit, counts, (position, trail)))
            for operation, group in self._groups.items():
                count = counts[group] if group < len(counts) else 0
                if count < level.available.get(group, 0):
                    following = self._step(here, operation)
                    if following is not None and following != here:
                        grown = counts + (0,) * (group + 1 - len(counts))
                        grown = (*grown[:group], count + 1, *grown[group + 1 :])
                        queue.append((following, done, grown, (~group, trail)))


def verify(machine: Machine, calls: Sequence[Call], order: Sequence[int]) -> str | None:
    """Return why ``order`` (calls named by ``start``) proves nothing, or None if it does."""
    wrong = misplaced(calls, order, lambda call: machine.operation(call) is not None)
    if wrong is not None:
        return wrong
    known = {call.start: call for call in calls}
    state = machine.initial
    for start in order:
        operation = machine.operation(known[start])
        if operation is not None:
            following = machine.step(state, operation)
            if following is None:
                return f"call {start} is not allowed in state {state!r}"
            state = following
    return None
