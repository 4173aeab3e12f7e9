"""Registers with repeated values, searched as columns, agree with the search over calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.checkers.random_histories import one_register, registers
from kraftwreck.checkers.calls import by_key, pair
from kraftwreck.checkers.linearizability.decide import check
from kraftwreck.checkers.linearizability.keyed import explain
from kraftwreck.checkers.linearizability.models import Register
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.checkers.linearizability.zones import searched
from kraftwreck.checkers.linearizability.zones.decide import needed
from kraftwreck.checkers.linearizability.zones.operations import pair_rows, read_operations
from kraftwreck.checkers.linearizability.zones.registers import Decision, decide
from kraftwreck.checkers.linearizability.zones.searched import unproven
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table
from tests.checkers.rows import history

CAS = Register("cas-register")


@pytest.fixture(autouse=True)
def columns_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search columns however few operations there are."""
    monkeypatch.setattr(searched, "MANY", 0)


def decided(ops: list[Op], **options: Any) -> Decision:
    return decide(to_table(ops, HISTORY_SCHEMA), CAS, **options)


def spread(ops: list[Op]) -> list[Op]:
    """Return the same history with other indices, so that they are no positions."""
    for op in ops:
        op.index = 3 * op.index + 1
    return ops


def test_it_agrees_with_the_search_over_calls() -> None:
    seen = {True: 0, False: 0}
    for number in range(600):
        ops = spread(one_register(11, number))
        calls = pair(ops)
        decision = decided(ops)
        if decision.sorted_keys == decision.keys:
            continue
        (verdict,) = decision.verdicts
        expected = check(CAS, calls)
        found = verdict.outcome
        assert found.valid is expected.valid
        seen[found.valid is True] += 1
        if found.valid is True:
            assert verify(CAS, calls, decision.order()) is None
            continue
        assert found.stuck == expected.stuck
        assert found.states == expected.states
        assert found.order == expected.order
        assert found.window == expected.window
        assert explain("x", found) == explain("x", expected)
    assert min(seen.values()) > 10, seen


def test_the_order_holds_every_key() -> None:
    proved = 0
    for number in range(300):
        ops = spread(registers(12, number))
        decision = decided(ops)
        if any(verdict.outcome.valid is not True for verdict in decision.verdicts):
            continue
        order = decision.order()
        for group in by_key(pair(ops)).values():
            mine = {call.start for call in group}
            assert verify(CAS, group, [start for start in order if start in mine]) is None
        proved += decision.sorted_keys < decision.keys
    assert proved > 30


def test_more_open_calls_than_bits_are_left_to_the_plain_search() -> None:
    ops: list[Op] = []
    for kind in ("invoke", "ok"):
        for process in range(70):
            at = len(ops)
            told: Any = {"type": kind, "process": process, "f": "write", "value": process % 2}
            ops.append(Op(index=at, time=at, **told))
    decision = decided(ops)
    assert [verdict.outcome.valid for verdict in decision.verdicts] == [True]
    assert verify(CAS, pair(ops), decision.order()) is None


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ([0, 1, 2], None),
        ([0, 1, 1], "an operation is named twice"),
        ([0, 1], "an operation that happened is missing"),
        ([1, 0, 2], "an operation ended before one that precedes it began"),
        ([0, 2, 1], "an operation found another value than the register has there"),
    ],
)
def test_an_order_that_proves_nothing_is_refused(order: list[int], why: str | None) -> None:
    rows = [
        (0, "invoke", "write", 1), (0, "ok", "write", 1),
        (0, "invoke", "write", 2), (1, "invoke", "read", None),
        (0, "ok", "write", 2), (1, "ok", "read", 2),
    ]  # fmt: skip
    table = to_table(history(rows), HISTORY_SCHEMA)
    operations = needed(read_operations(table, pair_rows(table)))
    assert unproven(operations, np.array(order)) == why
