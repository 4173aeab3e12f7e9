"""Client threads in virtual time: they drive the same workload coroutines as real ones.

Calls pass through the codec in both directions, so that a node sees exactly what would arrive over
a socket. A thread has at most one operation open. After an ``info`` it continues as a new process,
like a client that crashed. The rules are those of ``harness.interpreter`` and
``harness.final_reads``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import Any

from kraftwreck.harness.final_reads import LIMIT_S, POLL_S
from kraftwreck.harness.governor import Counts
from kraftwreck.harness.simulated.admin import virtual_call
from kraftwreck.harness.workload import (
    Answer,
    Call,
    ClientState,
    Completion,
    Invocation,
    Planned,
    Workload,
)
from kraftwreck.histories.operation import INFO, INVOKE, OK, Op, OpType
from kraftwreck.nodes.draw import draw, draw_below, draw_unit
from kraftwreck.simulation.world import World

_SECOND = 1_000_000

_FORGETS = (0, 30, 30, 100)
"""Probability in percent that a client asks for the leader again; the seed chooses. If no client
ever does, all wait for the same deposed leader, and its stale responses go unnoticed."""

Ended = Callable[[Completion], None]


class _Thread:
    """One client thread: its process number, its memory, and its open operation."""

    __slots__ = ("count", "due", "ended", "invocation", "op", "process", "state")

    def __init__(self, number: int, state: ClientState) -> None:
        self.process = number
        self.state = state
        self.count = 0
        self.due = 0.0
        self.op: Op | None = None
        self.invocation: Invocation | None = None
        self.ended: Ended | None = None


class VirtualClients:
    """``concurrency`` threads that together begin ``rate`` operations per second.

    ``ops`` is the history, in order of time. Threads start at virtual time 0 and begin no
    operation at or after ``until`` (µs). ``only`` is a set of (thread, position among the thread's
    operations from 0); all other operations are left out, and these stay the same.
    """

    def __init__(
        self,
        world: World,
        workload: Workload,
        nodes: Sequence[str],
        *,
        gateways: Sequence[str] = (),
        seed: int,
        concurrency: int,
        rate: float,
        until: int,
        only: Set[tuple[int, int]] | None = None,
    ) -> None:
        self.ops: list[Op] = []
        self._ended = self._acknowledged = 0
        self._world = world
        self._workload = workload
        self._seed = seed
        self._concurrency = concurrency
        self._until = until
        self._only = only
        self._period = concurrency / rate * _SECOND
        self._forgets = _FORGETS[draw_below(len(_FORGETS), seed, "forgets")]
        ids = dict(enumerate(nodes, start=1))
        self._threads = [
            _Thread(i, ClientState(i, nodes, ids, seed, gateways=gateways))
            for i in range(concurrency)
        ]
        self._finals: list[Planned] = []
        self._reference: Completion | None = None
        self._deadline = 0
        for thread in self._threads:
            self._plan_next(thread)

    @property
    def idle(self) -> bool:
        """Whether no operation is open and no final one is left."""
        return not self._finals and all(thread.op is None for thread in self._threads)

    @property
    def counts(self) -> Counts:
        """How many operations have ended."""
        return Counts(self._ended, self._acknowledged)

    def abandon(self) -> None:
        """End all open operations; their outcome is unknown."""
        self._finals = []
        for thread in self._threads:
            op, thread.op, thread.invocation = thread.op, None, None
            if op is not None:
                self._record(thread, INFO, op, op.value, op.node, "the test ended")
                thread.process += self._concurrency

    # --- the operations of a thread ---------------------------------------------------

    def _plan_next(self, thread: _Thread) -> None:
        number = thread.state.thread
        unit = draw_unit(self._seed, "stagger", number, thread.count)
        # Half of all seeds space operations uniformly, half exponentially (in bursts).
        factor = -math.log(1.0 - unit) if draw(self._seed, "stagger") % 2 else 2 * unit
        thread.due = max(thread.due + self._period * factor, float(self._world.now))
        due = int(thread.due)
        if due < self._until:
            fact = f"op {number} {thread.count}"
            self._world.at(due, lambda: self._begin(thread), fact)

    def _begin(self, thread: _Thread) -> None:
        count = thread.count
        thread.count += 1
        if self._only is not None and (thread.state.thread, count) not in self._only:
            self._plan_next(thread)
            return
        planned = self._workload.plan(self._seed, thread.state.thread, count)
        if draw_below(100, self._seed, "forget", thread.state.thread, count) < self._forgets:
            thread.state.leader = None
        op = self._invoke(thread, planned)

        def ended(completion: Completion) -> None:
            self._finish(thread, op, completion)
            self._plan_next(thread)

        self._attempt(thread, op, ended)

    def _invoke(self, thread: _Thread, planned: Planned) -> Op:
        op = self._record(thread, INVOKE, planned, planned.value, planned.node)
        thread.op = op
        return op

    def _finish(self, thread: _Thread, op: Op, completion: Completion) -> None:
        thread.op = thread.invocation = None
        value = completion.value
        if completion.type != OK and value is None:
            value = op.value
        node = completion.node or op.node
        self._record(thread, completion.type, op, value, node, completion.error)
        if completion.type == INFO:
            thread.process += self._concurrency
            thread.state.leader = None

    def _record(
        self,
        thread: _Thread,
        kind: OpType,
        op: Op | Planned,
        value: Any,
        node: str | None,
        error: str | None = None,
    ) -> Op:
        recorded = Op(
            index=len(self.ops),
            process=thread.process,
            type=kind,
            f=op.f,
            key=op.key,
            value=value,
            time=self._world.now * 1000,
            node=node,
            error=error,
            final=op.final,
        )
        self.ops.append(recorded)
        self._ended += kind != INVOKE
        self._acknowledged += kind == OK
        self._world.fact(f"o {thread.process} {kind} {op.f} {op.key} {value}")
        return recorded

    # --- one attempt ------------------------------------------------------------------

    def _attempt(self, thread: _Thread, op: Op, ended: Ended) -> None:
        """Carry out ``op`` without recording anything; call ``ended`` with the outcome."""
        thread.ended = ended
        thread.invocation = self._workload.invoke(op, thread.state)
        self._advance(thread, None)

    def _advance(self, thread: _Thread, answer: Answer | None) -> None:
        invocation, ended = thread.invocation, thread.ended
        assert invocation is not None
        assert ended is not None
        try:
            call = next(invocation) if answer is None else invocation.send(answer)
            self._call(thread, call)
        except StopIteration as stop:
            ended(stop.value)
        except Exception as error:
            text = " ".join(str(error).split())
            ended(Completion(INFO, error=f"unusable answer: {type(error).__name__}: {text}"))

    def _call(self, thread: _Thread, call: Call) -> None:
        invocation = thread.invocation

        def done(answer: Answer) -> None:
            if thread.invocation is invocation:  # otherwise the operation was abandoned
                self._advance(thread, answer)

        virtual_call(self._world, thread.state.thread, call, done)

    # --- the final operations ---------------------------------------------------------

    def run_final(self, planned: Sequence[Planned]) -> None:
        """Begin the final operations, one after the other, as a new process.

        A final ``read`` of one node is polled until it equals the controller's.
        """
        thread = self._threads[0]
        thread.process += self._concurrency
        self._deadline = self._world.now + int(LIMIT_S * _SECOND)
        self._finals = []
        for plan in planned:
            if _is_polled(plan) and not any(_is_polled(p) for p in self._finals):
                self._finals.append(Planned(plan.f, plan.key, plan.value, final=True))
            self._finals.append(plan)
        self._next_final()

    def _next_final(self) -> None:
        if not self._finals:
            return
        plan = self._finals[0]
        thread = self._threads[0]
        op = self._invoke(thread, plan)

        def ended(completion: Completion) -> None:
            over = self._world.now >= self._deadline
            if plan.f == "read" and not over and not self._enough(plan, completion):
                again = self._world.now + int(POLL_S * _SECOND)
                thread.invocation = None
                self._world.at(again, lambda: self._again(thread, op, ended), "poll")
                return
            if plan.f == "read" and plan.node is None:
                self._reference = completion
            self._finish(thread, op, completion)
            self._finals.pop(0)
            self._next_final()

        self._attempt(thread, op, ended)

    def _again(self, thread: _Thread, op: Op, ended: Ended) -> None:
        if thread.op is op:
            self._attempt(thread, op, ended)

    def _enough(self, plan: Planned, seen: Completion) -> bool:
        if seen.type != OK:
            return False
        reference = self._reference
        if plan.node is None or reference is None or reference.type != OK:
            return True
        return bool(seen.value == reference.value)


def _is_polled(plan: Planned) -> bool:
    return plan.f == "read" and plan.node is not None
