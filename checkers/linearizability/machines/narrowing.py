"""The smallest set of calls without an order, whichever of the others happened.

A call that is left out may have happened, while it was open, or not at all. Fewer certain calls
allow more orders, so a call that cannot be left out stays needed when others are left out. One
pass finds a smallest set.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import thread_time
from typing import NamedTuple

from kraftwreck.checkers.calls import Call, known
from kraftwreck.checkers.linearizability.level_walk import Bounds, Outcome
from kraftwreck.checkers.linearizability.machines.elements import split
from kraftwreck.checkers.linearizability.machines.models import Machine, Operation
from kraftwreck.checkers.linearizability.machines.search import constraints, search
from kraftwreck.histories.operation import OK

SECONDS = 5.0
"""Processor time to look for them."""
_STEPS = 20_000
"""Configurations of one search; a longer one counts as possible."""
_MANY = 40
"""From this many calls on they explain nothing."""


def narrowed(machine: Machine, calls: Sequence[Call], outcome: Outcome) -> Outcome:
    """Put the smallest set of calls without an order into ``outcome``, if found in time."""
    if outcome.valid is not False or outcome.stuck is None:
        return outcome
    narrowing = _Narrowing(machine, calls, outcome.stuck)
    count = len(narrowing.items)
    core = narrowing.run()
    if core is not None:
        outcome.core, outcome.helpers, outcome.whole = core, narrowing.helpers(core), True
        outcome.others = count - len(core)
    return outcome


class _Narrowing:
    def __init__(self, machine: Machine, calls: Sequence[Call], stuck: Call) -> None:
        self._machine = machine
        self._stuck = stuck.start
        self._until = thread_time() + SECONDS
        before = [c for c in calls if c.start <= stuck.completion]
        self._ended = {call.start: call for call in before}
        # Calls open at that moment are not certain yet; their answers count if they happened.
        self.items = [(known(c, stuck.completion), o) for c, o in constraints(machine, before)]

    def run(self) -> list[Call] | None:
        promised = {c.start for c, _ in self.items if c.type == OK}
        if not self._impossible(promised):
            return None
        looks, changes = (
            [c.start for c, o in self.items if o.looks is wanted and c.start in promised]
            for wanted in (True, False)
        )
        promised = self._without(promised, [start for start in looks if start != self._stuck])
        promised = self._only_element(promised)
        chosen = [start for start in changes if start in promised and start != self._stuck]
        promised = self._without(promised, chosen)
        if len(promised) > _MANY:
            return None
        return [self._ended[start] for start in sorted(promised)]

    def _without(self, promised: set[int], candidates: list[int]) -> set[int]:
        """Return the rest of ``promised`` after leaving out as many ``candidates`` as possible."""
        if not candidates or thread_time() >= self._until:
            return promised
        fewer = promised.difference(candidates)
        if self._impossible(fewer):
            return fewer
        if len(candidates) == 1:
            return promised
        middle = len(candidates) // 2
        promised = self._without(promised, candidates[:middle])
        return self._without(promised, candidates[middle:])

    def _only_element(self, promised: set[int]) -> set[int]:
        """Keep only the element of the stuck call, if elements are independent."""
        left = [c for c, o in self.items if not o.looks or c.start in promised]
        for part in split(self._machine.name, left):
            starts = {call.start for call in part}
            if self._stuck in starts and len(part) < len(left):
                every, self.items = self.items, [i for i in self.items if i[0].start in starts]
                if self._impossible(promised & starts):
                    return promised & starts
                self.items = every
        return promised

    def _impossible(self, promised: set[int]) -> bool:
        """Return whether ``promised`` certainly has no order."""
        items: list[tuple[Call, Operation | _Maybe]] = []
        for call, operation in self.items:
            if call.start in promised:
                items.append((call, operation))
            elif not operation.looks:
                items.append((call, _Maybe(operation) if call.type == OK else operation))
        bounds = Bounds(self._until, SECONDS, _STEPS, None)
        return search(_Relaxed(self._machine), items, bounds).valid is False

    def helpers(self, core: Sequence[Call]) -> list[Call]:
        """Return the left-out calls that concern the same values."""
        starts = {call.start for call in core}
        wanted: set[Hashable] = set()
        for call, operation in self.items:
            if call.start in starts:
                wanted |= _values(operation)
        others = [
            self._ended[call.start]
            for call, operation in self.items
            if call.start not in starts and not operation.looks and _values(operation) & wanted
        ]
        return others if len(others) <= _MANY else []


class _Maybe(NamedTuple):
    """An operation that may have happened or not."""

    of: Operation
    looks: bool = False


class _Relaxed:
    """The machine, extended by operations that may never have happened."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.initial = machine.initial

    def choices(self, state: Hashable, operation: Operation | _Maybe) -> Sequence[Hashable]:
        if isinstance(operation, _Maybe):
            return (state, *self._machine.choices(state, operation.of))
        return self._machine.choices(state, operation)


def _values(operation: Operation) -> set[Hashable]:
    return {each for each in (operation.argument, operation.answer) if each not in (None, ...)}
