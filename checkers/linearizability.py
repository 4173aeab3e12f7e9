"""Is there one order of the operations that explains every answer?

Just-in-time linearization, depth first (Lowe, "Testing for linearizability", CCPE 2017,
after Wing and Gong, 1993). A call is put into the order no later than at its completion.
A configuration is (state, open calls already in the order, indeterminate calls used); one
that failed before at the same completion is not tried again. Iterative: generators are
kept on a list, so the length of a history is no matter.

Three reductions, all exact: an open read that agrees with the state is put into the order
at once; indeterminate calls with equal effect are interchangeable, so they are counted and
not named; a configuration that used more indeterminate calls than a failed one with the
same state and the same open calls fails too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import msgspec

from checkers.calls import Call
from checkers.models import ANY, PRESENT, SAME, Action, Model, actions
from histories.operation import OK
from histories.verdict import Validity

Configuration = tuple[Hashable, int, tuple[int, ...]]
Link = Any
"""A linked list (position, rest) of calls in the order, last first; None when empty."""

_PULSE = 2048
_QUICK = 20_000
"""Configurations that plain Python looks at before compiled code takes over."""
_LONG = 20_000
"""Calls from which on it takes over at once."""
_SLOW = 3_000_000
MEMORY = 1 << 30
"""Bytes that the compiled search may use."""


class Outcome(msgspec.Struct, kw_only=True):
    """What the search found.

    ``order`` is, when valid, the calls (by their ``start`` index) in a legal order; when
    not, the longest legal order found before the ``stuck`` call could not be placed (empty
    when that call saw a value nobody wrote). ``window`` are the calls open at that moment,
    ``states`` the values that were possible there. ``steps`` counts configurations,
    ``reason`` says why the result is unknown. ``why`` says in plain words why there is no
    order, where the search is not what found it; ``placed`` is then the length of the
    longest legal order, of which ``order`` is the end, and ``window`` are the few calls that
    no order can hold.
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


class _StoppedError(Exception):
    """The search was stopped; the message says by what."""


@dataclass(slots=True)
class _Completion:
    """One completion in the history, with the calls open at that moment.

    ``bit`` is 0 and ``position`` negative for the last, virtual one.
    """

    position: int
    bit: int
    action: Action
    reads: list[tuple[int, Action, int]]
    writes: list[tuple[int, Action, int]]
    groups: list[tuple[int, Action, int]]
    """Indeterminate calls by equal effect: (group, action, how many were invoked)."""
    seen: dict[tuple[Hashable, int], list[tuple[int, ...]]] = field(default_factory=dict)
    observed: dict[Hashable, int] = field(default_factory=dict)


def check(
    model: Model,
    calls: Sequence[Call],
    *,
    time_limit_s: float = 60.0,
    max_steps: int | None = None,
    stop: Callable[[], bool] | None = None,
    memory: int = MEMORY,
) -> Outcome:
    """Search for a legal order of ``calls`` (of one key).

    ``valid`` is ``"unknown"`` when ``time_limit_s`` seconds, ``max_steps`` configurations
    (where told) or ``memory`` bytes did not suffice, or when ``stop`` returned True (it is
    asked every few thousand steps). What plain Python does not decide in a moment is left
    to compiled code. Raises :class:`~checkers.models.ModelError` for operations the model
    does not know.
    """
    if max_steps is not None:
        return _Search(model, calls, time_limit_s, max_steps, stop).run()
    begun = monotonic()
    found = _Search(model, calls, time_limit_s, _QUICK, stop).run(compiled=len(calls) > _LONG)
    if found.valid != "unknown" or found.reason != f"no decision after {_QUICK} configurations":
        return found
    from checkers.compiled_search import MAX_OPEN, CompiledSearch

    items = actions(model, calls)
    search = CompiledSearch(model, items, memory)
    if search.max_open > MAX_OPEN:
        return _Search(model, calls, time_limit_s, _SLOW, stop, begun).run()
    result = search.run(begun + time_limit_s, stop, time_limit_s)
    order = _named(search.codes(), search.members, items)
    if isinstance(result, str):
        return Outcome(valid="unknown", order=order, steps=search.steps, reason=result)
    if result:
        return Outcome(valid=True, order=order, steps=search.steps)
    return Outcome(
        valid=False,
        order=order,
        stuck=items[int(search.positions[search.deepest])][0],
        window=[items[position][0] for position in search.window()],
        states=search.states(),
        steps=search.steps,
    )


