"""Where a search finds no order, it names the smallest set of operations without one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.checkers import judges
from bench.checkers.random_histories import one_register
from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability.compiled_search import Coded
from kraftwreck.checkers.linearizability.decide import check
from kraftwreck.checkers.linearizability.keyed import explain, window_of
from kraftwreck.checkers.linearizability.level_walk import Outcome
from kraftwreck.checkers.linearizability.models import MODELS, Model, actions
from kraftwreck.checkers.linearizability.narrowing import narrow
from kraftwreck.histories.operation import Op
from tests.checkers.rows import Row, did, history

CAS, TOPIC = MODELS["cas-register"], MODELS["topic-register"]
NEVER = 1 << 40


def orderable(model: Model, core: list[Call], helpers: list[Call], states: list[Any]) -> bool:
    """Try every order, with and without the helpers, from every one of ``states``."""
    step = judges.register(strict=model is TOPIC)
    calls = [
        judges.Done(c.start, c.end, c.process, True, c.f, c.argument, c.value) for c in core
    ] + [
        judges.Done(c.start, NEVER, c.process, False, c.f, c.argument, None) for c in helpers
    ]  # fmt: skip
    return any(judges.explained(calls, state, step) for state in states)


def told(model: Model, ops: list[Op]) -> Outcome:
    outcome = check(model, pair(ops))
    assert outcome.valid is False
    return outcome


@pytest.mark.parametrize("model", [CAS, TOPIC], ids=lambda model: model.name)
def test_no_order_holds_the_core_and_each_of_it_is_needed(model: Model) -> None:
    narrowed = 0
    for number in range(1200):
        calls = pair(one_register(21, number, delete=True))
        outcome = check(model, calls)
        if outcome.valid is not False or not outcome.core:
            continue
        narrowed += 1
        values = {None, "another"}
        for call in calls:
            values |= set(call.argument) if call.f == "cas" else {call.argument}
            values |= {call.value} if call.f == "read" else set()
        states = [None] if outcome.whole else list(values)
        core, helpers = outcome.core, outcome.helpers
        assert outcome.stuck in core
        assert not orderable(model, core, helpers, states)
        everybody = [call for call in calls if call.type != "fail" and call.f != "read"]
        for one in core:
            if one is outcome.stuck:
                continue
            less = [call for call in core if call is not one]
            others = [call for call in everybody if call not in less]
            assert orderable(model, less, others, states)
    assert narrowed > 30


def test_of_a_long_history_a_few_operations_are_left() -> None:
    rows: list[Row] = []
    for round_ in range(300):
        rows += did(0, "write", round_ % 3)
        rows += did(1, "read", round_ % 3)
    rows += [*did(0, "write", 1), *did(1, "read", 1), *did(2, "read", 0), *did(0, "write", 2)]
    outcome = told(CAS, history(rows))
    names = [(call.f, call.start) for call in outcome.core]
    # One value was there, and then another, and nobody wrote in between.
    assert names == [("read", 1202), ("read", 1204)]
    assert (outcome.helpers, outcome.whole) == ([], False)
    assert "Whatever the value was before, no order holds these: read → 1" in explain("x", outcome)
    shown = window_of(outcome)
    assert shown is not None
    assert [operation["index"] for operation in shown["operations"]] == [1202, 1204]


def test_writes_that_may_have_happened_are_named_separately() -> None:
    rows = [(7, "invoke", "cas", [5, 0]), *did(0, "write", 1), *did(1, "read", 1)]
    outcome = told(CAS, history([*rows, *did(2, "read", 0), *did(0, "write", 5)]))
    assert [call.f for call in outcome.core] == ["read", "read"]
    assert [call.f for call in outcome.helpers] == ["cas"]
    assert "with or without cas [5,0]" in explain("null", outcome)


def test_a_write_that_ends_inside_the_first_operation_is_one_that_may_have_happened() -> None:
    rows: list[Row] = [*did(0, "write", 0), *did(0, "write", 1), (1, "invoke", "write", 7)]
    rows += [(2, "invoke", "read", None), (1, "ok", "write", 7), (2, "ok", "read", 7)]
    outcome = told(CAS, history([*rows, *did(2, "read", 1), *did(0, "write", 2)]))
    assert [call.value for call in outcome.core] == [7, 1]
    assert [call.argument for call in outcome.helpers] == [7]


def test_the_initial_value_counts_where_the_history_begins() -> None:
    outcome = told(CAS, history([*did(0, "cas", [None, 2]), *did(0, "cas", [None, 2])]))
    assert not outcome.whole
    outcome = told(CAS, history([*did(0, "read", 2), *did(0, "write", 2)]))
    assert outcome.whole
    assert [call.f for call in outcome.core] == ["read"]


def test_without_time_no_core_is_reported() -> None:
    calls = pair(history([*did(0, "write", 1), *did(0, "read", 2), *did(0, "write", 2)]))
    assert narrow(Coded(CAS, actions(CAS, calls)).problem, 1, seconds=0) is None
