"""The operations of clients, from planning to completion: the pure part of the interpreter.

Modelled on jepsen.generator.interpreter. Each thread runs one operation at a time. A process ends
when its operation ends ``info``; its thread continues as ``process + concurrency``. After the last
heal the final operations show whether every node reaches the same, complete state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, Final

from kraftwreck.harness.client import Completion
from kraftwreck.harness.commands import (
    Abort,
    Command,
    Drop,
    Ended,
    Invoke,
    LimitDue,
    OperationDue,
    PollDue,
    Record,
    Renew,
    Wake,
)
from kraftwreck.harness.generator import Context, Due, Event, Generator, Pending, Planned
from kraftwreck.harness.governor import Counts
from kraftwreck.harness.planning import next_step, parts_of, planning, updated
from kraftwreck.histories.operation import FAIL, INFO, INVOKE, OK, Op, OpType

POLL: Final = 200_000_000
"""Time (ns) between two attempts of a final read."""
HELD: Final = 20_000_000
"""Time (ns) until an operation that is due during a pause is due again."""
FINAL_LIMIT: Final = 15_000_000_000
"""How long (ns) final reads are polled, all together."""


class _Thread:
    __slots__ = ("attempt", "count", "lane", "op", "process")

    def __init__(self, number: int) -> None:
        self.process = number
        self.count = 0
        self.attempt = 0
        self.op: Op | None = None
        self.lane: _Lane | None = None


class _Lane:
    """Threads that share a generator; most lanes have one thread."""

    __slots__ = ("asked", "generator", "number", "ready", "threads")

    def __init__(self, number: int, threads: tuple[int, ...], generator: Generator) -> None:
        self.number = number
        self.threads = threads
        self.generator: Generator | None = generator
        self.asked = 0
        self.ready: tuple[Due, Generator | None] | None = None


class Operations:
    """``concurrency`` threads that carry out the operations of ``generator``.

    No operation begins at or after ``until`` (ns). ``only`` is a set of (thread, position among the
    thread's operations from 0): all others are left out, and these stay the same. An attempt that
    takes longer than ``limit`` (ns) is aborted.
    """

    def __init__(
        self,
        generator: Generator | None,
        *,
        seed: int,
        concurrency: int,
        until: int | None = None,
        only: Set[tuple[int, int]] | None = None,
        limit: int | None = None,
    ) -> None:
        self._seed = seed
        self._concurrency = concurrency
        self._until = until
        self._only = only
        self._limit = limit
        self._index = 0
        self._stopped = False
        self._paused = False
        self._finals: list[Planned] = []
        self._reference: Completion | None = None
        self._deadline = 0
        self.by_type: Counter[str] = Counter()
        self._threads = [_Thread(number) for number in range(concurrency)]
        self._lanes: list[_Lane] = []
        everyone = tuple(range(concurrency))
        if generator is not None and everyone:
            for threads, part in parts_of(generator, everyone):
                lane = _Lane(len(self._lanes), threads, part)
                self._lanes.append(lane)
                for thread in threads:
                    self._threads[thread].lane = lane

    @property
    def idle(self) -> bool:
        """Whether no operation is open and no final one is left."""
        return not self._finals and all(thread.op is None for thread in self._threads)

    @property
    def counts(self) -> Counts:
        """How many operations have ended, and how many of them were acknowledged."""
        by_type = self.by_type
        return Counts(by_type[OK] + by_type[FAIL] + by_type[INFO], by_type[OK])

    def begin(self, now: int) -> list[Command]:
        """Plan the first operations."""
        return [command for lane in self._lanes for command in self._plan(lane, now)]

    def stop(self) -> list[Command]:
        """Begin no further operations."""
        self._stopped = True
        return []

    def pause(self) -> None:
        """Begin no operation until :meth:`resume`; open ones continue."""
        self._paused = True

    def resume(self) -> None:
        """End the pause: operations that were due meanwhile begin."""
        self._paused = False

    # --- planning ---------------------------------------------------------------------

    def _plan(self, lane: _Lane, now: int) -> list[Command]:
        lane.asked += 1
        lane.ready = None
        if lane.generator is None or self._stopped:
            return []
        with planning():
            step = next_step(lane.generator, self._context(lane, now))
        if step is None:
            lane.generator = None
            return []
        due, after = step
        alarm = OperationDue(lane.number, lane.asked)
        if isinstance(due, Pending):
            lane.generator = after
            return [] if due.until is None else [Wake(max(due.until, now + 1), alarm, "op")]
        if self._until is not None and due.time >= self._until:
            lane.generator = None
            return []
        lane.ready = due, after
        fact = f"op {due.thread} {self._threads[due.thread].count}"
        return [Wake(max(due.time, now), alarm, fact)]

    def _context(self, lane: _Lane, now: int) -> Context:
        threads = lane.threads
        free = tuple(number for number in threads if self._threads[number].op is None)
        return Context(now, self._seed, threads, free)

    def due(self, now: int, alarm: OperationDue) -> list[Command]:
        """Begin the operation that is due, or ask again."""
        lane = self._lanes[alarm.lane]
        if alarm.asked != lane.asked or self._stopped:
            return []
        if lane.ready is None:
            return self._plan(lane, now)
        if self._paused:
            return [Wake(now + HELD, alarm, "held")]
        due, lane.generator = lane.ready
        lane.ready = None
        thread = self._threads[due.thread]
        number = thread.count
        thread.count += 1
        if self._only is not None and (due.thread, number) not in self._only:
            return self._plan(lane, now)
        planned = due.planned
        op = self._op(thread, INVOKE, planned, now, planned.value, planned.node)
        thread.op = op
        self._update(lane, due.thread, op, now)
        commands: list[Command] = [Record(op), *self._watched(due.thread, op, now)]
        if len(lane.threads) > 1:
            commands += self._plan(lane, now)
        return [*commands, Invoke(due.thread, op, number)]

    def _watched(self, number: int, op: Op, now: int) -> list[Command]:
        """Return the alarm that ends an attempt which takes too long."""
        thread = self._threads[number]
        thread.attempt += 1
        if self._limit is None:
            return []
        return [Wake(now + self._limit, LimitDue(number, thread.attempt), "limit")]

    def _update(self, lane: _Lane, thread: int, op: Op, now: int) -> None:
        if lane.generator is not None:
            event = Event(thread, op)
            with planning():
                lane.generator = updated(lane.generator, self._context(lane, now), event)

    # --- the end of an operation ------------------------------------------------------

    def over(self, alarm: LimitDue) -> list[Command]:
        """Abort the attempt if it has not ended."""
        thread = self._threads[alarm.thread]
        if thread.op is None or thread.attempt != alarm.attempt:
            return []
        return [Abort(alarm.thread, thread.op)]

    def ended(self, event: Ended) -> list[Command]:
        """Process the end of an attempt; one of an operation that is over is ignored."""
        thread = self._threads[event.thread]
        op = thread.op
        if op is None or op.index != event.index:
            return []
        thread.attempt += 1
        if self._finals:
            return self._final_ended(thread, op, event)
        commands, done = self._finish(event.thread, op, event.completion, event.now)
        lane = thread.lane
        if lane is not None:
            self._update(lane, event.thread, done, event.now)
            commands += self._plan(lane, event.now)
        return commands

    def _finish(
        self, number: int, op: Op, completion: Completion, now: int
    ) -> tuple[list[Command], Op]:
        """Record how ``op`` ended; a completion that is not ``ok`` repeats the value."""
        thread = self._threads[number]
        thread.op = None
        value = completion.value
        if completion.type != OK and value is None:
            value = op.value
        node = completion.node or op.node
        done = self._op(thread, completion.type, op, now, value, node, completion.error)
        commands: list[Command] = [Record(done)]
        if completion.type == INFO:
            thread.process += self._concurrency
            commands.append(Renew(number))
        return commands, done

    def abandon(self, now: int) -> list[Command]:
        """End all open operations as ``info``; their outcome is unknown."""
        self._finals = []
        commands: list[Command] = []
        for number, thread in enumerate(self._threads):
            op, thread.op = thread.op, None
            if op is not None:
                done = self._op(thread, INFO, op, now, op.value, op.node, "the test ended")
                commands += [Record(done), Drop(number)]
                thread.process += self._concurrency
        return commands

    def _op(
        self,
        thread: _Thread,
        kind: OpType,
        op: Op | Planned,
        now: int,
        value: Any,
        node: str | None,
        error: str | None = None,
    ) -> Op:
        made = Op(
            index=self._index,
            process=thread.process,
            type=kind,
            f=op.f,
            key=op.key,
            value=value,
            time=now,
            node=node,
            error=error,
            final=op.final,
        )
        self._index += 1
        self.by_type[kind] += 1
        return made

    # --- the final operations ---------------------------------------------------------

    def final(self, now: int, planned: Sequence[Planned]) -> list[Command]:
        """Begin the final operations, one after the other, as a new process.

        A final ``read`` of one node is polled until it equals the linearizable read, or until
        :data:`FINAL_LIMIT` has passed for all reads together; then the last response is used. It is
        one operation of the history: it begins before the first attempt and ends with the last.
        Other operations run once.
        """
        self._stopped = True
        self._threads[0].process += self._concurrency
        self._deadline = now + FINAL_LIMIT
        self._finals = []
        for plan in planned:
            if _is_polled(plan) and not any(map(_is_polled, self._finals)):
                self._finals.append(Planned(plan.f, plan.key, plan.value, final=True))
            self._finals.append(plan)
        return self._next_final(now)

    def _next_final(self, now: int) -> list[Command]:
        if not self._finals:
            return []
        plan, thread = self._finals[0], self._threads[0]
        op = self._op(thread, INVOKE, plan, now, plan.value, plan.node)
        thread.op = op
        return [Record(op), *self._watched(0, op, now), Invoke(0, op, None)]

    def _final_ended(self, thread: _Thread, op: Op, event: Ended) -> list[Command]:
        plan, completion, now = self._finals[0], event.completion, event.now
        over = now >= self._deadline
        if plan.f == "read" and not over and not self._enough(plan, completion):
            return [Wake(now + POLL, PollDue(op.index), "poll")]
        if plan.f == "read" and plan.node is None:
            self._reference = completion
        commands, _ = self._finish(event.thread, op, completion, now)
        self._finals.pop(0)
        return commands + self._next_final(now)

    def poll(self, now: int, alarm: PollDue) -> list[Command]:
        """Attempt a final read again."""
        op = self._threads[0].op
        if op is None or op.index != alarm.index:
            return []
        return [*self._watched(0, op, now), Invoke(0, op, None)]

    def _enough(self, plan: Planned, seen: Completion) -> bool:
        if seen.type != OK:
            return False
        reference = self._reference
        if plan.node is None or reference is None or reference.type != OK:
            return True
        return bool(seen.value == reference.value)


def _is_polled(plan: Planned) -> bool:
    return plan.f == "read" and plan.node is not None