def _named(
    codes: Sequence[int], members: list[list[int]], items: Sequence[tuple[Call, Action]]
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


def _allowed(state: Hashable, need: Hashable) -> bool:
    return need is ANY or (state is not None if need is PRESENT else state == need)


class _Search:
    def __init__(
        self,
        model: Model,
        calls: Sequence[Call],
        time_limit_s: float,
        max_steps: int,
        stop: Callable[[], bool] | None,
        begun: float | None = None,
    ) -> None:
        self._initial = model.initial
        self._items = actions(model, calls)
        self._members: list[list[int]] = []
        self._levels: list[_Completion] = []
        self._deadline = (monotonic() if begun is None else begun) + time_limit_s
        self._time_limit_s = time_limit_s
        self._max_steps = max_steps
        self._stop = stop
        self._steps = 0

    def _prepare(self) -> list[_Completion]:
        """Walk through the events once and note who is open at each completion."""
        events: list[tuple[int, int]] = []
        for position, (call, _) in enumerate(self._items):
            events.append((call.start, position))
            if call.type == OK:
                events.append((call.end, ~position))
        events.sort()
        groups: dict[Action, int] = {}
        free: list[int] = []
        bits: dict[int, int] = {}
        open_calls: dict[int, tuple[int, Action, int]] = {}
        levels: list[_Completion] = []
        for _, code in events:
            if code >= 0:
                call, action = self._items[code]
                if call.type != OK:
                    group = groups.setdefault(action, len(groups))
                    if group == len(self._members):
                        self._members.append([])
                    self._members[group].append(code)
                    continue
                bit = free.pop() if free else 1 << len(open_calls)
                bits[code] = bit
                open_calls[code] = (bit, action, code)
                continue
            position = ~code
            levels.append(self._level(position, bits[position], open_calls, groups))
            del open_calls[position]
            free.append(bits.pop(position))
        return levels

    def _level(
        self,
        position: int,
        bit: int,
        open_calls: dict[int, tuple[int, Action, int]],
        groups: dict[Action, int],
    ) -> _Completion:
        level = _Completion(position, bit, self._items[position][1], [], [], [])
        for entry in open_calls.values():
            (level.reads if entry[1].result is SAME else level.writes).append(entry)
        level.groups = [(g, action, len(self._members[g])) for action, g in groups.items()]
        return level

    def run(self, compiled: bool = False) -> Outcome:
        """Search; with ``compiled`` only for what needs no search."""
        phantom = self._phantom()
        if phantom is not None:
            return Outcome(valid=False, order=[], stuck=phantom, window=[phantom])
        if compiled:
            reason = f"no decision after {self._max_steps} configurations"
            return Outcome(valid="unknown", order=[], reason=reason)
        levels = self._levels = self._prepare()
        link: Link = None
        if not levels:
            return Outcome(valid=True, order=[])
        empty: Configuration = (self._initial, 0, ())
        stack = [self._expand(levels[0], empty, None)]
        deepest, best = 0, link
        stuck_states: dict[Hashable, None] = {self._initial: None}
        try:
            while stack:
                found = next(stack[-1], None)
                if found is None:
                    stack.pop()
                    continue
                configuration, link = found
                depth = len(stack)
                if depth == len(levels):
                    return Outcome(valid=True, order=self._order(link), steps=self._steps)
                if depth > deepest:
                    deepest, best = depth, link
                    stuck_states = {}
                if depth == deepest:
                    stuck_states[configuration[0]] = None
                stack.append(self._expand(levels[depth], configuration, link))
        except _StoppedError as bound:
            return Outcome(
                valid="unknown", order=self._order(best), steps=self._steps, reason=str(bound)
            )
        level = levels[deepest]
        entries = sorted(level.reads + level.writes, key=lambda entry: entry[2])
        return Outcome(
            valid=False,
            order=self._order(best),
            stuck=self._items[level.position][0],
            window=[self._items[position][0] for _, _, position in entries],
            states=list(stuck_states),
            steps=self._steps,
        )

    def _phantom(self) -> Call | None:
        """Return the first call that certainly saw a state which no call ever makes."""
        made = {action.result for _, action in self._items} | {self._initial}
        for call, action in self._items:
            need = action.need
            if call.type == OK and need is not ANY and need is not PRESENT and need not in made:
                return call
        return None

    def _order(self, link: Link) -> list[int]:
        codes = []
        while link is not None:
            code, link = link
            codes.append(code)
        return _named(codes[::-1], self._members, self._items)

    def _pulse(self) -> None:
        if self._steps > self._max_steps:
            raise _StoppedError(f"no decision after {self._max_steps} configurations")
        if monotonic() > self._deadline:
            raise _StoppedError(f"no decision within {self._time_limit_s:g} s")
        if self._stop is not None and self._stop():
            raise _StoppedError("the search was interrupted")

    def _expand(
        self, level: _Completion, start: Configuration, link: Link
    ) -> Iterator[tuple[Configuration, Link]]:
        """Yield the configurations just after ``level``'s call was put into the order.

        Breadth first, so that orders with fewer calls come first.
        """
        bit, need, result = level.bit, level.action.need, level.action.result
        queue: list[tuple[Hashable, int, tuple[int, ...], Link]] = [(*start, link)]
        tried: dict[tuple[Hashable, int], list[tuple[int, ...]]] = {}
        for state, mask, used, trail in queue:
            self._steps += 1
            if self._steps % _PULSE == 0:
                self._pulse()
            mask, trail = _observe(level, state, mask, trail)
            if not _fresh(tried, (state, mask), used):
                continue
            if mask & bit:
                if _fresh(level.seen, (state, mask ^ bit), used):
                    yield (state, mask ^ bit, used), trail
                continue
            if result is not SAME and _allowed(state, need):
                done, more = _observe(level, result, mask, (level.position, trail))
                if _fresh(level.seen, (result, done), used):
                    yield (result, done, used), more
            for other, action, position in level.writes:
                if not mask & other and other != bit and _allowed(state, action.need):
                    queue.append((action.result, mask | other, used, (position, trail)))
            for group, action, available in level.groups:
                count = used[group] if group < len(used) else 0
                if count < available and action.result != state and _allowed(state, action.need):
                    grown = used + (0,) * (group + 1 - len(used))
                    grown = (*grown[:group], count + 1, *grown[group + 1 :])
                    queue.append((action.result, mask, grown, (~group, trail)))


def _observe(level: _Completion, state: Hashable, mask: int, trail: Link) -> tuple[int, Link]:
    """Put every open read that agrees with ``state`` into the order."""
    agreeing = level.observed.get(state)
    if agreeing is None:
        agreeing = 0
        for bit, action, _ in level.reads:
            if _allowed(state, action.need):
                agreeing |= bit
        level.observed[state] = agreeing
    new = agreeing & ~mask
    if new:
        for bit, _, position in level.reads:
            if new & bit:
                trail = (position, trail)
        mask |= new
    return mask, trail


def _fresh(
    known: dict[tuple[Hashable, int], list[tuple[int, ...]]],
    place: tuple[Hashable, int],
    used: tuple[int, ...],
) -> bool:
    """Remember ``used`` at ``place``; False when nothing better than what is known there."""
    there = known.get(place)
    if there is None:
        known[place] = [used]
        return True
    for other in there:
        if len(other) <= len(used) and all(a <= b for a, b in zip(other, used, strict=False)):
            return False
    there.append(used)
    return True
