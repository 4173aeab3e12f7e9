"""The combinators of generators, with Jepsen's names. Source: jepsen.generator.

Each is a frozen value of other generators. Random choices are made by key (seed, purpose, threads,
position), never by a stream: leaving out one operation does not change the others. Durations are in
seconds, times in ns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from kraftwreck.harness.generator import (
    PENDING,
    Context,
    Due,
    Event,
    Generator,
    Pending,
    Planned,
    Step,
)
from kraftwreck.harness.planning import next_step, planned_by, updated
from kraftwreck.histories.operation import INFO, INVOKE, OK
from kraftwreck.nodes.draw import draw, draw_below, draw_unit

NS: Final = 1_000_000_000

_K = TypeVar("_K")

Plan = Callable[[int, int, int], Planned]
"""``plan(seed, thread, count)`` returns the ``count``-th operation of ``thread``."""


@dataclass(frozen=True, slots=True)
class Once:
    """One operation, on any free thread."""

    planned: Planned

    def op(self, context: Context) -> Step:
        """Return the operation as soon as a thread is free."""
        if not context.free:
            return PENDING, self
        return Due(context.time, _thread(context), self.planned), None

    def update(self, context: Context, event: Event) -> Generator:
        """Return itself."""
        return self


def once(f: str, key: Any = None, value: Any = None, node: str | None = None) -> Once:
    """Return a generator of one operation."""
    return Once(Planned(f, key, value, node))


@dataclass(frozen=True, slots=True)
class Plans:
    """Operations without end: those of each thread by their position, from ``plan``."""

    plan: Plan
    counts: Mapping[int, int] = field(default_factory=dict)

    def op(self, context: Context) -> Step:
        """Return the next operation of a free thread."""
        if not context.free:
            return PENDING, self
        thread = _thread(context)
        count = self.counts.get(thread, 0)
        planned = planned_by(self.plan, context.seed, thread, count)
        after = Plans(self.plan, {**self.counts, thread: count + 1})
        return Due(context.time, thread, planned), after

    def update(self, context: Context, event: Event) -> Generator:
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True)
class Then:
    """The operations of each part, one part after the other."""

    rest: tuple[Generator, ...]

    def op(self, context: Context) -> Step:
        """Return the next operation of the first part that has one."""
        for place, part in enumerate(self.rest):
            step = next_step(part, context)
            if step is not None:
                due, after = step
                left = self.rest[place + 1 :]
                return due, _some(Then((after, *left) if after is not None else left), left, after)
        return None

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to the current part."""
        if not self.rest:
            return self
        return Then((updated(self.rest[0], context, event), *self.rest[1:]))


def _some(then: Then, left: Sequence[Generator], after: Generator | None) -> Generator | None:
    return then if left or after is not None else None


def then(*parts: Generator) -> Generator:
    """Return ``parts`` in sequence; the next begins as soon as the one before has no operation."""
    return Then(parts)


def phases(*parts: Generator) -> Generator:
    """Return ``parts`` in sequence; the next begins when all threads are free."""
    return Then(tuple(Synchronize(part) for part in parts))


