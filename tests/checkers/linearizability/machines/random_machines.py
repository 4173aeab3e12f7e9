"""Random histories of locks, queues, sets, counters and logs, and how they are judged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.checkers.linearizability.machines.log import Log
from kraftwreck.checkers.linearizability.machines.models import MACHINES, Machine
from kraftwreck.histories.events import of_ops
from kraftwreck.histories.operation import Op, OpType
from kraftwreck.histories.source import Events
from tests.checkers.rows import Row, history

Step = tuple[str, Any]
Choose = Callable[[random.Random, int], Step]


def locks(rnd: random.Random, number: int) -> Step:
    return rnd.choice(["acquire", "release"]), None


def queues(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("enqueue", number % 3), ("dequeue", None)])


def sets(rnd: random.Random, number: int) -> Step:
    value = rnd.randrange(2)
    return rnd.choice([("add", value), ("remove", value), ("contains", value), ("read", None)])


def elements(rnd: random.Random, number: int) -> Step:
    return rnd.choice(["add", "remove", "contains"]), rnd.randrange(2)


def counters(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("add", rnd.choice([1, 2, -1])), ("read", None)])


def logs(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("append", number), ("read", None)])


def strings(rnd: random.Random, number: int) -> Step:
    f = rnd.choice(["get", "get", "put", "append", "append"])
    return f, None if f == "get" else f"{f[0]}{number}"


def short_strings(rnd: random.Random, number: int) -> Step:
    f = rnd.choice(["get", "get", "put", "append", "append"])
    return f, None if f == "get" else rnd.choice(["a", "ab", "b", ""])


def _answer(f: str, rnd: random.Random, asked: Any, so_far: list[Any]) -> Any:
    match f:
        case "dequeue":
            return rnd.choice([*so_far, None])
        case "contains":
            return rnd.random() < 0.5
        case "get":
            return rnd.choice([None, "ba", "".join(rnd.sample(so_far, min(len(so_far), 2)))])
        case "read":
            if so_far and isinstance(so_far[0], str):
                return None
            return rnd.choice([so_far[:k] for k in range(len(so_far) + 1)])
    return asked


def random_histories(name: str, choose: Choose, count: int, calls: int) -> Iterator[list[Op]]:
    """Clients of one real machine, run at random moments, with some lies and some doubt."""
    rnd = random.Random(f"{name} 7")
    machine = MACHINES[name]({}) if name != "log" else Log()
    for _ in range(count):
        yield list(_run(rnd, machine, choose, rnd.randint(1, calls)))


def _run(rnd: random.Random, machine: Machine, choose: Choose, left: int) -> Iterator[Op]:
    state: Any = machine.initial
    waiting: dict[int, Step] = {}
    processes = [0, 1, 2]
    index = 0
    lies = rnd.choice([0.1, 0.7])
    doubt = rnd.choice([0.0, 0.3])
    elements: list[Any] = []
    while left or waiting:
        thread = rnd.randrange(3)
        process = processes[thread]
        if process not in waiting:
            if not left:
                if rnd.random() < 0.2:
                    return
                continue
            left -= 1
            f, value = choose(rnd, index)
            waiting[process] = (f, value)
            yield Op(index=index, process=process, type="invoke", f=f, value=value, time=index)
            index += 1
            continue
        f, asked = waiting.pop(process)
        unsure = rnd.random() < doubt
        happens = not unsure or rnd.random() < 0.5
        saw, following = _apply(machine, state, f, asked)
        kind: OpType = "info" if unsure else "ok"
        if following is None:
            kind = "info" if unsure else ("ok" if rnd.random() < lies else "fail")
        elif happens:
            state = following
        if kind == "ok" and rnd.random() < lies:
            saw = _answer(f, rnd, asked, elements)
        if f in ("enqueue", "append", "add", "put"):
            elements.append(asked)
        value = saw if kind == "ok" else asked
        if machine.name == "linearizable-counter" and f == "read" and kind == "ok":
            value = saw if isinstance(saw, int) else 1
        yield Op(index=index, process=process, type=kind, f=f, value=value, time=index)
        index += 1
        if kind == "info":
            processes[thread] += 3


def _apply(machine: Machine, state: Any, f: str, asked: Any) -> tuple[Any, Any]:
    """Return the true answer and the next state, None where it is refused."""
    match f:
        case "dequeue":
            return (state[0], state[1:]) if state else (None, state)
        case "contains":
            return asked in state, state
        case "read":
            return (state if isinstance(state, int) else list(state)), state
        case "get":
            return state, state
    call = Call(
        f=f, key=None, process=0, type="ok", argument=asked, value=asked, start=0, end=1,
        completion=1, invoked=0, completed=1, node=None, error=None, final=False,
    )  # fmt: skip
    operation = machine.operation(call)
    assert operation is not None
    return asked, machine.step(state, operation)


KINDS: list[tuple[str, Choose]] = [
    ("lock", locks),
    ("fifo-queue", queues),
    ("unordered-queue", queues),
    ("linearizable-set", sets),
    ("linearizable-set", elements),
    ("linearizable-counter", counters),
    ("key-value", strings),
    ("key-value", short_strings),
]
"""Machines by name, and what clients do to them."""


def judged(model: str, rows: list[Row], **options: Any) -> Any:
    return find(model).judge(Events(of_ops(history(rows))), Settings(options=options)).result
