"""A system in the memory of one process, correct or with one planted bug, in virtual time.

It speaks verbs. Every operation takes effect at one moment between its invocation and its end.
Some answers are lost: the client then reports ``info``, whether it took effect or not.
"""

from __future__ import annotations

import heapq
from copy import deepcopy
from typing import Any

from kraftwreck.checkers import registry
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.harness.client import Completion
from kraftwreck.harness.commands import (
    Abandon,
    Begin,
    Command,
    Ended,
    Event,
    FinalPhase,
    Invoke,
    Record,
    Ring,
    Wake,
)
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.workload import Load
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import Verdict
from kraftwreck.nodes.draw import draw_below
from kraftwreck.workloads.generic import ACCOUNTS, FIRST_BALANCE, GENERIC

MS = 1_000_000
VERBS = (
    *("read", "write", "cas", "add", "append", "txn", "enqueue", "dequeue", "drain"),
    *("acquire", "release", "transfer"),
)


class Memory:
    """The state of all objects. ``bug`` is the workload whose objects misbehave now and then."""

    def __init__(self, seed: int, bug: str = "") -> None:
        self.seed, self.bug = seed, bug
        self.values: dict[Any, Any] = {}
        self.set: list[Any] = []
        self.queue: list[Any] = []
        self.counter = 0
        self.holders: dict[Any, int] = {}
        self.accounts = dict.fromkeys(range(ACCOUNTS), FIRST_BALANCE)
        self.before: dict[Any, Any] = {}

    def odd(self, bug: str, op: Op) -> bool:
        """Whether the bug of this workload strikes now."""
        return self.bug == bug and draw_below(12, self.seed, "bug", op.index) == 0

    def do(self, op: Op) -> Completion:
        """Carry out ``op`` at this moment."""
        done: Completion = getattr(self, op.f)(op)
        return done

    def read(self, op: Op) -> Completion:
        match op.key:
            case "set":
                lost = 1 if self.bug == "set" and len(self.set) > 5 else 0
                return Completion("ok", list(self.set[lost:]))
            case "counter":
                return Completion("ok", self.counter)
            case "bank":
                shown = {str(account): balance for account, balance in self.accounts.items()}
                if self.odd("bank", op):
                    shown["0"] += 1
                return Completion("ok", shown)
        stale = self.odd("register", op) or self.odd("cas-register", op)
        return Completion("ok", (self.before if stale else self.values).get(op.key))

    def write(self, op: Op) -> Completion:
        self.before[op.key] = self.values.get(op.key)
        self.values[op.key] = op.value
        return Completion("ok", op.value)

    def cas(self, op: Op) -> Completion:
        expected, new = op.value
        if self.values.get(op.key) != expected:
            return Completion("fail", error="another value")
        self.values[op.key] = new
        return Completion("ok", op.value)

    def add(self, op: Op) -> Completion:
        if op.key == "set":
            self.set.append(op.value)
        elif not self.odd("counter", op):
            self.counter += op.value
        return Completion("ok", op.value)

    def enqueue(self, op: Op) -> Completion:
        if not self.odd("queue", op):
            self.queue.append(op.value)
        return Completion("ok", op.value)

    def dequeue(self, op: Op) -> Completion:
        if not self.queue:
            return Completion("fail", error="empty")
        return Completion("ok", self.queue.pop(0))

    def drain(self, op: Op) -> Completion:
        drained, self.queue = self.queue, []
        return Completion("ok", drained)

    def acquire(self, op: Op) -> Completion:
        if op.key in self.holders and not self.odd("lock", op):
            return Completion("fail", error="held")
        self.holders[op.key] = op.process
        return Completion("ok", op.value)

    def release(self, op: Op) -> Completion:
        if self.holders.get(op.key) != op.process:
            return Completion("fail", error="not held")
        del self.holders[op.key]
        return Completion("ok", op.value)

    def transfer(self, op: Op) -> Completion:
        source, target, amount = op.value["from"], op.value["to"], op.value["amount"]
        if self.accounts[source] < amount:
            return Completion("fail", error="too little")
        self.accounts[source] -= amount
        self.accounts[target] += amount
        return Completion("ok", op.value)

    def txn(self, op: Op) -> Completion:
        stale = self.odd("append", op) or self.odd("txn", op)
        view = self.before if stale else self.values
        before = deepcopy(self.values)
        done = []
        for kind, key, value in op.value:
            if kind == "r":
                hidden = self.odd("long-fork", op) and key == op.value[0][1]
                done.append([kind, key, None if hidden else deepcopy(view.get(key))])
                continue
            done.append([kind, key, value])
            if kind == "append":
                self.values[key] = [*self.values.get(key, []), value]
            else:
                self.values[key] = value
        self.before = before
        return Completion("ok", done)


LOAD = Load(5, 25.0)


class Bench:
    """Runs a generic workload on :class:`Memory`, in virtual time."""

    def __init__(
        self, workload: str, seed: int, bug: bool, seconds: int = 20, load: Load = LOAD
    ) -> None:
        self.workload = GENERIC[workload]
        self.ops: list[Op] = []
        self._seed = seed
        self._memory = Memory(seed, workload if bug else "")
        operations = Operations(
            self.workload.generator(load),
            seed=seed,
            concurrency=load.concurrency,
            until=seconds * 10**9,
        )
        self._interpreter = Interpreter(operations, [], ("m1",), frozenset)
        self._now = 0
        self._later: list[tuple[int, int, Any]] = []
        self._order = 0

    def run(self) -> Verdict:
        """Return the verdict of the workload's checkers."""
        self._feed(Begin(0))
        self._drain()
        self._feed(Abandon(self._now))
        self._feed(FinalPhase(self._now, self.workload.final(("m1",))))
        self._drain()
        assert self._interpreter.operations.idle
        test = {"workload": self.workload.name, "owed": list(self.workload.owed)}
        run = RunData.from_memory(self.ops, [], [], [], test)
        return registry.check(run, self.workload.checkers)

    def _drain(self) -> None:
        while self._later:
            self._now, _, action = heapq.heappop(self._later)
            action()

    def _at(self, time: int, action: Any) -> None:
        self._order += 1
        heapq.heappush(self._later, (time, self._order, action))

    def _feed(self, event: Event) -> None:
        for command in self._interpreter.step(event):
            self._do(command)

    def _do(self, command: Command) -> None:
        if isinstance(command, Record):
            self.ops.append(command.op)
        elif isinstance(command, Wake):
            alarm = command.alarm
            self._at(command.at, lambda: self._feed(Ring(self._now, alarm)))
        elif isinstance(command, Invoke):
            self._invoke(command)

    def _invoke(self, invoke: Invoke) -> None:
        op = invoke.op
        first, second = (
            1 + draw_below(40, self._seed, "latency", op.index, part) for part in range(2)
        )
        lost = not op.final and draw_below(25, self._seed, "lost", op.index) == 0
        reached = draw_below(2, self._seed, "reached", op.index) == 1
        ended: list[Completion] = []

        def effect() -> None:
            if lost and not reached:
                return
            ended.append(self._memory.do(op))

        def end() -> None:
            completion = Completion("info", error="lost") if lost else ended[0]
            self._feed(Ended(self._now, invoke.thread, op.index, completion))

        self._at(self._now + first * MS, effect)
        self._at(self._now + (first + second) * MS, end)
