"""Logs, judged right at the edges of what is allowed."""

from __future__ import annotations

from pathlib import Path
from time import thread_time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability.logs import linearizable, stream
from kraftwreck.checkers.linearizability.logs.decide import Verdict, decide
from kraftwreck.checkers.linearizability.logs.linearizable import judge_calls
from kraftwreck.checkers.linearizability.logs.operations import from_calls
from kraftwreck.checkers.linearizability.machines.log import Log
from kraftwreck.checkers.linearizability.machines.search import check
from kraftwreck.histories.source import HistoryFile
from tests.checkers.linearizability.logs.test_stream import APPENDED, Row, table_of
from tests.checkers.rows import Row as Event
from tests.checkers.rows import done, history

pytestmark = pytest.mark.interpreted  # It replaces a constant of a module.


def calls_of(rows: list[Event]) -> list[Call]:
    return pair(history(rows))


def append(value: int, offset: int | None, process: int = 0) -> list[Event]:
    return done(process, "append", value, value if offset is None else [offset, value])


def read(f: str, value: Any, process: int = 1) -> list[Event]:
    return done(process, f, None, value)


def judged(rows: list[Event]) -> Verdict:
    return decide(from_calls(calls_of(rows)))


def passed(rows: list[Row]) -> stream.Passed | None:
    return stream.run(table_of(rows).to_batches(2))


def test_two_events_of_one_index_are_left_to_the_sorted_columns() -> None:
    table = table_of(APPENDED[:2])
    twice = table.set_column(0, "index", pa.array([0, 0]))
    assert stream.run(table.to_batches()) is not None
    assert stream.run(twice.to_batches()) is None


def test_the_first_event_may_be_an_append_that_never_ends() -> None:
    rows: list[Row] = [
        (0, "invoke", "append", 10, None),
        (1, "invoke", "read", None, None),
        (1, "ok", "read", 10, 0),
    ]
    found = passed(rows)
    assert found is not None
    assert (found.fault, found.operations) == (None, 2)
    assert passed([rows[0], rows[0]]) is None
    assert passed([rows[2]]) is None


def test_an_append_that_never_ends_is_not_seen_before_it_began() -> None:
    seen: list[Row] = [(1, "invoke", "read", None, None), (1, "ok", "read", 10, 0)]
    found = passed([*seen, (0, "invoke", "append", 10, None)])
    assert found is not None
    assert found.fault == ("order", [0, 2])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (read("size", 1), "hole"),
        ([(2, "invoke", "append", 7), *read("size", 1)], None),
        ([(2, "invoke", "append", 7), *read("size", 2)], "hole"),
        ([*append(7, None), *read("size", 1)], None),
        ([*append(7, None), *read("size", 2)], "hole"),
        ([*append(7, 0), *read("size", 1)], None),
        (append(7, 1), "hole"),
        ([*append(7, 1), *read("size", 2)], "hole"),
        ([(2, "invoke", "append", 6), *append(7, 1), *read("size", 2)], None),
        ([*append(6, None), *append(7, 0)], "room"),
        ([*append(6, None), *append(7, 1)], None),
        ([*append(7, 0), *append(6, None)], None),
        ([*append(7, 0), *append(6, None), *append(8, 1)], "room"),
        ([*append(7, 0), *append(6, None), *append(8, 2)], None),
        ([*append(7, 0), *append(8, 2), *append(6, None), *read("size", 3)], "hole"),
    ],
)
def test_every_offset_of_a_log_without_gaps_has_an_append(
    rows: list[Event], fault: str | None
) -> None:
    rows = [*read("read", []), *rows]  # A read of the whole log shows that it has no gaps.
    verdict = judged(rows)
    assert (verdict.fault and verdict.fault[0]) == fault
    assert check(Log(calls_of(rows)), calls_of(rows)).valid is (fault is None)


def test_an_operation_on_the_same_level_is_no_contradiction() -> None:
    rows: list[Event] = [
        (0, "invoke", "append", 7), (1, "invoke", "size", None),
        (0, "ok", "append", [0, 7]), (1, "ok", "size", 0), *read("size", 0, 2),
    ]  # fmt: skip
    # The second size, not the first one, contradicts the append.
    assert judged(rows).fault == ("order", [0, 4])


GAPS: list[tuple[list[Event], bool]] = [
    ([*append(1, 0), *append(1, 1)], True),
    ([*append(1, 0), *append(1, 0)], False),
    ([*append(1, 1), *append(1, 0)], False),
    ([*append(1, None), *append(1, 0)], False),
    ([*append(1, None), *append(1, 1)], True),
    ([*append(1, 3), *read("size", 4)], True),
    ([*append(1, 3), *read("size", 3)], False),
    ([*append(1, 3), *read("fetch", [[4, None]])], True),
    ([*append(1, 3), *read("fetch", [[3, None]])], False),
    ([*append(1, 3), *append(1, None), *read("fetch", [[4, 1]])], True),
    ([*append(1, 3), *read("size", 7), *append(1, None), *read("fetch", [[7, 1]])], True),
    ([*append(1, 3), *read("size", 7), *append(1, None), *read("fetch", [[6, 1]])], False),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "valid"), GAPS)
def test_the_steps_of_a_log_with_gaps(rows: list[Event], valid: bool) -> None:
    calls = calls_of(rows)
    assert check(Log(calls), calls).valid is valid


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([*append(1, 0), *append(2, 0)], ("one-offset", [0, 2])),
        ([*read("fetch", [[0, 1]]), *read("fetch", [[0, 2]])], ("two-values", [0, 2])),
        ([*append(1, 0), *append(2, 1), *read("fetch", [[1, 1]])], ("other-value", [2, 4])),
    ],
)
def test_the_calls_of_an_error_are_named(rows: list[Event], fault: tuple[str, list[int]]) -> None:
    assert judged(rows).fault == fault


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_longest_legal_beginning_of_a_log_is_found(more: int) -> None:
    rows = [*append(1, 0), *append(2, 1), *read("fetch", [[0, 2]])]
    rows += [row for number in range(more) for row in append(3 + number, 2 + number)]
    outcome, order = judge_calls(calls_of(rows), thread_time() + 60)
    assert outcome.valid is False
    assert outcome.stuck is not None
    assert (outcome.stuck.start, outcome.order, outcome.placed) == (4, [0, 2], 2)
    assert order() == []


def test_the_answers_of_concurrent_calls_are_found_in_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linearizable, "_LOOKED_ROWS", 0)
    rows: list[Row] = [
        (0, "invoke", "append", 10, None),
        (1, "invoke", "read", None, None),
        (2, "invoke", "append", 11, None),
        (0, "ok", "append", 10, 0),
        (1, "ok", "read", 99, 0),
    ]
    path = tmp_path / "history.parquet"
    pq.write_table(table_of(rows), path)
    ((verdict, _),) = linearizable.check_log(HistoryFile(path), 10)
    window = [(call.start, call.completion) for call in verdict.outcome.window]
    assert window == [(0, 3), (1, 4)]
