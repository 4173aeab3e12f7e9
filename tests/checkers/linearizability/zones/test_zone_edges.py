"""Registers decided by sorting, right at the limits of what is shown and how rows are joined."""

from __future__ import annotations

import itertools

import pytest

from kraftwreck.checkers.calls import HistoryShapeError
from kraftwreck.checkers.linearizability.zones import operations
from kraftwreck.checkers.linearizability.zones.operations import pair_rows
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table
from tests.checkers.linearizability.zones.test_registers import decided
from tests.checkers.rows import Row, did, history

pytestmark = pytest.mark.interpreted  # It replaces constants of modules.


@pytest.mark.parametrize(("keys", "explained"), [(8, 8), (9, 8)])
def test_the_contradictions_of_eight_keys_are_explained(keys: int, explained: int) -> None:
    rows = history(row for number in range(keys) for row in did(number, "read", 7))
    ops = [
        Op(
            index=op.index, process=op.process, type=op.type, f=op.f, key=f"k{op.process}",
            value=op.value, time=op.time,
        )
        for op in rows
    ]  # fmt: skip
    verdicts = decided(ops).verdicts
    assert len(verdicts) == keys
    assert sum(verdict.outcome.stuck is not None for verdict in verdicts) == explained


@pytest.mark.parametrize(("before", "shown"), [(64, 64), (65, 64)])
def test_the_last_sixty_four_operations_before_the_contradiction_are_shown(
    before: int, shown: int
) -> None:
    rows = [row for value in range(1, before + 1) for row in did(0, "write", value)]
    rows += did(1, "read", 1)
    (verdict,) = decided(history(rows)).verdicts
    assert verdict.outcome.placed == before
    assert verdict.outcome.order == list(range(2 * before - 2 * shown, 2 * before, 2))


@pytest.mark.parametrize(("swaps", "shown"), [(8, 8), (9, 8)])
def test_eight_members_of_a_circle_are_shown(swaps: int, shown: int) -> None:
    rows: list[Row] = []
    for kind in ("invoke", "ok"):
        for at in range(swaps):
            rows.append((at, kind, "cas", [at + 1, (at + 1) % swaps + 1]))
    (verdict,) = decided(history(rows)).verdicts
    assert (verdict.outcome.why or "").startswith("Each of ")
    assert len(verdict.outcome.window) == shown


@pytest.mark.parametrize(("swaps", "shown"), [(10, 8), (9, 8), (8, 7)])
def test_eight_links_of_a_chain_are_shown(swaps: int, shown: int) -> None:
    # The last one of a chain ended before the first value was read.
    rows: list[Row] = [(0, "invoke", "write", 1)]
    rows += [(at, "invoke", "cas", [at, at + 1]) for at in range(1, swaps + 1)]
    rows += [(swaps, "ok", "cas", [swaps, swaps + 1]), *did(99, "read", 1)]
    (verdict,) = decided(history(rows)).verdicts
    why = verdict.outcome.why or ""
    assert "but comes after it in the chain of compare-and-sets (through" in why
    assert len(verdict.outcome.window) == 2 + shown


@pytest.mark.parametrize("last", [65_535, 65_536, 65_537, 131_072])
def test_processes_with_large_numbers_are_told_apart(last: int) -> None:
    processes = [0, 1, last]
    rows: list[Row] = [(process, "invoke", "write", process) for process in processes]
    rows += [(process, "ok", "write", process) for process in processes]
    pairs = pair_rows(to_table(history(rows), HISTORY_SCHEMA))
    assert pairs.done.tolist() == [3, 4, 5]


def joined(rows: list[Row]) -> list[int] | str:
    try:
        return list(map(int, pair_rows(to_table(history(rows), HISTORY_SCHEMA)).done))
    except HistoryShapeError as error:
        return str(error)


def test_the_compiled_loop_joins_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All histories of three events of two processes and two operations."""
    events = [
        (p, kind, f, None) for p in (0, 1) for kind in ("invoke", "ok") for f in "rw"[: 2 - p]
    ]
    several = [list(rows) for rows in itertools.product(events, repeat=3)]
    names = {"r": "read", "w": "write"}
    several = [[(p, kind, names[f], value) for p, kind, f, value in rows] for rows in several]
    sorted_out = [joined(rows) for rows in several]
    monkeypatch.setattr(operations, "_COMPILED", 0)
    assert [joined(rows) for rows in several] == sorted_out
    assert len(set(map(str, sorted_out))) > 10


@pytest.mark.parametrize("shift", [0, 10**6])
def test_values_of_a_wide_range_are_told_apart(shift: int) -> None:
    values = [shift, shift + 1, shift + 10**9]
    rows = [row for value in values for row in did(0, "write", value)]
    assert decided(history([*rows, *did(1, "read", values[-1])])).verdicts == []
    for wrong in values[:-1]:
        assert decided(history([*rows, *did(1, "read", wrong)])).verdicts != []
    initial = history([*did(1, "read", shift), *rows, *did(1, "read", None)])
    assert decided(initial, initial=shift + 10**9).verdicts != []


@pytest.mark.parametrize("greatest", [5, 10**9])
def test_null_is_no_number_where_another_value_comes_first(greatest: int) -> None:
    rows = [*did(0, "write", 3), *did(0, "write", None)]
    assert decided(history([*rows, *did(1, "read", greatest)]), initial=0).verdicts != []
    assert decided(history([*rows, *did(1, "read", 3)]), initial=0).verdicts != []
    rows += [*did(0, "write", greatest), *did(1, "read", greatest)]
    assert decided(history(rows), initial=0).verdicts == []


def test_an_operation_of_the_same_value_is_no_contradiction_in_a_chain() -> None:
    rows: list[Row] = [(0, "invoke", "write", 1), (1, "invoke", "cas", [1, 2])]
    rows += [*did(2, "read", 2), (3, "invoke", "read", None), *did(4, "read", 2)]
    (verdict,) = decided(history([*rows, (3, "ok", "read", 1)])).verdicts
    why = verdict.outcome.why or ""
    assert why.startswith("read → 2 (process 2, ")
    assert "ended before read → 1 (process 3, " in why


def test_of_two_values_that_both_come_first_the_reads_of_both_are_shown() -> None:
    rows: list[Row] = [(0, "invoke", "write", 1), (1, "invoke", "write", 2)]
    for value in (2, 1, 1, 2):
        rows += did(2, "read", value)
    (verdict,) = decided(history(rows)).verdicts
    assert {call.value for call in verdict.outcome.window if call.f == "read"} == {1, 2}
    assert "cannot hold 2 and 1 one after the other" in (verdict.outcome.why or "")


def test_the_writes_of_values_that_cannot_be_ordered_are_shown() -> None:
    rows: list[Row] = [(0, "invoke", "write", 1), (1, "invoke", "write", 2)]
    rows += [*did(2, "read", 1), *did(2, "read", 2), *did(2, "read", 1)]
    (verdict,) = decided(history(rows)).verdicts
    assert [call.start for call in verdict.outcome.window] == [0, 1, 2, 4, 6]
