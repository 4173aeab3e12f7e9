"""Generators of independent keys, one after the other or several at a time.

Source: jepsen.independent. ``make(key)`` returns the generator of one key; its operations get that
key. ``keys`` is any sequence; ``range(10**9)`` never ends in practice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kraftwreck.harness.generator import Context, Due, Event, Generator, Pending, Step
from kraftwreck.harness.planning import made_by, next_step, updated
from kraftwreck.workloads.generators import soonest, waiting

Make = Callable[[Any], Generator]


@dataclass(frozen=True, slots=True)
class SequentialKeys:
    """All threads work on one key until its generator ends, then on the next."""

    keys: Sequence[Any]
    make: Make
    at: int = 0
    now: Generator | None = None

    def op(self, context: Context) -> Step:
        """Return the next operation of the current key, or the first of the next one."""
        at, now = self.at, self.now
        while at < len(self.keys):
            generator = made_by(self.make, self.keys[at]) if now is None else now
            step = next_step(generator, context)
            if step is not None:
                due, after = step
                left = (
                    replace(self, at=at + 1, now=None)
                    if after is None
                    else replace(self, at=at, now=after)
                )
                return _keyed(due, self.keys[at]), left
            at, now = at + 1, None
        return None

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to the generator of the current key."""
        if self.now is None or event.op.key != self.keys[self.at]:
            return self
        return replace(self, now=updated(self.now, context, event))


@dataclass(frozen=True, slots=True)
class ConcurrentKeys:
    """Groups of ``size`` threads, each working on a key of its own until its generator ends.

    Threads that do not fill a group stay idle.
    """

    keys: Sequence[Any]
    size: int
    make: Make
    used: int = 0
    groups: Mapping[int, tuple[int, Generator | None]] = field(default_factory=dict)
    """Per group the place of its key, and the generator that is left of it."""

    def op(self, context: Context) -> Step:
        """Return the operation that is due first, over all groups."""
        steps: dict[int, Step] = {}
        groups, used = dict(self.groups), self.used
        places = {thread: place // self.size for place, thread in enumerate(context.threads)}
        for group in range(len(context.threads) // self.size):
            own = context.on(lambda thread, group=group: places[thread] == group)  # type: ignore[misc]
            step: Step = None
            while step is None:
                if group not in groups or groups[group][1] is None:
                    if used >= len(self.keys):
                        break
                    groups[group] = used, made_by(self.make, self.keys[used])
                    used += 1
                generator = groups[group][1]
                assert generator is not None
                step = next_step(generator, own)
                if step is None:
                    groups[group] = groups[group][0], None
            steps[group] = step
        first = soonest(steps)
        if first is None:
            if all(step is None for step in steps.values()):
                return None
            return waiting(steps), replace(self, used=used, groups=groups)
        chosen, due, after = first
        at = groups[chosen][0]
        groups[chosen] = at, after
        return _keyed(due, self.keys[at]), replace(self, used=used, groups=groups)

    def update(self, context: Context, event: Event) -> Generator:
        """Pass the event to the generator of its group, if it still has the same key."""
        if event.thread not in context.threads:
            return self
        group = context.threads.index(event.thread) // self.size
        at, generator = self.groups.get(group, (-1, None))
        if generator is None or event.op.key != self.keys[at]:
            return self
        first = group * self.size
        mine = context.threads[first : first + self.size]
        after = updated(generator, context.on(mine.__contains__), event)
        return replace(self, groups={**self.groups, group: (at, after)})


def _keyed(due: Due | Pending, key: Any) -> Due | Pending:
    if isinstance(due, Pending):
        return due
    return replace(due, planned=replace(due.planned, key=key))
