"""The search for one order of the operations that explains every answer.

The walk is :mod:`checkers.linearizability.level_walk`; this module expands a configuration between
two completions. A configuration that failed before at the same completion is not tried again.

Three reductions, all exact. An open read that agrees with the state is put into the order at once.
Indeterminate calls with equal effect are interchangeable, so they are counted and not named. A
configuration fails if a failed one has the same state and the same open calls, and used fewer
indeterminate calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from time import thread_time

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.level_walk import (
    Bounds,
    Configuration,
    Level,
    Link,
    Outcome,
    Walk,
    one_more,
)
from kraftwreck.checkers.linearizability.models import ANY, PRESENT, SAME, Action, Model, actions
from kraftwreck.histories.operation import OK

__all__ = ["MEMORY", "Outcome", "check"]

_Known = dict[tuple[Hashable, int], list[tuple[int, ...]]]
"""Indeterminate calls used, by (state, open calls in the order) that the search has reached."""
_QUICK = 20_000
"""Configurations that plain Python examines before compiled code takes over."""
_LONG = 20_000
"""From this many calls on compiled code takes over at once."""
_SLOW = 3_000_000
MEMORY = 1 << 30
"""Bytes that the compiled search may use."""


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
    (if given) or ``memory`` bytes were not enough, or when ``stop`` returned True (it is
    called every few thousand steps). Compiled code takes over what plain Python does not decide
    quickly. Raises :class:`~checkers.linearizability.models.ModelError`
    for operations the model does not know.
    """
    if max_steps is not None:
        return _Search(model, calls, time_limit_s, max_steps, stop).run()
    begun = thread_time()
    found = _Search(model, calls, time_limit_s, _QUICK, stop).run(compiled=len(calls) > _LONG)
    if found.valid is False and found.states:
        return _narrowed(model, calls, found)
    if found.valid != "unknown" or found.reason != f"no decision after {_QUICK} configurations":
        return found
    return _compiled(model, calls, begun, time_limit_s, stop, memory)


def _compiled(
    model: Model,
    calls: Sequence[Call],
    begun: float,
    time_limit_s: float,
    stop: Callable[[], bool] | None,
    memory: int,
) -> Outcome:
    from kraftwreck.checkers.linearizability.compiled_search import MAX_OPEN, Coded, CompiledSearch

    items = actions(model, calls)
    coded = Coded(model, items)
    search = CompiledSearch(coded.problem, memory)
    if search.max_open > MAX_OPEN:
        return _Search(model, calls, time_limit_s, _SLOW, stop, begun).run()
    result = search.run(begun + time_limit_s, stop, time_limit_s)
    order = [items[position][0].start for position in search.order().tolist()]
    if isinstance(result, str):
        return Outcome(valid="unknown", order=order, steps=search.steps, reason=result)
    if result:
        return Outcome(valid=True, order=order, steps=search.steps)
    outcome = Outcome(
        valid=False,
        order=order,
        stuck=items[int(search.positions[search.deepest])][0],
        window=[items[position][0] for position in search.window()],
        states=coded.names(search.states()),
        steps=search.steps,
    )
    return _narrowed(model, calls, outcome)


