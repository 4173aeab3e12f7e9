"""The search for an order of operations of any machine.

The walk of :mod:`checkers.linearizability.level_walk`, with the reductions of
:mod:`checkers.linearizability.decide`, over a machine's steps. Steps are memoised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from time import thread_time
from typing import Any, Protocol

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.level_walk import (
    Bounds,
    Configuration,
    Link,
    Outcome,
    Walk,
    one_more,
)
from kraftwreck.checkers.linearizability.machines.models import Machine, Operation
from kraftwreck.checkers.linearizability.witness import misplaced
from kraftwreck.histories.operation import FAIL, OK


def check(
    machine: Machine,
    calls: Sequence[Call],
    *,
    time_limit_s: float = 60.0,
    max_steps: int = 2_000_000,
    stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Search for a legal order of ``calls``; see :func:`checkers.linearizability.decide.check`."""
    bounds = Bounds(thread_time() + time_limit_s, time_limit_s, max_steps, stop)
    return search(machine, constraints(machine, calls), bounds)


class Tried(Protocol):
    """An operation to try in some state, hashable; ``looks``: it never changes the state."""

    @property
    def looks(self) -> bool: ...

    def __hash__(self) -> int: ...


class Steps(Protocol):
    """The part of a machine that the search uses."""

    @property
    def initial(self) -> Hashable: ...

    def choices(self, state: Any, operation: Any) -> Sequence[Hashable]:
        """Return every state that may follow."""


def constraints(machine: Machine, calls: Sequence[Call]) -> list[tuple[Call, Operation]]:
    """Return the calls that an order must or may hold, each with its operation."""
    items = []
    for call in calls:
        operation = machine.operation(call) if call.type != FAIL else None
        if operation is not None and (call.type == OK or not operation.looks):
            items.append((call, operation))
    return items


def search(machine: Steps, items: Sequence[tuple[Call, Tried]], bounds: Bounds) -> Outcome:
    """Search for a legal order of ``items``: all that are ok, and any others."""
    return _Search(machine, items, bounds).run()


class _Search:
    def __init__(self, machine: Steps, items: Sequence[tuple[Call, Tried]], bounds: Bounds) -> None:
        self._machine = machine
        self._walk = Walk(items, lambda operation: operation.looks, bounds)
        self._steps: dict[tuple[Hashable, Tried], Sequence[Hashable]] = {}
        self._seen: set[tuple[int, Configuration]] = set()

    def run(self) -> Outcome:
        return self._walk.run(self._machine.initial, self._expand)

    def _after(self, state: Hashable, operation: Tried) -> Sequence[Hashable]:
        key = (state, operation)
        if key not in self._steps:
            self._steps[key] = self._machine.choices(state, operation)
        return self._steps[key]

    def _expand(
        self, depth: int, start: Configuration, link: Link
    ) -> Iterator[tuple[Configuration, Link]]:
        """Yield the configurations just after the level's call was put into the order."""
        level = self._walk.levels[depth]
        queue: list[tuple[Hashable, int, tuple[int, ...], Link]] = [(*start, link)]
        left: list[tuple[Hashable, int, tuple[int, ...], Link]] = []
        while queue:
            for state, mask, used, trail in queue:
                self._walk.step()
                for bit, operation, position in level.looks:
                    if not mask & bit and self._after(state, operation) == (state,):
                        mask, trail = mask | bit, (position, trail)
                place = (depth, (state, mask, used))
                if place in self._seen:
                    continue
                self._seen.add(place)
                if mask & level.bit:
                    yield (state, mask ^ level.bit, used), trail
                    continue
                for bit, operation, position in level.changes:
                    if not mask & bit:
                        for following in self._after(state, operation):
                            queue.append((following, mask | bit, used, (position, trail)))
                left.append((state, mask, used, trail))
            queue, passed, left = [], left, []
            for state, mask, used, trail in passed:
                for group, operation, available in level.available:
                    count = used[group] if group < len(used) else 0
                    if count < available:
                        more = one_more(used, group)
                        for following in self._after(state, operation):
                            if following != state:
                                queue.append((following, mask, more, (~group, trail)))


def verify(machine: Machine, calls: Sequence[Call], order: Sequence[int]) -> str | None:
    """Return why ``order`` (calls named by ``start``) proves nothing, or None if it does."""
    wrong = misplaced(calls, order, lambda call: machine.operation(call) is not None)
    if wrong is not None:
        return wrong
    known = {call.start: call for call in calls}
    states = {machine.initial}
    for start in order:
        operation = machine.operation(known[start])
        if operation is not None:
            following = {after for state in states for after in machine.choices(state, operation)}
            if not following:
                return f"call {start} is not allowed in state {sorted(states, key=repr)[0]!r}"
            states = following
    return None
