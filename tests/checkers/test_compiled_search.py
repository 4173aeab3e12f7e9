"""The compiled search says what the plain one says: verdict, witness, stuck call, states."""

from __future__ import annotations

import random
from time import thread_time
from typing import Any

import numpy as np
import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability import compiled_search, decide
from kraftwreck.checkers.linearizability.compiled_search import Coded, CompiledSearch
from kraftwreck.checkers.linearizability.decide import _Search, check
from kraftwreck.checkers.linearizability.models import MODELS, Register, actions
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.histories.operation import Op
from tests.checkers.rows import Row, did, history

pytestmark = pytest.mark.interpreted  # It replaces a constant of a module.

CAS = Register("cas-register")


def searching(calls: list[Call]) -> CompiledSearch:
    return CompiledSearch(Coded(CAS, actions(CAS, calls)).problem, 1 << 30)


def random_history(rnd: random.Random) -> list[Op]:
    """Four clients of a register with three values; some answers are lies."""
    ops: list[Op] = []
    state: Any = None
    waiting: dict[int, tuple[str, Any]] = {}
    processes = [0, 1, 2, 3]
    left = rnd.randint(1, 14)
    lies, doubt = rnd.choice([0.0, 0.1, 0.3]), rnd.choice([0.0, 0.2, 0.5])
    while left or waiting:
        thread = rnd.randrange(4)
        process = processes[thread]
        if process not in waiting:
            if not left:
                if rnd.random() < 0.3:
                    break
                continue
            left -= 1
            f = rnd.choice(["read", "read", "write", "cas"])
            value: Any = None
            if f == "write":
                value = rnd.randrange(3)
            elif f == "cas":
                value = [rnd.choice([None, 0, 1, 2]), rnd.randrange(3)]
            waiting[process] = (f, value)
            kind = "invoke"
        else:
            f, value = waiting.pop(process)
            kind = "info" if rnd.random() < doubt else "ok"
            processes[thread] += 4 if kind == "info" else 0
            happens = kind == "ok" or rnd.random() < 0.5
            if f == "read":
                value = rnd.randrange(3) if rnd.random() < lies else state
            elif f == "write":
                state = value if happens else state
            elif state == value[0] or rnd.random() < lies:
                state = value[1] if happens else state
            elif kind == "ok":
                kind = "fail"
        ops.append(
            Op(index=len(ops), process=process, type=kind, f=f, value=value, time=len(ops))  # type: ignore[arg-type]
        )
    return ops


@pytest.mark.parametrize("name", ["cas-register", "topic-register", "expiring-register"])
def test_it_agrees_with_the_plain_search(name: str) -> None:
    model = MODELS[name]
    rnd = random.Random(f"{name} 5")
    seen = {True: 0, False: 0}
    for _ in range(800):
        calls = pair(random_history(rnd))
        items = actions(model, calls)
        plain = _Search(model, calls, 60, 10**7, None)
        expected = plain.run()
        if not expected.steps:
            continue
        coded = Coded(model, items)
        search = CompiledSearch(coded.problem, 1 << 30)
        result = search.run(thread_time() + 60, None, 60)
        assert result is expected.valid, calls
        seen[bool(result)] += 1
        order = [items[position][0].start for position in search.order().tolist()]
        if result:
            assert verify(model, calls, order) is None
            continue
        assert expected.stuck is not None
        assert items[int(search.positions[search.deepest])][0].start == expected.stuck.start
        assert set(map(repr, coded.names(search.states()))) == set(map(repr, expected.states))
    assert min(seen.values()) > 50, seen


def test_a_way_that_keeps_an_indeterminate_write_in_reserve_is_not_given_up() -> None:
    rows: list[Row] = [
        *((0, "invoke", "write", 1), (0, "info", "write", 1)),
        *((1, "invoke", "write", 1), (2, "invoke", "write", 2)),
        *((1, "ok", "write", 1), (2, "ok", "write", 2)),
        *did(3, "read", 1),
        *did(3, "write", 3),
        *did(3, "read", 3),
        *did(3, "read", 1),
    ]
    # 1 and then 2 is tried first, and needs the write that nobody knows of for the first read
    # already; the last read needs it. 2 and then 1 comes to the same state without.
    search = searching(pair(history(rows)))
    assert search.run(thread_time() + 60, None, 60) is True


def hard(clients: int) -> list[Op]:
    """Many concurrent writes, and reads that force every order to be tried."""
    ops: list[Op] = []

    def add(kind: Any, process: int, f: str, value: Any) -> None:
        ops.append(Op(index=len(ops), process=process, type=kind, f=f, value=value, time=len(ops)))

    for process in range(clients):
        add("invoke", process, "write", process)
    for wanted in (0, 1, 0):
        add("invoke", 99, "read", None)
        add("ok", 99, "read", wanted)
    for process in range(clients):
        add("ok", process, "write", process)
    return ops


def test_histories_undecided_by_plain_python_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "_QUICK", 1000)
    outcome = check(CAS, pair(hard(9)))
    assert outcome.valid is False
    assert outcome.steps > 1024
    assert outcome.stuck is not None
    assert outcome.stuck.value == 0


def test_time_memory_and_an_interruption_end_it() -> None:
    calls = pair(hard(24))
    assert check(CAS, calls, memory=1 << 20).reason == "no decision in 1 MiB"
    asked: list[int] = []

    def stop() -> bool:
        asked.append(0)
        return len(asked) > 30

    assert check(CAS, calls, stop=stop).reason == "the search was interrupted"


def test_more_open_calls_than_bits_are_left_to_the_plain_search() -> None:
    calls = pair(hard(70))
    assert searching(calls).max_open > compiled_search.MAX_OPEN
    outcome = check(CAS, calls, time_limit_s=1.0)
    assert (outcome.valid, outcome.reason) == ("unknown", "no decision within 1 s")


def test_room_is_made_as_it_is_needed() -> None:
    column = np.arange(3)
    assert len(compiled_search._doubled(column)) == 6
