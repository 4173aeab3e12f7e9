"""The smallest parts without an order, right at the sizes up to which they are looked for."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.linearizability.decide import check
from kraftwreck.checkers.linearizability.level_walk import time_left
from kraftwreck.checkers.linearizability.machines import fifo
from kraftwreck.checkers.linearizability.machines.linearizable import check_calls
from kraftwreck.checkers.linearizability.models import MODELS
from tests.checkers.rows import Row, did, done, history

CAS = MODELS["cas-register"]


@pytest.mark.parametrize(("count", "left"), [(48, 3), (49, 49)])
def test_up_to_forty_eight_operations_are_removed_one_by_one(count: int, left: int) -> None:
    # The write of 7 is still open, and can be put before the first read or the last one.
    rows: list[Row] = [(0, "invoke", "write", 7), (1, "invoke", "write", 8), *did(2, "read", 7)]
    rows += [row for _ in range(count - 2) for row in did(2, "read", 8)]
    rows += did(2, "read", 7)
    outcome = check(CAS, pair(history(rows)))
    assert outcome.valid is False
    assert outcome.whole
    assert len(outcome.core) == left


def judged(model: str, rows: list[Row]) -> Any:
    (verdict,) = check_calls(model, {}, pair(history(rows)), 60)
    return verdict.outcome


@pytest.mark.parametrize(("count", "shown"), [(40, 40), (41, 0)])
def test_up_to_forty_calls_without_an_order_are_shown(count: int, shown: int) -> None:
    # Each addition is needed: without one, the others may have made the sum that was read.
    rows = [row for _ in range(count - 1) for row in done(0, "add", 1)]
    outcome = judged("linearizable-counter", [*rows, *done(1, "read", None, count - 2)])
    assert outcome.valid is False
    assert len(outcome.core) == shown


@pytest.mark.parametrize(("count", "shown"), [(40, 40), (41, 0)])
def test_up_to_forty_calls_that_may_have_happened_among_them_are_shown(
    count: int, shown: int
) -> None:
    rows = [row for _ in range(count + 1) for row in done(0, "add", 7)]
    outcome = judged("linearizable-set", [*rows, *done(1, "contains", 7, [7, False])])
    assert outcome.valid is False
    assert len(outcome.core) == 2
    assert len(outcome.helpers) == shown


@pytest.mark.parametrize(("count", "more"), [(6, False), (7, True)])
def test_six_values_of_a_queue_that_was_seen_empty_are_shown(count: int, more: bool) -> None:
    rows: list[Row] = [*done(0, "enqueue", 1), (9, "invoke", "dequeue", None)]
    for value in range(2, count + 1):
        rows += [*done(0, "enqueue", value), *done(1, "dequeue", None, value - 1)]
    rows += [(9, "ok", "dequeue", None), *done(1, "dequeue", None, count)]
    found = fifo.decide(pair(history(rows)))
    assert found is not None
    assert not found.valid
    names = ", ".join(map(str, range(1, min(count, 6) + 1)))
    assert f"although {names}{', …' if more else ''} was in it" in found.why


def test_late_keys_get_a_tenth_of_a_second() -> None:
    assert time_left(-1.0) == 0.1


@pytest.mark.parametrize("more", [0, 1, 2])
def test_the_longest_legal_beginning_of_a_queue_is_found(more: int) -> None:
    rows = [*done(0, "enqueue", 1), *done(0, "enqueue", 2), *done(1, "dequeue", None, 2)]
    rows += [row for value in range(more) for row in done(0, "enqueue", 3 + value)]
    outcome = judged("fifo-queue", rows)
    assert outcome.valid is False
    assert (outcome.order, outcome.placed) == ([0, 2], 2)


def test_two_values_out_of_order_are_named_though_a_third_is_enqueued_beside_them() -> None:
    rows: list[Row] = [*done(0, "enqueue", "a"), (8, "invoke", "enqueue", "c")]
    rows += [(0, "invoke", "enqueue", "b"), (8, "ok", "enqueue", "c"), (0, "ok", "enqueue", "b")]
    for value in "bac":
        rows += done(1, "dequeue", None, value)
    found = fifo.decide(pair(history(rows)))
    assert found is not None
    assert found.why == "'a' was enqueued before 'b', but was dequeued after it"


@pytest.mark.parametrize(("count", "valid"), [(1, True), (2, False)])
def test_a_dequeue_of_unknown_answer_takes_one_element(count: int, valid: bool) -> None:
    rows = [row for value in range(count) for row in done(0, "enqueue", value)]
    rows += [(9, "invoke", "dequeue", None), (9, "info", "dequeue", None)]
    assert judged("unordered-queue", [*rows, *done(1, "dequeue", None, None)]).valid is valid
