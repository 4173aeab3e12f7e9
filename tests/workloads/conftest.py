"""A simulator of generators without a system: how long operations take, and how they end."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from kraftwreck.harness.generator import Context, Due, Event, Generator, Pending
from kraftwreck.histories.operation import FAIL, INFO, INVOKE, OK, Op, OpType
from kraftwreck.workloads.generators import NS

LATENCY = 10
"""How many ns an operation takes."""

Ending = Callable[[int], OpType]
"""How the n-th operation ends."""

Line = tuple[int, int, str, str, object]


def perfect(number: int) -> OpType:
    return OK


def crashing(number: int) -> OpType:
    return INFO


def imperfect(number: int) -> OpType:
    """Ok, fail and info by turns."""
    return (OK, INFO, FAIL)[number % 3]


class Rehearsal:
    """Runs a generator on ``threads`` threads and records every event."""

    def __init__(
        self, generator: Generator, threads: int = 2, ending: Ending = perfect, seed: int = 45
    ) -> None:
        self.events: list[Op] = []
        self._generator: Generator | None = generator
        self._threads = tuple(range(threads))
        self._processes = {thread: thread for thread in self._threads}
        self._open: list[tuple[int, int, Op]] = []
        self._ending = ending
        self._seed = seed
        self._now = 0

    def run(self, most: int = 100) -> list[Line]:
        """Return (time, thread, type, f, value) of all invocations, at most ``most``."""
        begun = 0
        while self._generator is not None and begun < most:
            step = self._generator.op(self._context())
            if step is None:
                break
            due, after = step
            ended = self._open[0][0] if self._open else None
            if isinstance(due, Due) and (ended is None or due.time < ended):
                self._now = max(self._now, due.time)
                self._generator = after
                self._invoke(due, begun)
                begun += 1
                continue
            if isinstance(due, Pending):
                self._generator = after
                if due.until is not None and (ended is None or due.until < ended):
                    assert due.until > self._now
                    self._now = due.until
                    continue
            assert ended is not None, "nothing is open, and the generator waits"
            self._end()
        while self._open:
            self._end()
        return [
            (op.time, op.process % len(self._threads), op.type, op.f, op.value)
            for op in self.events
            if op.type == INVOKE
        ]

    def _context(self) -> Context:
        busy = {thread for _, thread, _ in self._open}
        free = tuple(thread for thread in self._threads if thread not in busy)
        return Context(self._now, self._seed, self._threads, free)

    def _invoke(self, due: Due, number: int) -> None:
        planned, thread = due.planned, due.thread
        op = self._add(thread, INVOKE, planned.f, planned.key, planned.value)
        heapq.heappush(self._open, (self._now + LATENCY, thread, op))
        self._update(thread, op)

    def _end(self) -> None:
        time, thread, op = heapq.heappop(self._open)
        self._now = max(self._now, time)
        number = sum(event.type == INVOKE for event in self.events[: op.index])
        done = self._add(thread, self._ending(number), op.f, op.key, op.value)
        if done.type == INFO:
            self._processes[thread] += len(self._threads)
        self._update(thread, done)

    def _add(self, thread: int, kind: OpType, f: str, key: object, value: object) -> Op:
        op = Op(
            index=len(self.events), process=self._processes[thread], type=kind, f=f, key=key,
            value=value, time=self._now,
        )  # fmt: skip
        self.events.append(op)
        return op

    def _update(self, thread: int, op: Op) -> None:
        if self._generator is not None:
            self._generator = self._generator.update(self._context(), Event(thread, op))


@pytest.fixture
def rehearse() -> type[Rehearsal]:
    return Rehearsal


SECOND = NS
