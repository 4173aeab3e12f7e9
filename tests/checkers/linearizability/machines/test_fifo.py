"""Queues of distinct values are sorted out: as the search says, and with an order as a proof."""

from __future__ import annotations

from typing import Any

import pytest

from bench.checkers.random_histories import machine
from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability.machines import fifo
from kraftwreck.checkers.linearizability.machines.linearizable import check_calls
from kraftwreck.checkers.linearizability.machines.models import MACHINES
from kraftwreck.checkers.linearizability.machines.search import check
from tests.checkers.rows import Row, done, history


def calls_of(rows: list[Row]) -> list[Call]:
    return pair(history(rows))


def put(process: int, value: Any) -> list[Row]:
    return done(process, "enqueue", value)


def take(process: int, value: Any) -> list[Row]:
    return done(process, "dequeue", None, value)


PROCESSES: list[tuple[list[Row], str]] = [
    (take(0, 1), "1 was dequeued, but never enqueued"),
    ([*take(0, 1), *put(0, 1)], "1 was dequeued before it was enqueued"),
    ([*put(0, 1), *take(0, 1), *take(0, 1)], "1 was dequeued twice, but enqueued once"),
    ([*put(0, 1), *put(0, 2), *take(0, 2), *take(0, 1)], "1 was enqueued before 2, but"),
    ([*put(0, 1), *put(0, 2), *take(0, 2)], "no call can have dequeued it by then"),
    ([*put(0, 1), *take(0, None)], "a dequeue saw an empty queue, although 1 was in it"),
    (
        [
            *put(0, 1),
            (3, "invoke", "dequeue", None),
            *put(0, 2), *take(0, 1), *put(0, 3), *take(0, 2),
            (3, "ok", "dequeue", None),
            *take(0, 3),
        ],
        "although 1, 2, 3 was in it at each of its moments",
    ),
    (
        [*put(0, 1), *put(0, 2), *take(0, 2), (9, "invoke", "dequeue", None)],
        "no call can have dequeued it by then",
    ),
    (
        # One dequeue of unknown answer cannot have taken both.
        [(9, "invoke", "dequeue", None), *put(0, 1), *put(0, 2), *put(0, 3), *take(0, 3)],
        "no call can have dequeued it by then",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "why"), PROCESSES)
def test_operations_without_an_order_are_named(rows: list[Row], why: str) -> None:
    found = fifo.decide(calls_of(rows))
    assert found is not None
    assert not found.valid
    assert why in found.why
    assert check(MACHINES["fifo-queue"]({}), calls_of(rows)).valid is False
    assert check(MACHINES["fifo-queue"]({}), found.window).valid is False


@pytest.mark.parametrize(
    "rows",
    [
        [*put(0, 1), *put(0, 2), *take(0, 1), *take(0, 2), *take(0, None)],
        [(9, "invoke", "dequeue", None), *put(0, 1), *put(0, 2), *take(0, 2)],
        [(9, "invoke", "enqueue", 1), *take(0, 1), *take(0, None)],
        [(9, "invoke", "enqueue", 1), *put(0, 2), *take(0, 2), *take(0, None)],
        [(9, "invoke", "dequeue", None), *put(0, 1), (9, "ok", "dequeue", None), *take(0, 1)],
        [*put(0, 1), *put(0, 2), *put(0, 3), *take(0, 1)],
    ],
)
def test_histories_with_an_order_are_valid(rows: list[Row]) -> None:
    calls = calls_of(rows)
    found = fifo.decide(calls)
    assert found is not None
    assert found.valid, found.why
    assert fifo.unproven(calls, found.order) is None


def test_histories_undecided_by_sorting_are_searched() -> None:
    same = [*put(0, 1), *put(0, 1), *take(0, 1)]
    either = [(9, "invoke", "dequeue", None), *put(0, 1), *take(0, None)]
    for rows in (same, either):
        assert fifo.decide(calls_of(rows)) is None
        (verdict,) = check_calls("fifo-queue", {}, calls_of(rows), 10)
        assert verdict.outcome.valid is True


def test_it_agrees_with_the_search() -> None:
    seen = {True: 0, False: 0}
    for number in range(600):
        calls = pair(machine("distinct-queue", 3, number))
        found = fifo.decide(calls)
        if found is None:
            continue
        assert found.valid is check(MACHINES["fifo-queue"]({}), calls).valid
        seen[found.valid] += 1
        if found.valid:
            assert fifo.unproven(calls, found.order) is None
    assert min(seen.values()) > 50, seen


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ([0, 1, 2, 3], None),
        ([0, 1, 3, 2], "dequeued another value than the first, 1"),
        ([0, 1, 2], "are missing"),
        ([1, 0, 3, 2], "ended before"),
    ],
)
def test_an_order_that_proves_nothing_is_refused(order: list[int], why: str | None) -> None:
    calls = calls_of(
        [
            *put(0, 1), *put(0, 2),
            (1, "invoke", "dequeue", None), (2, "invoke", "dequeue", None),
            (1, "ok", "dequeue", 1), (2, "ok", "dequeue", 2),
        ]
    )  # fmt: skip
    said = fifo.unproven(calls, [calls[at] for at in order])
    assert said is None if why is None else why in (said or "")


def test_a_queue_that_is_not_empty_was_not_seen_empty() -> None:
    calls = calls_of([*put(0, 1), *take(0, None)])
    assert "saw an empty queue" in (fifo.unproven(calls, calls) or "")


def long(count: int) -> list[Row]:
    """Four clients at work at the same time; the queue is never longer than a few."""
    rows: list[Row] = []
    for value in range(0, count, 2):
        rows += [(0, "invoke", "enqueue", value), (1, "invoke", "enqueue", value + 1)]
        rows += [(2, "invoke", "dequeue", None), (3, "invoke", "dequeue", None)]
        rows += [(2, "ok", "dequeue", value + 1), (0, "ok", "enqueue", value)]
        rows += [(3, "ok", "dequeue", value), (1, "ok", "enqueue", value + 1)]
    return rows


def test_long_histories_are_decided_and_the_first_impossible_moment_is_found() -> None:
    rows = long(20_000)
    (verdict,) = check_calls("fifo-queue", {}, calls_of(rows), 60)
    assert verdict.outcome.valid is True
    assert len(verdict.outcome.order) == 40_000
    at = next(i for i in range(50_000, len(rows)) if rows[i][1:3] == ("ok", "enqueue"))
    rows[at + 1 : at + 1] = take(7, None)
    rows[at + 3 : at + 3] = take(8, rows[at][3])
    (verdict,) = check_calls("fifo-queue", {}, calls_of(rows), 60)
    outcome = verdict.outcome
    assert outcome.valid is False
    assert outcome.stuck is not None
    assert outcome.stuck.completion == at + 4
    assert len(outcome.window) <= 3
    assert (outcome.placed or 0) > 20_000
