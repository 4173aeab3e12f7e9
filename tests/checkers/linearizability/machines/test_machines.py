"""Locks, queues, sets, counters and logs: against brute force, and by example."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability.logs.decide import AmbiguousError, decide
from kraftwreck.checkers.linearizability.logs.operations import from_calls
from kraftwreck.checkers.linearizability.machines.linearizable import check_calls
from kraftwreck.checkers.linearizability.machines.log import Log
from kraftwreck.checkers.linearizability.machines.models import MACHINES, Machine
from kraftwreck.checkers.linearizability.machines.search import check, verify
from tests.checkers.linearizability.machines.random_machines import (
    KINDS,
    Choose,
    judged,
    logs,
    random_histories,
)
from tests.checkers.rows import done


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


@pytest.mark.parametrize(("name", "choose"), KINDS)
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
    for ops in random_histories("log", logs, 1500, 7):
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
        ([*done(0, "append", "a", [1, "a"]), *done(1, "append", "b", [0, "b"])], "comes after"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "append", "b", [0, "b"])], "one offset"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, "a"]])], None),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, "b"]])], "another value"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "fetch", None, [[0, None]])],
         "comes after"),
        ([*done(1, "fetch", None, [[1, None]]), *done(0, "append", "a", [1, "a"])], None),
        ([*done(1, "fetch", None, [[1, "a"]]), *done(0, "append", "a", [1, "a"])], "comes after"),
        ([(5, "invoke", "append", "z"), *done(1, "fetch", None, [[4, "z"]])], None),
        ([*done(1, "fetch", None, [[4, "z"]])], "no call tried"),
        ([(5, "invoke", "append", "z"), (5, "fail", "append", "z"),
          *done(1, "fetch", None, [[4, "z"]])], "whose append failed"),
        ([(5, "invoke", "append", "z"), *done(1, "fetch", None, [[4, "z"]]),
          *done(1, "append", "y", [3, "y"])], "comes after"),
        ([*done(0, "append", "a"), *done(0, "append", "b"), *done(1, "read", None, ["a", "b"])],
         None),
        ([*done(0, "append", "a"), *done(0, "append", "b"), *done(1, "read", None, ["b", "a"])],
         "comes after"),
        ([*done(0, "append", "a"), *done(1, "read", None, [])], "no offset is left"),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "size", None, 1)], None),
        ([*done(0, "append", "a", [0, "a"]), *done(1, "size", None, 0)], "comes after"),
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
          (1, "invoke", "append", "a")], "that no append can have"),
        # Between offsets 0 and 1 there is no other; above 1 there would be.
        ([*done(0, "append", "a", [0, "a"]), *done(0, "append", "b"),
          *done(0, "append", "c", [1, "c"])], "no offset is left"),
        ([*done(0, "append", "a", [0, "a"]), *done(0, "append", "b"),
          *done(0, "append", "c", [2, "c"])], None),
        ([*done(0, "append", "a"), *done(0, "fetch", None, [[0, None]])], "no offset is left"),
    ],
)  # fmt: skip
def test_appends_without_a_known_offset_need_one(rows: list[Any], said: str | None) -> None:
    """Found by brute force: they were put behind all others, or anywhere."""
    result = judged("log", rows)
    assert result.valid is (said is None), result.anomalies
    if said is not None:
        assert said in result.anomalies[0].explanation


def test_a_log_names_its_first_impossible_moment_and_a_legal_order_before_it() -> None:
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
