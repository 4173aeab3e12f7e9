"""The fewest calls that no order holds: against brute force, and by example."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from kraftwreck.checkers.calls import Call, known, pair
from kraftwreck.checkers.linearizability.keyed import explain
from kraftwreck.checkers.linearizability.machines.linearizable import check_calls
from kraftwreck.checkers.linearizability.machines.models import MACHINES, Machine, Operation
from kraftwreck.checkers.linearizability.machines.narrowing import narrowed
from kraftwreck.checkers.linearizability.machines.search import check, constraints
from tests.checkers.linearizability.machines.random_machines import (
    KINDS,
    Choose,
    judged,
    random_histories,
)
from tests.checkers.rows import done, history


def possible(machine: Machine, items: Sequence[tuple[Call, Operation]], promised: set[int]) -> bool:
    """Whether some order holds all of ``promised`` and any of the others, by trying them all."""
    free = [item for item in items if item[0].start in promised or not item[1].looks]
    return any(
        promised <= {call.start for call, _ in order} and _legal(machine, order)
        for size in range(len(promised), len(free) + 1)
        for order in permutations(free, size)
    )


def _legal(machine: Machine, order: Sequence[tuple[Call, Operation]]) -> bool:
    latest = -1
    states = {machine.initial}
    for call, operation in order:
        if latest > call.end:
            return False
        latest = max(latest, call.start)
        states = {after for state in states for after in machine.choices(state, operation)}
    return bool(states)


@pytest.mark.parametrize(("name", "choose"), KINDS)
def test_no_order_holds_them_and_each_of_them_is_needed(name: str, choose: Choose) -> None:
    machine = MACHINES[name]({})
    seen = 0
    for ops in random_histories(name, choose, 150, 5):
        calls = pair(ops)
        outcome = check(machine, calls)
        if outcome.valid is not False:
            continue
        assert outcome.stuck is not None
        last = outcome.stuck.completion
        core = {call.start for call in narrowed(machine, calls, outcome).core}
        items = [(known(call, last), o) for call, o in constraints(machine, calls)]
        items = [item for item in items if item[0].start <= last]
        assert outcome.stuck.start in core
        assert not possible(machine, items, core), ops
        assert all(possible(machine, items, core - {one}) for one in core), ops
        seen += 1
    assert seen >= 5


def test_an_element_dequeued_twice_is_explained() -> None:
    """Of many operations the three that matter are named, and those that may have happened."""
    rows = [
        row
        for number in range(30)
        for row in [*done(0, "enqueue", number), *done(1, "dequeue", None, number)]
    ]
    rows += [*done(0, "enqueue", 99), *done(2, "dequeue", None, 17), *done(2, "dequeue", None)]
    (anomaly,) = judged("unordered-queue", rows).anomalies
    assert "no order holds these: dequeue → 17" in anomaly.explanation
    assert "with or without enqueue 17" in anomaly.explanation
    assert len(anomaly.operations) == 6


def test_a_lock_that_two_hold() -> None:
    once = [*done(0, "acquire", None), *done(0, "release", None)]
    rows = [*once * 3, *done(0, "acquire", None), *done(1, "acquire", None)]
    (verdict,) = check_calls("lock", {"owned": True}, pair(history(rows)), 10.0)
    assert verdict.outcome.stuck in verdict.outcome.core
    assert [call.start for call in verdict.outcome.core] == [12, 14]


def test_an_impossible_counter_read_names_the_adds() -> None:
    rows = [*done(0, "add", 1), *done(1, "read", None, 1), *done(0, "add", 2)]
    rows += done(1, "read", None, 1)
    (verdict,) = check_calls("linearizable-counter", {}, pair(history(rows)), 10.0)
    assert [call.start for call in verdict.outcome.core] == [4, 6]
    assert "add 2" in explain(verdict.key, verdict.outcome)
