"""The deadline of a connection: one timer, however often it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kraftwreck.nodes.server.deadline import Deadline


class Timer:
    """A timer of :class:`Clock`."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.is_cancelled = at, call, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """The part of an event loop that a deadline needs; ``started`` are all timers so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self.started: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> Any:
        self.started.append(Timer(at, call))
        return self.started[-1]

    def advance(self, to: float) -> None:
        """Let the time pass, and call the timers that end meanwhile."""
        while ended := [each for each in self.waiting() if each.at <= to]:
            first = min(ended, key=Timer.when)
            self.now = first.at
            first.cancel()
            first.call()
        self.now = to

    def waiting(self) -> list[Timer]:
        return [each for each in self.started if not each.is_cancelled]


def deadline() -> tuple[Clock, Deadline, list[float]]:
    """A clock, a deadline, and the times at which it passed."""
    clock, passed = Clock(), list[float]()
    loop = cast(asyncio.AbstractEventLoop, clock)
    return clock, Deadline(loop, lambda: passed.append(clock.now)), passed


def test_a_deadline_passes_once() -> None:
    clock, limit, passed = deadline()
    limit.set(3)
    clock.advance(10)
    assert passed == [3] and not clock.waiting()


def test_requests_that_are_answered_share_a_timer() -> None:
    clock, limit, passed = deadline()
    for number in range(90):
        limit.set(10)
        clock.advance((number + 1) / 10)
        limit.clear()
    assert len(clock.started) == 1
    clock.advance(20)
    assert passed == [] and not clock.waiting()


def test_a_later_deadline_passes_at_its_own_time() -> None:
    clock, limit, passed = deadline()
    limit.set(10)
    clock.advance(4)
    limit.clear()
    limit.set(10)
    clock.advance(30)
    assert passed == [14]


def test_an_earlier_deadline_does_not_wait_for_the_timer_of_a_later_one() -> None:
    clock, limit, passed = deadline()
    limit.set(10)
    limit.clear()
    limit.set(2)
    clock.advance(30)
    assert passed == [2]


def test_a_closed_one_leaves_no_timer() -> None:
    clock, limit, passed = deadline()
    limit.set(5)
    limit.close()
    assert not clock.waiting()
    clock.advance(30)
    limit.set(1)
    clock.advance(40)
    assert passed == [31]
