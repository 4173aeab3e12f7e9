"""Long logs are decided in one pass, and every verdict is that of the sorted columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.checkers.brute_force import columns_of
from bench.checkers.random_histories import machine
from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.linearizability.logs import linearizable, stream
from kraftwreck.checkers.linearizability.logs.decide import AmbiguousError, decide
from kraftwreck.checkers.linearizability.logs.operations import from_columns
from kraftwreck.checkers.linearizability.witness import misplaced
from kraftwreck.histories.column_files import with_schema
from kraftwreck.histories.operation import Op
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError, from_table

NAMES = ["index", "process", "type", "f", "value", "offset"]
Row = tuple[int, str, str, int | None, int | None]

APPENDED: list[Row] = [
    (0, "invoke", "append", 10, None),
    (0, "ok", "append", 10, 0),
    (0, "invoke", "append", 11, None),
    (1, "invoke", "read", None, None),
    (1, "ok", "read", 11, 1),
]


def table_of(rows: list[Row]) -> pa.Table:
    columns = [list(range(len(rows))), *map(list, zip(*rows, strict=True))]
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64())
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], NAMES)


def fault(rows: list[Row]) -> tuple[str, list[int]] | None:
    passed = stream.run(table_of(rows).to_batches(2))
    assert passed is not None
    return passed.fault


def test_an_append_that_never_ended_is_placed_where_it_was_seen() -> None:
    assert fault(APPENDED) is None


@pytest.mark.parametrize("before", [3, 5])
def test_an_append_that_never_ended_cannot_precede_an_earlier_one(before: int) -> None:
    late: list[Row] = [(2, "invoke", "append", 12, None), (3, "invoke", "read", None, None)]
    assert fault([*APPENDED, *late, (3, "ok", "read", 12, 2)]) is None
    low: list[Row] = [
        (0, "invoke", "append", 10, None),
        (0, "ok", "append", 10, before),
        (2, "invoke", "append", 12, None),
        (3, "invoke", "read", None, None),
        (3, "ok", "read", 12, 2),
    ]
    assert fault(low) == ("order", [0, 2])


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ((1, "ok", "read", 99, 0), "other-value"),
        ((1, "ok", "read", None, 0), "order"),
        ((1, "ok", "append", None, 0), "one-offset"),
        ((1, "ok", "append", None, 1), None),
    ],
)
def test_operations_that_contradict_an_append_are_named(row: Row, kind: str | None) -> None:
    asked = None if row[2] == "read" else 7
    found = fault([*APPENDED[:2], (1, "invoke", row[2], asked, None), row])
    assert (found and found[0]) == kind


@pytest.mark.parametrize(("offset", "kind"), [(3, "order"), (4, None)])
def test_nothing_is_read_only_above_the_appends_that_have_ended(
    offset: int, kind: str | None
) -> None:
    rows: list[Row] = [(0, "invoke", "append", 10, None), (0, "ok", "append", 10, 3)]
    found = fault([*rows, (1, "invoke", "read", None, None), (1, "ok", "read", None, offset)])
    assert (found and found[0]) == kind


def test_an_append_of_minus_one_is_not_taken_for_nothing() -> None:
    rows: list[Row] = [
        (0, "invoke", "append", -1, None),
        (0, "ok", "append", -1, 0),
        (0, "invoke", "read", None, None),
        (0, "ok", "read", -1, 0),
    ]
    assert fault(rows) is None
    assert decide(from_columns(table_of(rows))).fault is None


@pytest.mark.parametrize(
    "rows",
    [
        [(0, "invoke", "append", 1, None), (0, "ok", "append", 1, None)],
        [(0, "invoke", "append", 1, None), (0, "ok", "read", 1, 0)],
        [(0, "invoke", "read", None, None), (0, "ok", "read", 9, 0)],
        [(-1, "invoke", "append", 1, None), (-1, "ok", "append", 1, 0)],
    ],
)
def test_one_pass_leaves_undecided_logs_to_the_search(rows: list[Row]) -> None:
    assert stream.run(table_of(rows).to_batches(2)) is None


def test_it_agrees_with_the_sorted_columns() -> None:
    decided = 0
    for number in range(500):
        table = columns_of(machine("log of points", 2, number))
        passed = stream.run(table.to_batches(3))
        if passed is None:
            continue
        decided += 1
        try:
            assert (passed.fault is None) == (decide(from_columns(table)).fault is None)
        except AmbiguousError:
            assert passed.fault is not None
    assert decided > 300


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("wrong", [False, True])
def test_long_files_are_judged_so(
    kind: str, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linearizable, "_LOOKED_ROWS", 0)
    rows = [*APPENDED, *APPENDED[3:]]
    if wrong:
        rows[-1] = (1, "ok", "read", 10, 1)
    path = tmp_path / f"history.{kind}"
    table = table_of(rows)
    table = table.set_column(0, "index", pa.array(10 * np.arange(len(table))))
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as sink:
            sink.write_table(table)
    ((verdict, order),) = linearizable.check_log(HistoryFile(path), 10)
    assert verdict.outcome.valid is not wrong
    assert verdict.count == (3 if wrong else 4)
    if wrong:
        assert [call.start for call in verdict.outcome.window] == [30, 50]
        assert (verdict.outcome.why or "").startswith("Two reads found different values")
    else:
        calls = pair(from_table(with_schema(table), Op))
        assert misplaced(calls, order(), lambda call: True) is None


def test_a_file_without_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    pq.write_table(table_of(APPENDED).drop_columns(["value"]), path)
    with pytest.raises(HistoryError, match="there is no column 'value'"):
        linearizable.check_log(HistoryFile(path), 10)
