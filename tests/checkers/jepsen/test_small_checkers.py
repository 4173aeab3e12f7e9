"""Queues, ids, counters, banks, forks, orders and statistics: each rule, and what breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.histories.tables import HistoryError

E1 = (1, "invoke", "enqueue", 1)


@pytest.mark.parametrize(
    ("rows", "valid"),
    [
        ([], True),
        ([E1], True),
        ([(1, "ok", "enqueue", 1)], True),
        ([(2, "invoke", "dequeue", None), E1, (2, "ok", "dequeue", 1)], True),
        ([(1, "ok", "dequeue", 1)], False),
        ([E1, (2, "ok", "dequeue", 1), (2, "ok", "dequeue", 1)], False),
        ([E1, (2, "ok", "drain", [1])], True),
        ([E1, (2, "ok", "drain", [1, 1])], False),
    ],
)
def test_a_queue_returns_enqueued_elements_only(judge: Any, rows: list[Any], valid: bool) -> None:
    assert judge("queue", rows).result.valid is valid


def test_a_fifo_queue_keeps_the_order(judge: Any) -> None:
    rows = [E1, (1, "invoke", "enqueue", 2), (2, "ok", "dequeue", 2)]
    assert judge("queue", rows).result.valid is True
    assert judge("queue", rows, order="fifo").details["error"] == "can't dequeue 2"


def test_a_total_queue_counts_copies(judge: Any, done: Any) -> None:
    sane = [E1, *done(2, "enqueue", 2), *done(3, "dequeue", None, 1), *done(3, "dequeue", None, 2)]
    details = judge("total-queue", sane).details
    assert (details["valid?"], details["recovered"], details["recovered-count"]) == (
        True,
        {"1": 1},
        1,
    )
    bad = [
        *done(1, "enqueue", "a"),
        *done(1, "enqueue", "a"),
        *done(1, "enqueue", "b"),
        *done(2, "dequeue", None, "a"),
        *done(2, "dequeue", None, "a"),
        *done(2, "dequeue", None, "a"),
        *done(2, "dequeue", None, "x"),
    ]
    report = judge("total-queue", bad)
    assert report.result.valid is False
    assert report.details["lost"] == {"b": 1}
    assert report.details["duplicated"] == {"a": 1}
    assert report.details["unexpected"] == {"x": 1}


def test_a_duplicate_alone_is_reported_and_allowed(judge: Any, done: Any) -> None:
    rows = [*done(1, "enqueue", 1), *done(2, "dequeue", None, 1), *done(2, "dequeue", None, 1)]
    report = judge("total-queue", rows)
    assert (report.result.valid, report.details["duplicated-count"]) == (True, 1)


def test_a_drain_takes_all_and_one_that_broke_off_may_have(judge: Any, done: Any) -> None:
    put = [*done(1, "enqueue", 1), *done(1, "enqueue", 2)]
    assert judge("total-queue", [*put, *done(1, "drain", None, [2, 1])]).result.valid is True
    assert judge("total-queue", put).result.valid is False
    broken = [*put, (1, "invoke", "drain", None), (1, "info", "drain", None)]
    assert judge("total-queue", broken).result.valid == "unknown"


def test_ids_are_unique(judge: Any, done: Any) -> None:
    empty = judge("unique-ids", []).details
    assert (empty["valid?"], empty["range"]) == (True, [None, None])
    twice = [*done(0, "generate", None, "a"), *done(1, "generate", None, "a")]
    assert judge("unique-ids", twice).details["duplicated"] == {"a": 2}
    rows = [row for value in (0, 1, 0, 0) for row in done(0, "generate", None, value)]
    rows += [(4, "invoke", "generate", None), (4, "info", "generate", None)]
    assert judge("unique-ids", rows).details == {
        "valid?": False,
        "attempted-count": 5,
        "acknowledged-count": 4,
        "duplicated-count": 1,
        "duplicated": {"0": 3},
        "range": [0, 1],
    }


@pytest.mark.parametrize(
    ("rows", "reads", "errors"),
    [
        ([], [], []),
        ([(0, "invoke", "read", None), (0, "ok", "read", 1)], [[0, 1, 0]], [[0, 1, 0]]),
        (
            [
                (0, "invoke", "add", 1),
                (0, "fail", "add", 1),
                (0, "invoke", "read", None),
                (0, "ok", "read", 0),
            ],
            [[0, 0, 0]],
            [],
        ),
        (
            [
                (0, "invoke", "add", 1),
                (0, "info", "add", 1),
                (1, "invoke", "read", None),
                (1, "ok", "read", 1),
                (1, "invoke", "read", None),
                (1, "ok", "read", 2),
            ],
            [[0, 1, 1], [0, 2, 1]],
            [[0, 2, 1]],
        ),
        (
            [
                (0, "invoke", "read", None),
                (1, "invoke", "add", 1),
                (0, "ok", "read", 0),
                (0, "invoke", "read", None),
                (1, "ok", "add", 1),
                (1, "invoke", "add", 2),
                (0, "ok", "read", 3),
                (0, "invoke", "read", None),
                (1, "ok", "add", 2),
                (0, "ok", "read", 5),
            ],
            [[0, 0, 1], [0, 3, 3], [1, 5, 3]],
            [[1, 5, 3]],
        ),
        # What Jepsen's own does not take: the counter may go down.
        (
            [
                (0, "invoke", "add", 5),
                (0, "ok", "add", 5),
                (1, "invoke", "add", -2),
                (0, "invoke", "read", None),
                (0, "ok", "read", 3),
                (1, "ok", "add", -2),
                (0, "invoke", "read", None),
                (0, "ok", "read", 5),
            ],
            [[3, 3, 5], [3, 5, 3]],
            [[3, 5, 3]],
        ),
    ],
)
def test_a_counter_stays_within_its_bounds(
    judge: Any, rows: list[Any], reads: list[Any], errors: list[Any]
) -> None:
    report = judge("counter", rows)
    assert (report.details["reads"], report.details["errors"]) == (reads, errors)
    assert report.result.valid is (not errors)


@pytest.mark.parametrize(
    ("balances", "options", "kind"),
    [
        ({"0": 7, "1": 3}, {}, None),
        ({"0": 7, "2": 3}, {}, "unexpected-key"),
        ({"0": 7, "1": None}, {}, "nil-balance"),
        ({"0": 7, "1": 4}, {}, "wrong-total"),
        ({"0": 11, "1": -1}, {}, "negative-value"),
        ({"0": 11, "1": -1}, {"negative_balances": True}, None),
        # A read of some accounts only has the wrong total.
        ({"0": 7}, {}, "wrong-total"),
    ],
)
def test_a_bank_keeps_its_money(
    judge: Any, done: Any, balances: Any, options: Any, kind: str | None
) -> None:
    rows = done(0, "read", None, balances)
    report = judge("bank", rows, accounts=[0, 1], total_amount=10, **options)
    assert report.result.valid is (kind is None)
    assert list(report.details["errors"]) == ([kind] if kind else [])


def test_a_bank_learns_accounts_and_amount_from_the_first_read(judge: Any, done: Any) -> None:
    rows = [*done(0, "read", None, {"a": 5}), *done(0, "read", None, {"a": 6})]
    report = judge("bank", rows)
    assert report.details["errors"]["wrong-total"]["highest"]["total"] == 6


def _reads(*values: list[Any]) -> list[Any]:
    return [
        row
        for value in values
        for row in (
            (0, "invoke", "read", [["r", k, None] for k in range(len(value))]),
            (0, "ok", "read", [["r", k, v] for k, v in enumerate(value)]),
        )
    ]


def test_reads_form_a_chain_or_a_fork(judge: Any) -> None:
    chain = judge("long-fork", _reads([None, None], [1, None], [1, 1]), group_size=2)
    assert chain.details == {
        "reads-count": 3,
        "early-read-count": 1,
        "late-read-count": 1,
        "valid?": True,
    }
    fork = judge("long-fork", _reads([1, None], [None, 1]))
    assert fork.details["forks"] == [[{"op-index": 1}, {"op-index": 3}]]
    assert fork.result.valid is False


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, "invoke", "write", [["w", 1, 1]])] * 2, "key 1 is written more than once"),
        (_reads([1, None, None]), "exactly 2 keys, this one saw 3"),
        (_reads([1, None], [2, None]), "has two values"),
    ],
)
def test_a_history_that_is_none_of_this_kind_proves_nothing(
    judge: Any, rows: list[Any], said: str
) -> None:
    report = judge("long-fork", rows, group_size=2)
    assert report.result.valid == "unknown"
    assert said in (report.result.error or "")


def _row(value: int, at: int, process: int = 0) -> dict[str, int]:
    return {"val": value, "sts": at, "proc": process, "node": 1, "tb": 0}


@pytest.mark.parametrize(
    ("rows", "options", "kinds"),
    [
        ([_row(1, 10), _row(2, 20)], {}, []),
        ([_row(1, 20), _row(2, 10)], {}, ["order-by-errors"]),
        ([_row(2, 10, 0), _row(1, 20, 1)], {}, ["value-reorders"]),
        ([_row(2, 10, 0), _row(1, 20, 1)], {"global": False}, []),
        ([_row(2, 10), _row(1, 20)], {"global": False}, ["value-reorders-per-process"]),
        ([_row(1, 10)], {}, ["lost"]),
        ([_row(1, 10), _row(2, 20), _row(3, 30)], {}, ["revived"]),
        ([_row(1, 10), _row(1, 10), _row(2, 30)], {"global": False}, ["duplicates"]),
    ],
)
def test_rows_grow_in_time(
    judge: Any, done: Any, rows: list[Any], options: Any, kinds: list[str]
) -> None:
    history = [*done(0, "add", _row(1, 10)), *done(0, "add", _row(2, 20))]
    history += [(5, "invoke", "add", _row(3, 0)), (5, "fail", "add", _row(3, 0))]
    report = judge("monotonic", [*history, *done(1, "read", None, rows)], **options)
    told = [anomaly.type for anomaly in report.result.anomalies]
    if "duplicates" in kinds:
        assert "duplicates" in told
    else:
        assert told == kinds


def test_numbers_grow_per_process_or_for_all(judge: Any, done: Any) -> None:
    rows = [*done(0, "read", None, 2), *done(1, "read", None, 1)]
    assert judge("monotonic", rows).result.valid is True
    assert judge("monotonic", rows, linearizable=True).result.valid is False
    assert judge("monotonic", [*rows, *done(0, "read", None, 1)]).result.valid is False


def test_parts_are_seen_in_the_order_they_were_written(judge: Any, done: Any) -> None:
    good = [*done(0, "read", None, ["k", [None, "k_0"]]), *done(0, "read", None, ["k", [None]])]
    details = judge("sequential", good, key_count=1).details
    assert (details["valid?"], details["some-count"], details["none-count"]) == (True, 2, 1)
    bad = judge("sequential", done(0, "read", None, ["k", ["k_1", None]]))
    assert (bad.result.valid, bad.details["bad-count"]) == (False, 1)


def test_a_read_that_sees_a_write_sees_earlier_writes(judge: Any, done: Any) -> None:
    writes = [*done(0, "write", 1), *done(0, "write", 2)]
    assert judge("causal-reverse", [*writes, *done(0, "read", None, [1])]).result.valid is True
    report = judge("comments", [*writes, *done(0, "read", None, [2])])
    assert report.details["errors"] == [{"op-index": 5, "missing": [1], "expected-count": 1}]
    at_once = [
        (0, "invoke", "write", 2),
        (0, "invoke", "write", 1),
        (0, "ok", "write", 1),
        (0, "ok", "write", 2),
        *done(0, "read", None, [2]),
    ]
    assert judge("causal-reverse", at_once).result.valid is True


def test_statistics_ask_for_one_success_of_each_kind(judge: Any) -> None:
    rows = [
        (1, "ok", "foo", None),
        (2, "fail", "foo", None),
        (3, "info", "bar", None),
        (4, "fail", "bar", None),
    ]
    details = judge("stats", rows).details
    assert (details["valid?"], details["count"], details["ok-count"]) == (False, 4, 1)
    assert details["by-f"]["bar"] == {
        "valid?": False,
        "count": 2,
        "ok-count": 0,
        "fail-count": 1,
        "info-count": 1,
    }


def test_independent_keys_are_judged_apart(judge: Any, done: Any) -> None:
    rows = [
        *done(0, "add", ["a", 1]),
        *done(0, "add", ["b", 1]),
        *done(0, "read", ["a", None], ["a", [1]]),
        (0, "invoke", "read", ["b", None]),
        (0, "ok", "read", ["b", []]),
    ]
    report = judge("set", rows, independent=True)
    assert report.details["failures"] == ['"b"']
    assert report.details["results"]['"a"']["valid?"] is True


@pytest.mark.parametrize(
    ("model", "row", "said"),
    [
        ("counter", (0, "ok", "read", "x"), "field value of 'read' must be a whole number"),
        ("counter", (0, "invoke", "add", None), "field value of 'add' must be a whole number"),
        ("set", (0, "ok", "read", 3), "must be a list of elements, got 3"),
        ("bank", (0, "ok", "read", [1]), "must be a map of accounts"),
        ("sequential", (0, "ok", "read", 1), "must be \\[key"),
        ("kafka", (0, "ok", "poll", [["poll", {"x": [3]}]]), "must hold pairs"),
        ("kafka", (0, "ok", "txn", [["w", 1, 2]]), "must be a list of"),
    ],
)
def test_values_of_another_shape_are_refused_by_place_and_field(
    judge: Any, model: str, row: Any, said: str
) -> None:
    with pytest.raises(HistoryError, match=f"operation 0: .*{said}"):
        judge(model, [row])