def _narrowed(model: Model, calls: Sequence[Call], outcome: Outcome) -> Outcome:
    """Add the smallest part of the history without an order, if it is found in time."""
    from kraftwreck.checkers.linearizability.compiled_search import Coded
    from kraftwreck.checkers.linearizability.narrowing import narrow

    items = actions(model, calls)
    stuck = next(at for at, (call, _) in enumerate(items) if call is outcome.stuck)
    stretch = narrow(Coded(model, items).problem, stuck)
    if stretch is not None:
        outcome.core = [items[at][0] for at in stretch.core]
        outcome.helpers = [items[at][0] for at in stretch.helpers]
        outcome.whole = stretch.whole
    return outcome


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
        deadline = (thread_time() if begun is None else begun) + time_limit_s
        self._bounds = Bounds(deadline, time_limit_s, max_steps, stop)

    def run(self, compiled: bool = False) -> Outcome:
        """Search; with ``compiled`` only decide what needs no search."""
        phantom = self._phantom()
        if phantom is not None:
            return Outcome(valid=False, order=[], stuck=phantom, window=[phantom])
        if compiled:
            reason = f"no decision after {self._bounds.max_steps} configurations"
            return Outcome(valid="unknown", order=[], reason=reason)
        self._walk = Walk(self._items, lambda action: action.result is SAME, self._bounds)
        count = len(self._walk.levels)
        self._seen: list[_Known] = [{} for _ in range(count)]
        self._observed: list[dict[Hashable, int]] = [{} for _ in range(count)]
        return self._walk.run(self._initial, self._expand)

    def _phantom(self) -> Call | None:
        """Return the first call that certainly saw a state which no call ever makes."""
        made = {action.result for _, action in self._items} | {self._initial}
        for call, action in self._items:
            need = action.need
            if call.type == OK and need is not ANY and need is not PRESENT and need not in made:
                return call
        return None

    def _expand(
        self, depth: int, start: Configuration, link: Link
    ) -> Iterator[tuple[Configuration, Link]]:
        """Yield the configurations just after the level's call was put into the order.

        Breadth first, so that orders with fewer calls come first. Orders with fewer
        indeterminate calls come before all others, as they keep more calls for later.
        """
        level, observed, seen = self._walk.levels[depth], self._observed[depth], self._seen[depth]
        bit, need, result = level.bit, level.action.need, level.action.result
        queue: list[tuple[Hashable, int, tuple[int, ...], Link]] = [(*start, link)]
        left: list[tuple[Hashable, int, tuple[int, ...], Link]] = []
        tried: _Known = {}
        while queue:
            for state, mask, used, trail in queue:
                self._walk.step()
                mask, trail = _observe(level, observed, state, mask, trail)
                if not _fresh(tried, (state, mask), used):
                    continue
                if mask & bit:
                    if _fresh(seen, (state, mask ^ bit), used):
                        yield (state, mask ^ bit, used), trail
                    continue
                if result is not SAME and _allowed(state, need):
                    done, more = _observe(level, observed, result, mask, (level.position, trail))
                    if _fresh(seen, (result, done), used):
                        yield (result, done, used), more
                for other, action, position in level.changes:
                    if not mask & other and other != bit and _allowed(state, action.need):
                        queue.append((action.result, mask | other, used, (position, trail)))
                left.append((state, mask, used, trail))
            queue, passed, left = [], left, []
            for state, mask, used, trail in passed:
                for group, action, available in level.available:
                    count = used[group] if group < len(used) else 0
                    if (
                        count < available
                        and action.result != state
                        and _allowed(state, action.need)
                    ):
                        queue.append((action.result, mask, one_more(used, group), (~group, trail)))


def _observe(
    level: Level[Action], observed: dict[Hashable, int], state: Hashable, mask: int, trail: Link
) -> tuple[int, Link]:
    """Put every open read that agrees with ``state`` into the order."""
    agreeing = observed.get(state)
    if agreeing is None:
        agreeing = 0
        for bit, action, _ in level.looks:
            if _allowed(state, action.need):
                agreeing |= bit
        observed[state] = agreeing
    new = agreeing & ~mask
    if new:
        for bit, _, position in level.looks:
            if new & bit:
                trail = (position, trail)
        mask |= new
    return mask, trail


def _fresh(
    known: _Known,
    place: tuple[Hashable, int],
    used: tuple[int, ...],
) -> bool:
    """Remember ``used`` at ``place``; False if a known entry is at least as good."""
    there = known.get(place)
    if there is None:
        known[place] = [used]
        return True
    for other in there:
        if len(other) <= len(used) and all(a <= b for a, b in zip(other, used, strict=False)):
            return False
    there.append(used)
    return True