@dataclass(frozen=True, slots=True)
class Synchronize:
    """``inner``, which begins only when all threads are free."""

    inner: Generator

    def op(self, context: Context) -> Step:
        """Wait for all threads; from then on this is ``inner``."""
        if len(context.free) < len(context.threads):
            return PENDING, self
        return next_step(self.inner, context)

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return Synchronize(updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Limit:
    """The first ``count`` operations of ``inner``."""

    inner: Generator
    count: int

    def op(self, context: Context) -> Step:
        """Return the next operation unless there were enough."""
        if self.count <= 0:
            return None
        return _onward(next_step(self.inner, context), self._after)

    def _after(self, inner: Generator, due: Due | Pending) -> Generator:
        return Limit(inner, self.count - isinstance(due, Due))

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The operations of ``inner`` within ``seconds`` from the first request for one."""

    inner: Generator
    seconds: float
    end: int | None = None

    def op(self, context: Context) -> Step:
        """Return the next operation if it is due in time."""
        end = context.time + int(self.seconds * NS) if self.end is None else self.end
        if context.time >= end:
            return None
        step = next_step(self.inner, context)
        if step is None or (isinstance(step[0], Due) and step[0].time >= end):
            return None
        due, after = step
        if isinstance(due, Pending):
            due = Pending(end if due.until is None else min(end, due.until))
        return due, None if after is None else TimeLimit(after, self.seconds, end)

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Stagger:
    """The operations of ``inner`` with ``seconds`` between them on average.

    By the seed, the pauses of a whole run are uniform (up to twice the average) or exponential, so
    that operations come in bursts.
    """

    inner: Generator
    seconds: float
    due_us: float = 0.0
    count: int = 0

    def op(self, context: Context) -> Step:
        """Return the next operation, with its time."""
        step = next_step(self.inner, context)
        if step is None or isinstance(step[0], Pending):
            return _onward(step, lambda inner, due: replace(self, inner=inner))
        due, after = step
        assert isinstance(due, Due)
        at = max(self.due_us + self._pause_us(context), float(context.time // 1000))
        late = Due(max(int(at) * 1000, due.time), due.thread, due.planned)
        left = None if after is None else Stagger(after, self.seconds, at, self.count + 1)
        return late, left

    def _pause_us(self, context: Context) -> float:
        unit = draw_unit(context.seed, "stagger", *_mine(context), self.count)
        exponential = draw(context.seed, "stagger") % 2
        factor = -math.log(1.0 - unit) if exponential else 2 * unit
        return self.seconds * 1_000_000 * factor

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Delay:
    """The operations of ``inner``, each at least ``seconds`` after the one before."""

    inner: Generator
    seconds: float
    due: int | None = None

    def op(self, context: Context) -> Step:
        """Return the next operation, with its time."""
        step = next_step(self.inner, context)
        if step is None or isinstance(step[0], Pending):
            return _onward(step, lambda inner, due: replace(self, inner=inner))
        due, after = step
        assert isinstance(due, Due)
        at = due.time if self.due is None else max(due.time, self.due)
        left = None if after is None else Delay(after, self.seconds, at + int(self.seconds * NS))
        return Due(at, due.thread, due.planned), left

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Sleep:
    """No operation for ``seconds`` from the first request for one."""

    seconds: float
    end: int | None = None

    def op(self, context: Context) -> Step:
        """Wait until the time is over."""
        end = context.time + int(self.seconds * NS) if self.end is None else self.end
        return None if context.time >= end else (Pending(end), Sleep(self.seconds, end))

    def update(self, context: Context, event: Event) -> Generator:
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True)
class UntilOk:
    """The operations of ``inner`` until one of them ends ``ok``."""

    inner: Generator
    processes: frozenset[int] = frozenset()
    done: bool = False

    def op(self, context: Context) -> Step:
        """Return the next operation unless one has succeeded."""
        if self.done:
            return None
        return _onward(
            next_step(self.inner, context), lambda inner, due: replace(self, inner=inner)
        )

    def update(self, context: Context, event: Event) -> Generator:
        """Note the end of an operation."""
        op, mine = event.op, self.processes
        done = self.done or (op.type == OK and op.process in mine)
        mine = mine | {op.process} if op.type == INVOKE else mine - {op.process}
        return UntilOk(updated(self.inner, context, event), mine, done)


@dataclass(frozen=True, slots=True)
class UntilInfo:
    """The operations of ``inner`` until one of them ends ``info``: its effect is unknown.

    Inside of independent keys this abandons an object that may be stuck, such as a lock whose
    holder nobody knows.
    """

    inner: Generator
    done: bool = False

    def op(self, context: Context) -> Step:
        """Return the next operation unless one has ended ``info``."""
        if self.done:
            return None
        return _onward(
            next_step(self.inner, context), lambda inner, due: replace(self, inner=inner)
        )

    def update(self, context: Context, event: Event) -> Generator:
        """Note the end of an operation."""
        done = self.done or event.op.type == INFO
        return UntilInfo(updated(self.inner, context, event), done)


@dataclass(frozen=True, slots=True)
class OnThreads:
    """``inner`` on the ``wanted`` threads only."""

    inner: Generator
    wanted: Callable[[int], bool]

    def op(self, context: Context) -> Step:
        """Return the next operation of ``inner``."""
        step = next_step(self.inner, context.on(self.wanted))
        return _onward(step, lambda inner, due: replace(self, inner=inner))

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the events of these threads on."""
        if not self.wanted(event.thread):
            return self
        return _around(self, updated(self.inner, context.on(self.wanted), event))


@dataclass(frozen=True, slots=True)
class EachThread:
    """``inner`` on each thread by itself, as if there were no others."""

    inner: Generator
    own: Mapping[int, Generator | None] = field(default_factory=dict)

    def op(self, context: Context) -> Step:
        """Return the operation that is due first."""
        steps = {}
        for thread in context.free:
            generator = self.own.get(thread, self.inner)
            if generator is not None:
                steps[thread] = next_step(generator, context.on(thread.__eq__))
        ended = {thread: None for thread, step in steps.items() if step is None}
        own = {**self.own, **ended}
        first = soonest(steps)
        if first is None:
            over = all(t in own and own[t] is None for t in context.threads)
            return None if over else (waiting(steps), EachThread(self.inner, own))
        thread, due, after = first
        return due, EachThread(self.inner, {**own, thread: after})

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to the generator of its thread."""
        generator = self.own.get(event.thread, self.inner)
        if generator is None:
            return self
        after = updated(generator, context.on(event.thread.__eq__), event)
        return EachThread(self.inner, {**self.own, event.thread: after})

    def parts(self, threads: Sequence[int]) -> list[tuple[tuple[int, ...], Generator]]:
        """Return one generator a thread."""
        return [((thread,), self.inner) for thread in threads]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whichever of ``parts`` has an operation first; ties go to the earlier part."""

    of: tuple[Generator, ...]

    def op(self, context: Context) -> Step:
        """Return the operation that is due first."""
        steps = {place: next_step(part, context) for place, part in enumerate(self.of)}
        first = soonest(steps)
        if first is None:
            left = tuple(self.of[place] for place, step in steps.items() if step is not None)
            return (waiting(steps), AnyOf(left)) if left else None
        place, due, after = first
        kept = (after if i == place else part for i, part in enumerate(self.of) if steps[i])
        return due, AnyOf(tuple(part for part in kept if part is not None))

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to all parts."""
        return AnyOf(tuple(updated(part, context, event) for part in self.of))


def any_of(*parts: Generator) -> Generator:
    """Return the operations of all ``parts``, each as soon as it is due."""
    return AnyOf(parts)


def reserve(*counts: tuple[int, Generator], rest: Generator) -> Generator:
    """Return generators with threads of their own: the first of ``counts`` gets the first threads.

    ``rest`` gets the threads that are left.
    """
    parts: list[Generator] = []
    first = 0
    for count, generator in counts:
        parts.append(OnThreads(generator, range(first, first + count).__contains__))
        first += count
    start = first
    return any_of(*parts, OnThreads(rest, lambda thread: thread >= start))


@dataclass(frozen=True, slots=True)
class Mix:
    """Each operation from one of ``of``, chosen by weight; used up generators are left out."""

    of: tuple[tuple[int, Generator], ...]
    label: str = ""
    count: int = 0

    def op(self, context: Context) -> Step:
        """Return an operation of the chosen generator."""
        left = self.of
        while left:
            place = self._choose(context, left)
            weight, generator = left[place]
            step = next_step(generator, context)
            if step is not None:
                due, after = step
                mine = () if after is None else ((weight, after),)
                of = (*left[:place], *mine, *left[place + 1 :])
                after = Mix(of, self.label, self.count + isinstance(due, Due))
                return due, after if of else None
            left = left[:place] + left[place + 1 :]
        return None

    def _choose(self, context: Context, left: tuple[tuple[int, Generator], ...]) -> int:
        total = sum(weight for weight, _ in left)
        number = draw_below(total, context.seed, "mix", self.label, *_mine(context), self.count)
        for place, (weight, _) in enumerate(left):
            number -= weight
            if number < 0:
                return place
        raise AssertionError("the weights do not add up")

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to all generators."""
        of = tuple((weight, updated(each, context, event)) for weight, each in self.of)
        return Mix(of, self.label, self.count)


def mix(*weighted: tuple[int, Generator], label: str = "") -> Generator:
    """Return operations of several generators, in proportion to their weights.

    A mix inside another one needs a ``label``, the key of its choices.
    """
    return Mix(weighted, label)


@dataclass(frozen=True, slots=True)
class Map:
    """The operations of ``inner``, each changed by ``change``."""

    inner: Generator
    change: Callable[[Planned], Planned]

    def op(self, context: Context) -> Step:
        """Return the next operation, changed."""
        step = next_step(self.inner, context)
        if step is None:
            return None
        due, after = step
        if isinstance(due, Due):
            due = replace(due, planned=self.change(due.planned))
        return due, None if after is None else replace(self, inner=after)

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Filter:
    """The operations of ``inner`` that are ``wanted``."""

    inner: Generator
    wanted: Callable[[Planned], bool]

    def op(self, context: Context) -> Step:
        """Return the next wanted operation."""
        inner: Generator | None = self.inner
        while inner is not None:
            step = next_step(inner, context)
            if step is None:
                return None
            due, inner = step
            if isinstance(due, Pending) or self.wanted(due.planned):
                return due, None if inner is None else replace(self, inner=inner)
        return None

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Repeat:
    """The next operation of ``inner`` again and again, ``times`` times (None: without end)."""

    inner: Generator
    times: int | None = None

    def op(self, context: Context) -> Step:
        """Return the operation; ``inner`` does not advance."""
        if self.times is not None and self.times <= 0:
            return None
        step = next_step(self.inner, context)
        if step is None:
            return None
        fewer = None if self.times is None else self.times - isinstance(step[0], Due)
        return step[0], Repeat(self.inner, fewer)

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event on."""
        return _around(self, updated(self.inner, context, event))


@dataclass(frozen=True, slots=True)
class Cycle:
    """``inner`` from its beginning again whenever it has no operation left."""

    inner: Generator
    times: int | None = None
    now: Generator | None = None

    def op(self, context: Context) -> Step:
        """Return the next operation of this round, or of the next."""
        for running in (self.now, self.inner):
            if running is None or (running is self.inner and self.times == 0):
                continue
            step = next_step(running, context)
            if step is not None:
                fewer = self.times
                if running is self.inner and fewer is not None:
                    fewer -= 1
                return step[0], Cycle(self.inner, fewer, step[1])
        return None

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to the current round."""
        now = None if self.now is None else updated(self.now, context, event)
        return replace(self, now=now)


def _thread(context: Context) -> int:
    """Return a free thread, by draw."""
    free = context.free
    if len(free) == 1:
        return free[0]
    return free[draw_below(len(free), context.seed, "thread", context.time)]


def _mine(context: Context) -> tuple[int, ...]:
    """Return what distinguishes a generator of one thread from those of others."""
    return context.threads if len(context.threads) == 1 else ()


def _around(outer: Any, inner: Generator) -> Generator:
    """Return ``outer`` around ``inner``: itself if that has not changed, as most updates do not."""
    around: Generator = outer if inner is outer.inner else replace(outer, inner=inner)
    return around


def _onward(step: Step, after: Callable[[Generator, Due | Pending], Generator]) -> Step:
    """Return ``step`` with the generator that follows wrapped by ``after``."""
    if step is None:
        return None
    due, inner = step
    return due, None if inner is None else after(inner, due)


def soonest(steps: Mapping[_K, Step]) -> tuple[_K, Due, Generator | None] | None:
    """Return the operation that is due first, with its key and the generator after it."""
    found: tuple[_K, Due, Generator | None] | None = None
    for key, step in steps.items():
        if step is None or isinstance(step[0], Pending):
            continue
        if found is None or step[0].time < found[1].time:
            found = key, step[0], step[1]
    return found


def waiting(steps: Mapping[_K, Step]) -> Pending:
    """Return the earliest time at which a pending step asks to be asked again."""
    times = [step[0].until for step in steps.values() if step and isinstance(step[0], Pending)]
    return Pending(min((time for time in times if time is not None), default=None))
