"""Sets: added elements are read, read elements were added, and none is read twice."""

from __future__ import annotations

from typing import Any

import pytest

A = (0, "invoke", "add", 0)
A_OK = (0, "ok", "add", 0)
R = (1, "invoke", "read", None)
WITH = (1, "ok", "read", [0])
WITHOUT: Any = (1, "ok", "read", [])


def test_the_last_read_shows_lost_recovered_and_unexpected_elements(judge: Any, done: Any) -> None:
    rows = [
        *done(0, "add", 0),
        *done(0, "add", 1),
        (1, "invoke", "add", 10),
        (1, "info", "add", 10),
        (2, "invoke", "add", 20),
        (2, "fail", "add", 20),
        *done(4, "read", None, [5]),
        *done(4, "read", None, [0, 10, 20, 30]),
    ]
    report = judge("set", rows)
    assert report.result.valid is False
    assert [a.type for a in report.result.anomalies] == ["lost", "unexpected"]
    assert report.details == {
        "valid?": False,
        "attempt-count": 4,
        "acknowledged-count": 2,
        "ok-count": 3,
        "lost-count": 1,
        "recovered-count": 2,
        "unexpected-count": 1,
        "ok": "#{0 10 20}",
        "lost": "#{1}",
        "unexpected": "#{30}",
        "recovered": "#{10 20}",
    }


def test_a_set_never_read_proves_nothing(judge: Any, done: Any) -> None:
    assert judge("set", done(0, "add", 1)).result.valid == "unknown"


def test_runs_of_numbers_are_shortened_and_words_are_not(judge: Any, done: Any) -> None:
    rows = [row for n in (1, 2, 3, 7) for row in done(0, "add", n)]
    assert judge("set", [*rows, *done(0, "read", None, [1, 2, 3, 7])]).details["ok"] == "#{1..3 7}"
    words = judge("set", [*done(0, "add", "b"), *done(0, "add", "a"), *done(0, "read", None, [])])
    assert words.details["lost"] == '#{"a" "b"}'


@pytest.mark.parametrize(
    ("rows", "valid", "outcome"),
    [
        ([A, A_OK], "unknown", "never-read"),
        ([A, R, WITHOUT], "unknown", "never-read"),
        ([R, A, WITH, A_OK], True, "stable"),
        ([R, A, A_OK, WITH], True, "stable"),
        ([A, R, WITH, A_OK], True, "stable"),
        ([A, A_OK, R, WITH], True, "stable"),
        ([A, A_OK, R, WITHOUT], False, "lost"),
        ([R, A, WITHOUT, A_OK], "unknown", "never-read"),
        ([R, A, A_OK, WITHOUT], "unknown", "never-read"),
        ([A, R, WITHOUT, A_OK], "unknown", "never-read"),
        ([A, R, A_OK, WITHOUT], "unknown", "never-read"),
        # A failed or unfinished add that is never seen is not lost.
        ([A, (0, "fail", "add", 0), R, WITHOUT], "unknown", "never-read"),
        ([A, (0, "info", "add", 0), R, WITHOUT], "unknown", "never-read"),
        # Seen once, it must stay, whatever became of the add.
        ([A, (0, "info", "add", 0), R, WITH, R, WITHOUT], False, "lost"),
        # Missing at first, there later.
        ([A, A_OK, R, WITHOUT, R, WITH], True, "stable"),
    ],
)
def test_the_life_of_an_element(judge: Any, rows: list[Any], valid: Any, outcome: str) -> None:
    report = judge("set-full", rows)
    assert report.result.valid == valid
    assert report.details[f"{outcome}-count"] == 1
    reason = "no read shows an element that stayed: adds attempted: 1"
    assert report.result.error == (reason if valid == "unknown" else None)


def test_flutter_is_stale_or_lost_with_latencies(judge: Any) -> None:
    rows = [
        (0, "invoke", "add", 0),
        (0, "ok", "add", 0),
        (1, "invoke", "add", 1),
        (2, "invoke", "read", None),
        (2, "ok", "read", [1]),
        (1, "ok", "add", 1),
        (2, "invoke", "read", None),
        (3, "invoke", "read", None),
        (3, "ok", "read", [1]),
        (2, "ok", "read", [0]),
    ]
    details = judge("set-full", rows).details
    assert (details["lost"], details["stale"]) == ([0], [1])
    assert details["lost-latencies"] == {"0": 5, "0.5": 5, "0.95": 5, "0.99": 5, "1": 5}
    assert details["stable-latencies"] == {"0": 2, "0.5": 2, "0.95": 2, "0.99": 2, "1": 2}
    (worst,) = details["worst-stale"]
    assert worst["known"]["op-index"] == 4
    assert worst["last-absent"]["op-index"] == 6


def test_a_stale_element_is_invalid_where_the_set_is_linearizable(judge: Any) -> None:
    late = [
        A,
        A_OK,
        R,
        WITHOUT,
        (2, "invoke", "add", 1),
        (2, "ok", "add", 1),
        R,
        (1, "ok", "read", [0, 1]),
    ]
    assert judge("set-full", late).result.valid is True
    report = judge("set-full", late, linearizable=True)
    assert report.result.valid is False
    assert report.details["stale"] == [0]


def test_an_element_read_twice_is_invalid(judge: Any) -> None:
    report = judge("set-full", [A, A_OK, R, (1, "ok", "read", [0, 0, 0])])
    assert report.result.valid is False
    assert report.details["duplicated"] == {"0": 3}


def test_many_reads_of_many_elements_take_no_square_time(judge: Any) -> None:
    rows: list[Any] = []
    for element in range(1500):
        rows += [(0, "invoke", "add", element), (0, "ok", "add", element)]
        if element % 100 == 99:
            rows += [R, (1, "ok", "read", list(range(element + 1)))]
    assert judge("set-full", rows).details["stable-count"] == 1500
