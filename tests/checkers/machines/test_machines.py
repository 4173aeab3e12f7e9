"""Locks, queues, sets, counters and logs: against brute force, and by example."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import pytest

from checkers.calls import Call, pair
from checkers.catalogue import Settings, find
from checkers.logs.decide import AmbiguousError, decide
from checkers.logs.operations import from_calls
from checkers.machines.linearizable import check_calls
from checkers.machines.log import Log
from checkers.machines.models import MACHINES, Machine
from checkers.machines.search import check, verify
from histories.events import of_ops
from histories.operation import Op
from histories.source import Events

Step = tuple[str, Any]
Choose = Callable[[random.Random, int], Step]


def _lock(rnd: random.Random, number: int) -> Step:
    return rnd.choice(["acquire", "release"]), None


def _queue(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("enqueue", number % 3), ("dequeue", None)])


def _set(rnd: random.Random, number: int) -> Step:
    value = rnd.randrange(2)
    return rnd.choice([("add", value), ("remove", value), ("contains", value), ("read", None)])


def _elements(rnd: random.Random, number: int) -> Step:
    return rnd.choice(["add", "remove", "contains"]), rnd.randrange(2)


def _counter(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("add", rnd.choice([1, 2, -1])), ("read", None)])


def _log(rnd: random.Random, number: int) -> Step:
    return rnd.choice([("append", number), ("read", None)])


def _answer(f: str, rnd: random.Random, asked: Any, so_far: list[Any]) -> Any:
    match f:
        case "dequeue":
            return rnd.choice([*so_far, None])
        case "contains":
            return rnd.random() < 0.5
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
        kind = "info" if unsure else "ok"
        if following is None:
            kind = "info" if unsure else ("ok" if rnd.random() < lies else "fail")
        elif happens:
            state = following
        if kind == "ok" and rnd.random() < lies:
            saw = _answer(f, rnd, asked, elements)
        if f in ("enqueue", "append", "add"):
            elements.append(asked)
        value = saw if kind == "ok" else asked
        if machine.name == "linearizable-counter" and f == "read" and kind == "ok":
            value = saw if isinstance(saw, int) else 1
        yield Op(index=index, process=process, type=kind, f=f, value=value, time=index)  # type: ignore[arg-type]
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
    call = Call(
        f=f, key=None, process=0, type="ok", argument=asked, value=asked, start=0, end=1,
        completion=1, invoked=0, completed=1, node=None, error=None, final=False,
    )  # fmt: skip
    operation = machine.operation(call)
    assert operation is not None
    return asked, machine.step(state, operation)


def brute_force(machine: Machine, calls: Sequence[Call]) -> bool:
    possible = [
        c
        for c in calls
        if c.type != "fail"
        and (operation := machine.operation(c)) is not None
        and (c.type == "ok" or not operation.looks)
    ]
    sure = {c.start for c in possible if c.type == "ok"}
    return any(
        sure <= {c.start for c in order}
        and verify(machine, possible, [c.start for c in order]) is None
        for size in range(len(sure), len(possible) + 1)
        for order in permutations(possible, size)
    )


@pytest.mark.parametrize(
    ("name", "choose"),
    [
        ("lock", _lock),
        ("fifo-queue", _queue),
        ("unordered-queue", _queue),
        ("linearizable-set", _set),
        ("linearizable-set", _elements),
        ("linearizable-counter", _counter),
    ],
)
def test_machines_agree_with_brute_force(name: str, choose: Choose) -> None:
    machine = MACHINES[name]({})
    seen = {True: 0, False: 0}
    for ops in random_histories(name, choose, 250, 5):
        calls = pair(ops)
        expected = brute_force(machine, calls)
        outcome = check(machine, calls)
        assert outcome.valid is expected, ops
        verdicts = check_calls(name, {}, calls, 10.0)
        assert all(v.outcome.valid for v in verdicts) is expected, ops
        seen[expected] += 1
        if expected:
            assert verify(machine, calls, outcome.order) is None
            for verdict in verdicts:
                assert verify(machine, calls, verdict.outcome.order) is None
    assert min(seen.values()) >= 5, seen


def test_logs_by_levels_agree_with_the_search() -> None:
    seen = {True: 0, False: 0}
    for ops in random_histories("log", _log, 1500, 7):
        calls = pair(ops)
        machine = Log(calls)
        expected = check(machine, calls).valid
        try:
            verdict = decide(from_calls(calls))
        except AmbiguousError:
            continue
        assert (verdict.fault is None) is expected, (ops, verdict)
        seen[bool(expected)] += 1
        if expected:
            assert verify(machine, calls, verdict.order().tolist()) is None, ops
    assert min(seen.values()) > 50, seen


def done(process: int, f: str, asked: Any, saw: Any = ...) -> list[tuple[Any, ...]]:
    return [(process, "invoke", f, asked), (process, "ok", f, asked if saw is ... else saw)]


def judged(model: str, rows: list[tuple[Any, ...]], **options: Any) -> Any:
    ops = [
        Op(index=at, process=row[0], type=row[1], f=row[2], value=row[3], time=at)
        for at, row in enumerate(rows)
    ]
    return find(model).judge(Events(of_ops(ops)), Settings(options=options)).result


@pytest.mark.parametrize(
    ("rows", "options", "valid"),
    [
        ([*done(0, "acquire", None), *done(0, "release", None)], {}, True),
        ([*done(0, "acquire", None), *done(1, "acquire", None)], {}, False),
        ([*done(0, "release", None)], {}, False),
        ([*done(0, "acquire", None), *done(1, "release", None)], {}, True),
        ([*done(0, "acquire", None), *done(1, "release", None)], {"owned": True}, False),
        ([*done(0, "acquire", None), (0, "invoke", "release", None), *done(1, "acquire", None)],
         {}, True),
    ],
)  # fmt: skip
def test_a_lock(rows: list[Any], options: Any, valid: bool) -> None:
    assert judged("mutex", rows, **options).valid is valid


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([*done(0, "append", "a", [0, "a"]), *done(1, "append", "b", [1, "b"])], None),
        ([*done(0, "append", "a", [1, "a"]), *done(1, "append", "b", [0, "b"])], "stands behind"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "append", "b", [0, "b"])], "one offset"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, "a"]])], None),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, "b"]])], "another value"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, None]])],
         "stands behind"),
        ([*done(1, "fetch", None, [[1, None]]), *done(0, "append", "a", [1, "a"])], None),
        ([*done(1, "fetch", None, [[1, "a"]]), *done(0, "append", "a", [1, "a"])], "stands behind"),
        ([(5, "invoke", "append", "z"), *done(1, "fetch", None, [[4, "z"]])], None),
        ([*done(1, "fetch", None, [[4, "z"]])], "nobody tried"),
        ([(5, "invoke", "append", "z"), (5, "fail", "append", "z"),
          *done(1, "fetch", None, [[4, "z"]])], "whose append failed"),
        ([(5, "invoke", "append", "z"), *done(1, "fetch", None, [[4, "z"]]),
          *done(1, "append", "y", [3, "y"])], "stands behind"),
        ([*done(0, "append", "a"), *done(0, "append", "b"), *done(1, "read", None, ["a", "b"])],
         None),
        ([*done(0, "append", "a"), *done(0, "append", "b"), *done(1, "read", None, ["b", "a"])],
         "stands behind"),
        ([*done(0, "append", "a"), *done(1, "read", None, [])], "no offset left"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "size", None, 1)], None),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "size", None, 0)], "stands behind"),
    ],
)  # fmt: skip
def test_a_log(rows: list[Any], said: str | None) -> None:
    result = judged("log", rows)
    assert result.valid is (said is None)
    if said is not None:
        assert said in result.anomalies[0].explanation


def test_registers_read_and_written_together() -> None:
    rows = [
        *done(0, "txn", [["write", "x", 1], ["write", "y", 1]]),
        *done(0, "txn", [["read", "x", None]], [["read", "x", 1]]),
    ]
    assert judged("multi-register", rows, initial={"x": 0}).valid is True
    bad = done(0, "txn", [["read", "y", None]], [["read", "y", 2]])
    assert judged("multi-register", [*rows, *bad], initial={"x": 0}).valid is False


def test_an_indeterminate_dequeue_may_have_emptied_the_queue() -> None:
    """Found by brute force: it was left out, and the queue called wrong."""
    rows = [
        *done(0, "enqueue", 1),
        (1, "invoke", "dequeue", None),
        (1, "info", "dequeue", None),
        *done(2, "dequeue", None),
    ]
    assert judged("unordered-queue", rows).valid is True
    assert judged("unordered-queue", [*rows, *done(2, "dequeue", None, 1)]).valid is False


def test_equal_values_without_offsets_are_searched_where_single_offsets_were_read() -> None:
    rows = [
        *done(0, "append", "a"),
        *done(0, "append", "a"),
        *done(1, "fetch", None, [[0, "a"], [3, "a"]]),
    ]
    assert judged("log", rows).valid is True
    assert judged("log", [*rows, *done(1, "fetch", None, [[2, "a"]])]).valid is False


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # An append that did not tell its offset has the one nobody else can have had.
        ([*done(0, "read", None, []), *done(0, "append", "a"), *done(0, "append", "b", [1, "b"])],
         None),
        ([*done(0, "read", None, []), (1, "invoke", "append", "a"),
          *done(0, "append", "b", [1, "b"])], None),
        ([*done(0, "read", None, []), *done(0, "append", "b", [1, "b"]),
          (1, "invoke", "append", "a")], "no append can have had"),
        # Between offsets 0 and 1 there is no other; above 1 there would be.
        ([*done(0, "append", "a", [0, "a"]), *done(0, "append", "b"),
          *done(0, "append", "c", [1, "c"])], "no offset left"),
        ([*done(0, "append", "a", [0, "a"]), *done(0, "append", "b"),
          *done(0, "append", "c", [2, "c"])], None),
        ([*done(0, "append", "a"), *done(0, "fetch", None, [[0, None]])], "no offset left"),
    ],
)  # fmt: skip
def test_appends_that_tell_no_offset_need_one(rows: list[Any], said: str | None) -> None:
    """Found by brute force: they were put behind all others, or anywhere."""
    result = judged("log", rows)
    assert result.valid is (said is None), result.anomalies
    if said is not None:
        assert said in result.anomalies[0].explanation


def test_the_first_impossible_moment_of_a_log_is_told_with_a_legal_order_up_to_it() -> None:
    good = [*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, "a"]])]
    bad = done(1, "fetch", None, [[0, None]])
    later = [*done(2, "append", "b", [1, "b"]), *done(2, "append", "c", [1, "c"])]
    result = judged("log", [*good, *bad, *later])
    assert result.valid is False
    (window,) = result.stats["windows"].values()
    assert window["placed"] == 2
    assert result.stats["longest_legal_prefix"] == {"null": [0, 2]}
    assert window["stuck"] == 4
    assert set(result.anomalies[0].operations) >= {4, 5}
