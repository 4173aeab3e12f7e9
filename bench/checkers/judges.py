"""Naive judges of small histories, which share no code with the checkers.

They search for a legal order of the operations by trying every one that real time allows. They
remember positions (operations done, state) that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kraftwreck.histories.operation import Op


class Done(NamedTuple):
    """An operation; ``sure`` if it certainly happened."""

    begin: int
    end: int
    process: int
    sure: bool
    f: str
    asked: Any
    answer: Any


Step = Callable[[Any, Done], Iterable[Hashable]]
"""The states that may follow; none if the operation cannot have this answer."""
_NEVER = 1 << 40


def operations(ops: Sequence[Op], looks: Iterable[str] = ()) -> list[Done]:
    """Join invocations and completions; leave out failed operations and reads without a result."""
    begun: dict[int, Op] = {}
    found = []
    for op in ops:
        if op.type == "invoke":
            begun[op.process] = op
            continue
        first = begun.pop(op.process)
        if op.type == "ok":
            done = Done(first.index, op.index, op.process, True, op.f, first.value, op.value)
            found.append(done)
        elif op.type == "info":
            begun[op.process] = first
    for first in begun.values():
        if first.f not in looks:
            asked = first.value
            found.append(Done(first.index, _NEVER, first.process, False, first.f, asked, None))
    return sorted(found)


def explained(calls: Sequence[Done], initial: Hashable, step: Step, timely: bool = True) -> bool:
    """Return whether some order of ``calls`` is legal; with ``timely``, one in real time."""
    needed = [0] * len(calls)
    goal = 0
    for at, call in enumerate(calls):
        goal |= call.sure << at
        for other, before in enumerate(calls):
            if timely and before.end < call.begin:
                needed[at] |= 1 << other
    failed = set()

    def search(done: int, state: Hashable) -> bool:
        if done & goal == goal:
            return True
        if (done, state) in failed:
            return False
        failed.add((done, state))
        return any(
            search(done | 1 << at, following)
            for at, call in enumerate(calls)
            if not done >> at & 1 and not needed[at] & ~done
            for following in step(state, call)
        )

    return search(0, initial)


def register(strict: bool = False, expires: bool = False) -> Step:
    """A register of null at first; ``strict``: written and deleted only while not null. If it
    ``expires``, it may be null when it is read, and from then on."""

    def step(state: Any, call: Done) -> Iterator[Hashable]:
        if call.f == "read":
            if state == call.answer or (expires and call.answer is None):
                yield call.answer
        elif call.f == "cas":
            if state == call.asked[0]:
                yield call.asked[1]
        elif not strict or state is not None:
            yield call.asked if call.f == "write" else None

    return step


def lock(owned: bool) -> Step:
    """None while free, else the holder (True: any)."""

    def step(state: Any, call: Done) -> Iterator[Hashable]:
        me = call.process if owned else -1
        if call.f == "acquire" and state is None:
            yield me
        if call.f == "release" and state == me:
            yield None

    return step


def queue(fifo: bool) -> Step:
    """A tuple of its members, in the order of the enqueues."""

    def step(state: Any, call: Done) -> Iterator[Hashable]:
        if call.f == "enqueue":
            yield (*state, call.asked)
        elif call.sure and call.answer is None:
            if not state:
                yield state
        else:
            if not call.sure and not state:
                yield state
            for at, item in enumerate(state[:1] if fifo else state):
                if not call.sure or item == call.answer:
                    yield (*state[:at], *state[at + 1 :])

    return step


def members(state: Any, call: Done) -> Iterator[Hashable]:
    """A set as a frozenset."""
    if call.f == "add":
        yield state | {call.asked}
    elif call.f == "remove":
        yield state - {call.asked}
    elif call.f == "contains":
        if (call.asked in state) == call.answer:
            yield state
    elif sorted(state) == sorted(call.answer):
        yield state


def counter(state: Any, call: Done) -> Iterator[Hashable]:
    """A number."""
    if call.f == "add":
        yield state + call.asked
    elif state == call.answer:
        yield state


def string(state: Any, call: Done) -> Iterator[Hashable]:
    """A string; null is the empty one."""
    if call.f != "get":
        yield call.asked if call.f == "put" else state + call.asked
    elif state == (call.answer or ""):
        yield state


def several(state: Any, call: Done) -> Iterator[Hashable]:
    """Registers x and y as a pair, written and read together."""
    held = list(state)
    for f, key, value in call.answer if call.sure else call.asked:
        if f == "write":
            held["xy".index(key)] = value
        elif call.sure and value is not None and held["xy".index(key)] != value:
            return
    yield tuple(held)


def whole_log(state: Any, call: Done) -> Iterator[Hashable]:
    """A tuple of the values; reads are of all of it."""
    if call.f == "append":
        if not isinstance(call.answer, list) or call.answer[0] == len(state):
            yield (*state, call.asked)
    elif list(state) == call.answer:
        yield state


def log_with_gaps(highest: int) -> Step:
    """(The least offset of the next append, (offset, value) …); offsets up to ``highest``."""

    def step(state: Any, call: Done) -> Iterator[Hashable]:
        least, held = state
        if call.f == "append":
            told = call.sure and isinstance(call.answer, list)
            for offset in [call.answer[0]] if told else range(least, highest + 1):
                if offset >= least:
                    yield offset + 1, (*held, (offset, call.asked))
        elif call.f == "size":
            if call.answer >= least:
                yield call.answer, held
        elif all(
            least <= offset if value is None else (offset, value) in held
            for offset, value in call.answer
        ):
            yield state

    return step


def lists(state: Any, call: Done) -> Iterator[Hashable]:
    """Lists x and y, appended to and read by transactions."""
    held = list(state)
    for f, key, value in call.answer if call.sure else call.asked:
        at = "xy".index(key)
        if f == "append":
            held[at] = (*held[at], value)
        elif call.sure and held[at] != tuple(value or ()):
            return
    yield tuple(held)


def values(state: Any, call: Done) -> Iterator[Hashable]:
    """Registers x and y, written and read by transactions."""
    held = list(state)
    for f, key, value in call.answer if call.sure else call.asked:
        at = "xy".index(key)
        if f == "w":
            held[at] = value
        elif call.sure and held[at] != value:
            return
    yield tuple(held)
