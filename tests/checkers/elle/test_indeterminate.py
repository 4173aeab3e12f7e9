"""Transactions that may have happened: ``info`` completions and invocations without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.histories.operation import Op

Build = Callable[[Sequence[tuple[Any, ...]]], list[Op]]

SEEN_IN_PART: list[tuple[Any, ...]] = [("begin", 0, "a04 a05"), (1, "r0[5]")]
ENDS: list[list[tuple[Any, ...]]] = [[], [("end", 0, "a04 a05", "info")]]


@pytest.mark.parametrize("end", ENDS, ids=["no completion", "info"])
@pytest.mark.parametrize("model", ["serializable", "strict-serializable"])
def test_append_missing_beside_a_visible_one_is_an_anomaly(
    build: Build, end: list[tuple[Any, ...]], model: str
) -> None:
    ops = build([*SEEN_IN_PART, *end])
    result = check_transactions(ops, "list-append", consistency_models=[model])
    assert result.valid is False
    assert result.stats["elle"]["anomaly-types"] == ["G-single-item"]
    assert result.stats["elle"]["not"] == ["consistent-view", "repeatable-read"]


@pytest.mark.parametrize("end", [[], [("end", 0, "ax1", "info")]], ids=["no completion", "info"])
def test_append_that_no_read_shows_may_not_have_happened(
    build: Build, end: list[tuple[Any, ...]]
) -> None:
    ops = build([("begin", 0, "ax1"), (1, "rx_"), (1, "rx_ ax2"), (1, "rx[2]"), *end])
    assert check_transactions(ops, "list-append").valid is True


SKEW: list[tuple[Any, ...]] = [
    ("begin", 0, "rx_ ax1"),
    ("begin", 1, "rx_ ax2"),
    ("end", 0, "rx[] ax1", "info"),
    ("end", 1, "rx[] ax2"),
]


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ([], "unknown"),
        # It did not happen, as far as this read shows.
        ([(2, "rx[2]")], "unknown"),
        # Its append was read by a committed transaction, so its own read counts.
        ([(2, "rx[1,2]")], False),
        ([(2, "rx[2,1]")], False),
        # By one that may have aborted itself: neither is known to have committed.
        ([("begin", 2, "rx_"), ("end", 2, "rx[2,1]", "info")], "unknown"),
        # By one that may have aborted, but whose append was read by a committed one.
        ([("begin", 2, "rx_ ay1"), ("end", 2, "rx[2,1] ay1", "info"), (3, "ry[1]")], False),
        # Its own read of its append shows nothing.
        ([("begin", 3, "ay5 ry_"), ("end", 3, "ay5 ry[5]", "info")], "unknown"),
    ],
)
def test_reads_of_an_indeterminate_transaction_count_once_it_is_known_to_have_committed(
    build: Build, more: list[tuple[Any, ...]], valid: Any
) -> None:
    ops = build([*SKEW, *more])
    result = check_transactions(ops, "list-append", consistency_models=["serializable"])
    assert result.valid == valid
    believed = check_transactions(
        ops, "list-append", consistency_models=["serializable"], indeterminate_reads=True
    )
    assert believed.valid is False


def test_unknown_by_indeterminate_reads_names_the_reason_and_the_operations(build: Build) -> None:
    result = check_transactions(build(SKEW), "list-append")
    assert result.error is not None
    assert result.error.startswith(
        "unknown: G2-item only with the reads of transactions that may have aborted (operation 2)"
    )
    assert result.stats["elle"]["not"] == []
    assert [anomaly.type for anomaly in result.anomalies] == ["G2-item"]


@pytest.mark.parametrize(
    ("lines", "anomaly"),
    [
        ([("begin", 0, "rx_"), ("end", 0, "rx[1,1]", "info")], "duplicate-elements"),
        ([("begin", 0, "rx_"), ("end", 0, "rx[7]", "info")], "garbage-read"),
        ([("begin", 0, "rx_"), ("end", 0, "rx[2,1]", "info")], "incompatible-order"),
    ],
)
def test_no_anomaly_rests_on_indeterminate_reads_alone(
    build: Build, lines: list[tuple[Any, ...]], anomaly: str
) -> None:
    ops = build([("begin", 4, "ax1"), ("begin", 5, "ax2"), ("end", 4, "ax1"), ("end", 5, "ax2"),
                 (6, "rx[1,2]"), *lines])  # fmt: skip
    result = check_transactions(ops, "list-append")
    assert result.valid == "unknown"
    assert anomaly in result.stats["elle"]["anomaly-types"]
    assert check_transactions(ops, "list-append", indeterminate_reads=True).valid is False


def test_anomaly_among_committed_transactions_is_invalid_beside_indeterminate_reads(
    build: Build,
) -> None:
    ops = build([*SKEW, ("begin", 4, "ry_ az1"), ("begin", 5, "rz_ ay1"), ("end", 4, "ry[] az1"),
                 ("end", 5, "rz[] ay1")])  # fmt: skip
    result = check_transactions(ops, "list-append")
    assert result.valid is False
    assert len(result.anomalies) == 1


CROSSED: list[tuple[Any, ...]] = [
    ("begin", 0, "ax1 ay2"),
    ("begin", 1, "ax2 ay1"),
    ("end", 0, "ax1 ay2"),
    ("end", 1, "ax2 ay1"),
    (2, "ry[1,2]"),
]


@pytest.mark.parametrize("reads", [("rx[1,2]", "rx[2,1]"), ("rx[2,1]", "rx[1,2]")])
@pytest.mark.parametrize(
    ("model", "valid", "weakest"),
    [
        ("read-uncommitted", "unknown", ["read-committed"]),
        ("read-committed", False, ["read-committed"]),
        ("strict-serializable", False, ["read-committed"]),
    ],
)
def test_verdict_does_not_depend_on_which_of_two_longest_reads_comes_first(
    build: Build, reads: tuple[str, str], model: str, valid: Any, weakest: list[str]
) -> None:
    ops = build([*CROSSED, *enumerate(reads, 3)])
    result = check_transactions(ops, "list-append", consistency_models=[model])
    assert result.valid == valid
    assert result.stats["elle"]["not"] == weakest
    if valid == "unknown":
        assert result.error is not None
        assert "the longest reads of a key contradict each other" in result.error


def test_longest_reads_that_contradict_each_other_leave_their_common_prefix(build: Build) -> None:
    # Process 1 reads [1] of x, so it comes before both of the others, and what 2 did to y.
    lines = [(0, "ax1"), ("begin", 1, "rx_ ry_"), ("begin", 2, "ax2 ay9"), ("begin", 3, "ax3"),
             ("end", 1, "rx[1] ry[9]"), ("end", 2, "ax2 ay9"), ("end", 3, "ax3"),
             (4, "rx[1,2,3]"), (5, "rx[1,3,2]")]  # fmt: skip
    result = check_transactions(build(lines), "list-append")
    assert result.stats["elle"]["anomaly-types"] == ["G-single-item", "incompatible-order"]
