"""Stores of strings: decisions by sorting agree with the search, and give a reason."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from bench.checkers import judges
from bench.checkers.random_histories import machine
from kraftwreck.checkers.calls import known, pair
from kraftwreck.checkers.linearizability.machines.models import MACHINES
from kraftwreck.checkers.linearizability.machines.search import verify
from kraftwreck.checkers.linearizability.zones.key_values import _shared, decide
from kraftwreck.histories.operation import Op
from tests.checkers.linearizability.machines.random_machines import judged
from tests.checkers.rows import Row, done, history

KV = MACHINES["key-value"]({})


def put(value: str) -> list[Row]:
    return done(0, "put", value)


def append(value: str) -> list[Row]:
    return done(0, "append", value)


def get(value: str | None) -> list[Row]:
    return done(1, "get", None, value)


def test_sorting_agrees_with_brute_force() -> None:
    seen = {True: 0, False: 0, "undecided": 0}
    for number in range(800):
        ops = machine("distinct-strings", 5, number)
        found = decide(pair(ops))
        calls = judges.operations(ops, ["get"])
        expected = judges.explained(calls, "", judges.string)
        if found is None:
            seen["undecided"] += 1
            continue
        assert found.valid is expected, ops
        seen[expected] += 1
        if expected:
            assert verify(KV, pair(ops), found.order) is None
        else:
            assert found.window, ops
            assert found.why, ops
            assert found.stuck is not None
            before = [known(c, found.stuck.completion - 1) for c in pair(ops)]
            before = [c for c in before if c.start < found.stuck.completion]
            assert verify(KV, before, found.order) is None, ops
            until = [op for op in ops if op.index <= found.stuck.completion]
            calls = judges.operations(until, ["get"])
            assert not judges.explained(calls, "", judges.string), "the first such moment"
    assert seen[True] > 200, seen
    assert seen[False] > 30, seen
    assert seen["undecided"] < 200, seen


@pytest.mark.parametrize(
    ("rows", "valid"),
    [
        ([*get(None), *get("")], True),
        ([*put("a"), *append("b"), *get("ab"), *put("c"), *get("c")], True),
        ([*put("a"), *append("b"), *get("a")], False),
        ([*put("a"), *get("b")], False),
        ([*append("a"), *append("b"), *get("ba")], False),
        ([*append("a"), *append("b"), *get("ab"), *get("a")], False),
        ([*append("a"), *put("b"), *get("ba")], False),
        ([*append("a"), *append("a"), *get("aa")], True),
        ([*append("a"), *append("a"), *get("aaa")], False),
        ([*put("ab"), *append("b"), *put("a"), *get("ab")], False),
        ([*put("x"), *append(""), *get("x")], True),
        ([(2, "invoke", "append", "a"), *append("b"), *get("ba")], True),
        ([(2, "invoke", "append", "a"), *append("b"), *get("ba"), *get("b")], False),
        ([(2, "invoke", "put", "a"), *append("b"), *get("b"), *get("a")], True),
        ([(2, "invoke", "put", "a"), *append("b"), *get("a"), *get("b")], False),
        ([(2, "invoke", "append", "a"), (2, "fail", "append", "a"), *get("a")], False),
    ],
)
def test_a_store(rows: list[Row], valid: bool) -> None:
    assert judged("kv", rows).valid is valid


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [*put("a"), *get("b")],
            'get → "b" (process 1, operation 2–3) saw a string that no put and append',
        ),
        ([*put("x"), *append("a"), *get("xa"), *put("y"), *get("ya")], "happened once, but get"),
        ([*put("a"), *append("b"), *get("a")], "The register cannot hold"),
        ([*append("a"), *append("b"), *get("ba")], "comes after it in the chain"),
    ],
)
def test_the_reason_is_explained(rows: list[Row], said: str) -> None:
    (anomaly,) = judged("key-value", rows).anomalies
    assert said in anomaly.explanation


def test_other_values_and_operations_are_refused() -> None:
    for row in (done(0, "put", 5), done(0, "swap", "a"), [get("x")[0], (1, "ok", "get", 5)]):
        with pytest.raises(Exception, match=r"must be a string|has no operation"):
            judged("key-value", list(row))


def appended(count: int, clients: int) -> list[Op]:
    """Clients that append at once, then one that reads all, again and again."""
    rows: list[Any] = []
    text = ""
    for number in range(0, count, clients):
        values = [f"x {number + n} y;" for n in range(clients)]
        rows += [(n, "invoke", "append", value) for n, value in enumerate(values)]
        rows += [(n, "ok", "append", value) for n, value in enumerate(values)]
        text += "".join(reversed(values))
        if number % (25 * clients) == 0:
            rows += done(0, "get", None, text)
    return history(rows)


@pytest.mark.parametrize("length", range(9))
def test_the_whole_common_beginning_of_two_strings_is_kept(length: int) -> None:
    same = "x" * length
    assert _shared(same, f"{same}d") == length
    for rest in range(9):
        assert _shared(f"{same}a{'x' * rest}", f"{same}b{'x' * rest}") == length


def test_many_concurrent_appends_take_no_search() -> None:
    def seconds(count: int) -> float:
        calls = pair(appended(count, 20))
        begun = thread_time()
        found = decide(calls)
        assert found is not None
        assert found.valid is True
        return thread_time() - begun

    seconds(200)
    assert seconds(16_000) < 12 * seconds(4_000)
