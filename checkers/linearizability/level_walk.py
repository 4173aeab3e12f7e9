"""Walk from completion to completion in search of an order; a parameter expands configurations.

Just-in-time linearization, depth first (Lowe, "Testing for linearizability", CCPE 2017, after
Wing and Gong, 1993): a call is put into the order no later than at its completion. A
configuration is (state, open calls already in the order, indeterminate calls used). Generators
are kept on a list, so the length of a history has no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any, Generic, TypeVar

import msgspec

from kraftwreck.checkers.calls import Call
from kraftwreck.histories.operation import OK
from kraftwreck.histories.verdict import Validity

Configuration = tuple[Hashable, int, tuple[int, ...]]
Link = Any
"""A linked list (position, rest) of calls in the order, last first; None when empty. ``~group``
stands for the earliest indeterminate call of a group that is not used yet."""
A = TypeVar("A", bound=Hashable)
_PULSE = 1024


class Outcome(msgspec.Struct, kw_only=True):
    """The result of a search.

    ``order`` is, when valid, the calls (by their ``start`` index) in a legal order. When
    not, it is the longest legal order found before the ``stuck`` call could not be placed
    (empty when that call saw a value that was never written). ``window`` are the calls open at
    that moment, ``states`` the values that were possible there. ``steps`` counts configurations.
    ``reason`` explains an unknown result.

    ``why`` explains a missing order that was not found by the search. ``placed`` is then the
    length of the longest legal order, of which ``order`` is the end, and ``window`` are the few
    calls without an order.

    ``core`` is the smallest set of calls that has no order in any state before them (``whole``:
    in the initial state). ``helpers`` are writes that may have happened among them. ``others``
    is the number of further calls that may have happened or not, if known.
    """

    valid: Validity
    order: list[int]
    stuck: Call | None = None
    window: list[Call] = []
    states: list[Any] = []
    steps: int = 0
    reason: str | None = None
    why: str | None = None
    placed: int | None = None
    core: list[Call] = []
    helpers: list[Call] = []
    whole: bool = False
    others: int = 0


class StoppedError(Exception):
    """The search was stopped; the message says why."""


@dataclass(frozen=True)
class Bounds:
    """When to give up: a deadline, its length in seconds, a number of configurations, a request.

    Time is CPU time of this thread: a busy machine makes a search late, and must not make it
    undecided.
    """

    deadline: float
    time_limit_s: float
    max_steps: int
    stop: Callable[[], bool] | None

    def check(self, steps: int) -> None:
        """Raise :class:`StoppedError` when one of the bounds is reached."""
        if steps > self.max_steps:
            raise StoppedError(f"no decision after {self.max_steps} configurations")
        if thread_time() > self.deadline:
            raise StoppedError(f"no decision within {self.time_limit_s:g} s")
        if self.stop is not None and self.stop():
            raise StoppedError("the search was interrupted")


def time_left(deadline: float) -> float:
    """Return how many seconds of this thread's CPU time are left until ``deadline``, at least a
    tenth: late keys get some time too."""
    return max(deadline - thread_time(), 0.1)


@dataclass(slots=True)
class Level(Generic[A]):
    """One completion: the call, its bit, and the calls open then as (bit, action, position)."""

    position: int
    bit: int
    action: A
    looks: list[tuple[int, A, int]]
    changes: list[tuple[int, A, int]]
    available: list[tuple[int, A, int]]
    """Indeterminate calls by equal effect: (group, action, how many were invoked)."""


class Walk(Generic[A]):
    """The levels of ``items``, and the walk through them.

    ``looks`` returns whether an action never changes the state.
    """

    def __init__(
        self, items: Sequence[tuple[Call, A]], looks: Callable[[A], bool], bounds: Bounds
    ) -> None:
        self.items = items
        self.members: list[list[int]] = []
        self.steps = 0
        self._bounds = bounds
        self._looks = looks
        self.levels = self._prepare()

    def _prepare(self) -> list[Level[A]]:
        """Note the calls open at each completion, in one pass over the events."""
        events: list[tuple[int, int]] = []
        for position, (call, _) in enumerate(self.items):
            events.append((call.start, position))
            if call.type == OK:
                events.append((call.end, ~position))
        events.sort()
        groups: dict[A, int] = {}
        free: list[int] = []
        open_calls: dict[int, tuple[int, A, int]] = {}
        levels: list[Level[A]] = []
        for _, code in events:
            if code >= 0:
                call, action = self.items[code]
                if call.type == OK:
                    bit = free.pop() if free else 1 << len(open_calls)
                    open_calls[code] = (bit, action, code)
                    continue
                group = groups.setdefault(action, len(groups))
                if group == len(self.members):
                    self.members.append([])
                self.members[group].append(code)
                continue
            bit, action, position = open_calls[~code]
            level = Level(position, bit, action, [], [], [])
            for entry in open_calls.values():
                (level.looks if self._looks(entry[1]) else level.changes).append(entry)
            level.available = [(g, each, len(self.members[g])) for each, g in groups.items()]
            levels.append(level)
            del open_calls[~code]
            free.append(bit)
        return levels

    def step(self) -> None:
        """Count a configuration. Raises :class:`StoppedError` at a bound."""
        self.steps += 1
        if self.steps % _PULSE == 0:
            self._bounds.check(self.steps)

    def run(
        self,
        initial: Hashable,
        expand: Callable[[int, Configuration, Link], Iterator[tuple[Configuration, Link]]],
    ) -> Outcome:
        """Search; ``expand(level, configuration, link)`` yields the configurations after it."""
        levels = self.levels
        if not levels:
            return Outcome(valid=True, order=[])
        best: Link = None
        stack = [expand(0, (initial, 0, ()), None)]
        deepest = 0
        states: dict[Hashable, None] = {initial: None}
        try:
            while stack:
                found = next(stack[-1], None)
                if found is None:
                    stack.pop()
                    continue
                configuration, link = found
                depth = len(stack)
                if depth == len(levels):
                    return Outcome(valid=True, order=self._order(link), steps=self.steps)
                if depth > deepest:
                    deepest, best, states = depth, link, {}
                if depth == deepest:
                    states[configuration[0]] = None
                stack.append(expand(depth, configuration, link))
        except StoppedError as bound:
            return Outcome(
                valid="unknown", order=self._order(best), steps=self.steps, reason=str(bound)
            )
        level = levels[deepest]
        window = sorted(level.looks + level.changes, key=lambda entry: entry[2])
        return Outcome(
            valid=False,
            order=self._order(best),
            stuck=self.items[level.position][0],
            window=[self.items[position][0] for _, _, position in window],
            states=list(states),
            steps=self.steps,
        )

    def _order(self, link: Link) -> list[int]:
        codes = []
        while link is not None:
            code, link = link
            codes.append(code)
        return named(codes[::-1], self.members, self.items)


def named(
    codes: Sequence[int], members: list[list[int]], items: Sequence[tuple[Call, Any]]
) -> list[int]:
    """Return calls by ``start``; ``~group`` is the earliest one of a group not yet used."""
    used = [0] * len(members)
    starts = []
    for code in codes:
        position = code
        if code < 0:
            position = members[~code][used[~code]]
            used[~code] += 1
        starts.append(items[position][0].start)
    return starts


def one_more(used: tuple[int, ...], group: int) -> tuple[int, ...]:
    """Return ``used`` with one more of ``group``."""
    grown = used + (0,) * (group + 1 - len(used))
    return (*grown[:group], grown[group] + 1, *grown[group + 1 :])
