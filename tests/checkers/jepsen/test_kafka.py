"""Each error of a log that is sent to and polled, by the smallest history that has it."""

from __future__ import annotations

from typing import Any

import pytest

ASKED: Any = [["poll"]]


def send(process: int, *moves: tuple[Any, ...], kind: str = "ok") -> list[Any]:
    """Send ``(key, value)`` or, with a known offset, ``(key, offset, value)``."""
    asked = [["send", move[0], move[-1]] for move in moves]
    told = [["send", m[0], list(m[1:]) if len(m) == 3 else m[1]] for m in moves]
    return [(process, "invoke", "send", asked), (process, kind, "send", told)]


def poll(process: int, polled: Any, kind: str = "ok", f: str = "poll") -> list[Any]:
    return [(process, "invoke", f, ASKED), (process, kind, f, [["poll", polled]])]


def own(process: int, f: str, keys: list[str], kind: str = "ok") -> list[Any]:
    return [(process, "invoke", f, keys), (process, kind, f, keys)]


SENT = send(9, ("x", 1, "a"), ("x", 2, "b"), ("x", 3, "c"), ("x", 4, "d"))
SEEN = poll(8, {"x": [[1, "a"], [2, "b"], [3, "c"], [4, "d"]]})
BASE = [*SENT, *SEEN]


@pytest.mark.parametrize(
    ("rows", "bad"),
    [
        (BASE, []),
        # What is acknowledged and never polled, and what others saw past.
        ([*SENT, *poll(8, {"x": [[1, "a"]]})], ["unseen"]),
        ([*SENT, *poll(8, {"x": [[1, "a"], [3, "c"], [4, "d"]]})],
         ["int-poll-skip", "lost-write", "unseen"]),
        # A value that may have been sent, and was polled, drags its transaction along.
        ([*send(1, ("x", "a"), ("y", 0, "b"), kind="info"), *send(2, ("y", "c"), kind="info"),
          *poll(3, {"x": [[0, "a"]]}), *poll(4, {"y": [[1, "c"]]})], ["lost-write"]),
        ([*send(1, ("x", "a"), ("y", 0, "b"), kind="info"), *send(2, ("y", "c"), kind="info"),
          *poll(4, {"y": [[1, "c"]]})], []),
        # What only a poll that did not commit saw, of a send that may not have happened.
        ([*send(1, ("x", "a"), kind="info"), *poll(2, {"x": [[0, "a"]]}, "info", "txn"),
          *send(3, ("x", 1, "b")), *poll(4, {"x": [[1, "b"]]})], []),
        # Aborted, own, and never sent.
        ([*send(1, ("x", "a"), kind="fail"), *poll(2, {"x": [[0, "a"]]})], ["G1a"]),
        ([*BASE, *poll(2, {"x": [[9, "zz"]]})], ["unwritten"]),
        ([*BASE, (5, "invoke", "txn", [["send", "y", 1], ["poll"]]),
          (5, "ok", "txn", [["send", "y", [0, 1]], ["poll", {"y": [[0, 1]]}]])],
         ["precommitted-read"]),
        # One value at two offsets, two values at one.
        ([*send(1, ("x", 1, "a")), *poll(2, {"x": [[1, "a"]]}), *poll(3, {"x": [[3, "a"]]})],
         ["duplicate"]),
        ([*send(1, ("x", 1, "a")), *send(2, ("x", 1, "b")), *poll(2, {"x": [[1, "a"], [1, "b"]]})],
         ["inconsistent-offsets"]),
        # Only what certainly took effect is in conflict.
        ([*send(1, ("x", 1, "b"), kind="info"), *send(2, ("x", 1, "a")),
          *poll(2, {"x": [[1, "a"]]})], []),
        # Inside one operation.
        ([*BASE, *poll(2, {"x": [[1, "a"], [3, "c"]]})], ["int-poll-skip"]),
        ([*BASE, *poll(2, {"x": [[3, "c"], [3, "c"]]})], ["int-nonmonotonic-poll"]),
        ([*send(1, ("x", 3, "c"), ("x", 1, "a")), *poll(2, {"x": [[1, "a"], [3, "c"]]})],
         ["int-nonmonotonic-send"]),
        # Between the operations of one process.
        ([*BASE, *poll(2, {"x": [[1, "a"]]}), *poll(2, {"x": [[3, "c"]]})], ["poll-skip"]),
        ([*BASE, *poll(2, {"x": [[2, "b"]]}), *poll(2, {"x": [[2, "b"]]})], ["nonmonotonic-poll"]),
        ([*BASE, *poll(2, {"x": [[1, "a"]]}), *poll(3, {"x": [[3, "c"]]})], []),
        ([*send(1, ("x", 3, "c")), *send(1, ("x", 1, "a")), *poll(2, {"x": [[1, "a"], [3, "c"]]})],
         ["nonmonotonic-send"]),
        # Whoever takes other keys starts anew; whoever keeps the key does not.
        ([*BASE, *poll(2, {"x": [[3, "c"]]}), *own(2, "assign", ["y"]),
          *poll(2, {"x": [[1, "a"]]})], []),
        ([*BASE, *poll(2, {"x": [[3, "c"]]}), *own(2, "subscribe", ["y"], "info"),
          *poll(2, {"x": [[1, "a"]]})], []),
        ([*BASE, *poll(2, {"x": [[3, "c"]]}), *own(2, "assign", ["y"], "fail"),
          *poll(2, {"x": [[1, "a"]]})], ["nonmonotonic-poll"]),
        ([*BASE, *poll(2, {"x": [[3, "c"]]}), *own(2, "assign", ["x", "y"]),
          *poll(2, {"x": [[1, "a"]]})], ["nonmonotonic-poll"]),
        # Transactions that do not commit are rewound.
        ([*BASE, *poll(2, {"x": [[1, "a"]]}), *poll(2, {"x": [[2, "b"]]}, "fail", "txn"),
          *poll(2, {"x": [[2, "b"]]}, "info", "txn"), *poll(2, {"x": [[2, "b"]]})], []),
        ([*BASE, *poll(2, {"x": [[1, "a"]]}), *poll(2, {"x": [[2, "b"]]}, "fail", "txn"),
          *poll(2, {"x": [[3, "c"]]}, "info", "txn")], ["poll-skip"]),
        # Two transactions that polled each other's sends.
        ([(0, "invoke", "txn", [["send", "x", 1], ["poll"]]),
          (1, "invoke", "txn", [["send", "y", 2], ["poll"]]),
          (0, "ok", "txn", [["send", "x", [0, 1]], ["poll", {"y": [[0, 2]]}]]),
          (1, "ok", "txn", [["send", "y", [0, 2]], ["poll", {"x": [[0, 1]]}]])],
         ["G1c", "PL-2-cycle-exists"]),
        # Polled before it was sent.
        ([*send(1, ("x", 0, "a")), *poll(2, {"x": [[0, "a"], [1, "b"]]}),
          *send(3, ("x", "b"), kind="info")], ["G1c-realtime", "strong-PL-2-cycle-exists"]),
    ],
)  # fmt: skip
def test_each_error_by_its_smallest_history(judge: Any, rows: list[Any], bad: list[str]) -> None:
    report = judge("kafka", rows)
    assert report.details["bad-error-types"] == bad
    assert report.result.valid is (not bad)
    assert [anomaly.type for anomaly in report.result.anomalies] == bad


def test_sends_of_several_producers_interleave(judge: Any) -> None:
    rows = [
        *send(1, ("x", 1, "a"), ("x", "c")),
        *send(2, ("x", "b"), kind="info"),
        *poll(3, {"x": [[1, "a"], [2, "b"], [3, "c"]]}),
    ]
    report = judge("kafka", rows)
    assert (report.details["error-types"], report.result.valid) == (["int-send-skip"], True)


def test_subscribers_may_skip_between_operations(judge: Any) -> None:
    rows = [*BASE, *poll(2, {"x": [[1, "a"]]}), *poll(2, {"x": [[3, "c"]]})]
    assert judge("kafka", rows, sub_via=["subscribe"]).result.valid is True
    assert judge("kafka", rows, sub_via=["assign"]).result.valid is False


def test_a_rebalanced_key_may_jump_inside_an_operation(judge: Any) -> None:
    rows = [*BASE, *poll(2, {"x": [[3, "c"], [1, "a"]]})]
    assert judge("kafka", rows).result.valid is False


def test_write_dependencies_count_when_asked(judge: Any) -> None:
    crossed = [
        (0, "invoke", "txn", []), (1, "invoke", "txn", []),
        (0, "ok", "txn", [["send", "x", [0, 1]], ["send", "y", [1, 2]]]),
        (1, "ok", "txn", [["send", "x", [1, 3]], ["send", "y", [0, 4]]]),
        *poll(2, {"x": [[0, 1], [1, 3]], "y": [[0, 4], [1, 2]]}),
    ]  # fmt: skip
    assert "G0" not in judge("kafka", crossed).details["error-types"]
    report = judge("kafka", crossed, ww_deps=True)
    assert "G0" in report.details["error-types"]
    assert report.result.valid is True


def test_circles_of_reads_are_allowed_once_writes_count(judge: Any) -> None:
    rows = [
        (0, "invoke", "txn", [["send", "x", 1], ["poll"]]),
        (1, "invoke", "txn", [["send", "y", 2], ["poll"]]),
        (0, "ok", "txn", [["send", "x", [0, 1]], ["poll", {"y": [[0, 2]]}]]),
        (1, "ok", "txn", [["send", "y", [0, 2]], ["poll", {"x": [[0, 1]]}]]),
    ]
    assert judge("kafka", rows).result.valid is False
    assert judge("kafka", rows, ww_deps=True).result.valid is True


def test_nothing_that_depends_on_anything_proves_nothing(judge: Any) -> None:
    report = judge("kafka", [(0, "invoke", "poll", ASKED), (0, "ok", "poll", [["poll", {}]])])
    assert report.result.valid == "unknown"
    assert report.details["error-types"] == ["empty-transaction-graph"]


def test_the_worst_lag_is_the_longest_time_behind(judge: Any) -> None:
    rows = [*send(1, ("x", 0, "a")), *send(1, ("x", 1, "b")), *poll(2, {"x": [[0, "a"]]})]
    worst = judge("kafka", [*rows, *poll(2, {"x": [[1, "b"]]})]).details["worst-realtime-lag"]
    assert worst == {"time": 4_000_000, "process": 2, "key": "x", "lag": 1_000_000}


def test_keys_are_the_same_as_numbers_and_as_text(judge: Any) -> None:
    rows = [*send(1, (7, 0, "a")), *poll(2, {"7": [[0, "a"]]})]
    assert judge("kafka", rows).details["error-types"] == []
