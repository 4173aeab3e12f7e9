"""rw-register: every anomaly is found in a history that holds it, and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.histories.operation import Op

Lines = Sequence[tuple[Any, ...]]
Build = Callable[[Lines], list[Op]]


def at_once(*texts: str) -> Lines:
    """Transactions that all begin before any of them ends."""
    begun = [("begin", process, text) for process, text in enumerate(texts)]
    return [*begun, *(("end", process, text) for process, text in enumerate(texts))]


BROKEN: list[tuple[str, Lines, list[str], list[str]]] = [
    ("G1a", [(0, "wx1", "fail"), (1, "rx1")], [], ["read-committed"]),
    ("G1b", at_once("wx1 wx2", "rx1"), [], ["read-committed"]),
    ("G1c", at_once("wx1 ry1", "wy1 rx1"), [], ["read-committed"]),
    ("internal", [(0, "wx1"), (1, "rx1 rx2"), (2, "wx2")], [], ["read-atomic"]),
    ("internal", at_once("wx1 rx_", "rx1"), [], ["read-atomic"]),
    (
        "G-single-item",
        at_once("wx1 wy1", "rx_ ry1"),
        [],
        ["consistent-view", "repeatable-read"],
    ),
    ("G2-item", at_once("rx_ wy1", "ry_ wx1"), [], ["repeatable-read"]),
    (
        "G-nonadjacent-item",
        at_once("wx1", "wy1", "rx1 ry_", "ry1 rx_"),
        [],
        ["repeatable-read", "snapshot-isolation"],
    ),
    ("lost-update", [(0, "wx1"), *at_once("rx1 wx2", "rx1 wx3")], [],
     ["cursor-stability", "update-atomic"]),
    ("G0", [(0, "wx1"), *at_once("rx1 wx2 ry4 wy5", "rx2 wx3 ry3 wy4"), (1, "wy3")],
     ["wfr_keys"], ["read-uncommitted"]),
    ("cyclic-versions", at_once("rx1 wx2", "rx2 wx1"), ["wfr_keys"], ["read-uncommitted"]),
    ("cyclic-versions", [(0, "wx1"), (0, "wx2"), (1, "rx2"), (1, "rx1")],
     ["sequential_keys"], ["read-uncommitted"]),
    ("cyclic-versions", [(0, "wx1"), (1, "wx2"), (2, "rx1")],
     ["linearizable_keys"], ["read-uncommitted"]),
    ("cyclic-versions", [*at_once("wx1", "wx2"), (2, "rx2"), (3, "rx1")],
     ["linearizable_keys"], ["read-uncommitted"]),
    ("G-single-item-realtime", [(0, "wx1"), (1, "rx_")], [], ["strong-snapshot-isolation"]),
    ("G1c-realtime", [(0, "rx1"), (1, "wx1")], [], ["strong-read-committed"]),
    ("garbage-read", [(0, "rx7"), (1, "wx1")], [], ["read-committed"]),
    ("garbage-read", at_once("wx1 ry7", "wy1 rx1"), [], ["read-committed"]),
    ("future-read", [(0, "rx1 wx1")], [], ["read-committed"]),
    ("future-read", [(0, "rx_ rx1 wx1")], [], ["read-committed"]),
    ("future-read", [(0, "rx1 wx1 wx2"), (1, "rx2")], [], ["read-committed"]),
    # Beside a cycle of others, with the transaction that read its own write on it.
    ("future-read", at_once("rx1 wx1 ry_", "wy2 rx_"), [], ["read-committed"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines", "assumed", "weakest"), BROKEN)
def test_an_anomaly_is_found_named_and_refutes_its_models(
    build: Build, name: str, lines: Lines, assumed: list[str], weakest: list[str]
) -> None:
    options: dict[str, Any] = dict.fromkeys(assumed, True)
    result = check_transactions(build(lines), "rw-register", **options)
    assert result.valid is False
    assert name in result.stats["elle"]["anomaly-types"]
    assert result.stats["elle"]["not"] == weakest
    told = [anomaly for anomaly in result.anomalies if anomaly.type == name]
    assert told
    assert all(len(anomaly.explanation) > 20 for anomaly in told)


@pytest.mark.parametrize("model", ["read-committed", "snapshot-isolation", "serializable"])
@pytest.mark.parametrize("lines", [[(0, "rx7"), (1, "wx1")], at_once("rx1 wx1 ry_", "wy2 rx_")])
def test_impossible_reads_break_every_model_from_read_committed_on(
    build: Build, lines: Lines, model: str
) -> None:
    ops = build(lines)
    assert check_transactions(ops, "rw-register", consistency_models=[model]).valid is False
    alone = check_transactions(ops, "rw-register", consistency_models=[], anomalies=["G1"])
    assert alone.valid is False


@pytest.mark.parametrize(
    "lines",
    [
        # The value is another transaction's, which may have happened.
        at_once("rx1 ry_", "wx1 ry_"),
        [("begin", 0, "wx1"), (1, "rx1")],
        [("begin", 0, "wx1"), (1, "rx1"), ("end", 0, "wx1", "info")],
        # The completion does not repeat what the invocation asked for.
        [("begin", 0, "wx1"), (1, "rx1"), ("end", 0, "", "info")],
        # Two may have written the same value: the reader itself, and one without an answer.
        [("begin", 0, "wx1"), (1, "rx1 wx1"), ("end", 0, "wx1", "info")],
        [(0, "wx1 rx1"), (1, "rx1")],
    ],
)
def test_reads_of_values_that_may_have_been_written_are_no_anomaly(
    build: Build, lines: Lines
) -> None:
    result = check_transactions(build(lines), "rw-register", consistency_models=["serializable"])
    assert result.valid is not False


STALE: Lines = [(0, "wx1"), (0, "wx2"), (1, "rx1")]


def test_stale_read_is_found_only_with_linearizable_keys(build: Build) -> None:
    ops = build(STALE)
    assert check_transactions(ops, "rw-register").valid is True
    assert check_transactions(ops, "rw-register", linearizable_keys=True).valid is False


def test_stale_read_of_the_initial_state_is_found_without_options(build: Build) -> None:
    assert check_transactions(build([(0, "wx1"), (1, "rx_")]), "rw-register").valid is False


def test_a_history_that_happened_one_after_the_other_is_valid(build: Build) -> None:
    lines = [
        (0, "rx_ ry_"), (0, "wx1 rx1 wx2"), (1, "rx2 wy1"), (2, "wx3", "fail"),
        (3, "wx4", "info"), (4, "rx4 ry1"), (0, "wy2 ry2"),
    ]  # fmt: skip
    assumed: dict[str, Any] = {"wfr_keys": True, "sequential_keys": True, "linearizable_keys": True}
    nothing: dict[str, Any] = {}
    for options in (nothing, assumed):
        assert check_transactions(build(lines), "rw-register", **options).valid is True


def test_without_assumptions_versions_are_not_ordered(build: Build) -> None:
    stale = build([(0, "wx1"), (1, "wx2"), (2, "rx1")])
    assert check_transactions(stale, "rw-register").valid is True
    assert check_transactions(stale, "rw-register", linearizable_keys=True).valid is False


def test_an_order_of_transactions_that_is_known_orders_their_versions(build: Build) -> None:
    lines = build(at_once("rx_ wy2", "wx3 wy4"))
    assert check_transactions(lines, "rw-register", consistency_models=["PL-3"]).valid is True
    result = check_transactions(
        lines, "rw-register", consistency_models=["PL-3"], transaction_order={2: 2, 3: 1}
    )
    assert result.stats["elle"]["anomaly-types"] == ["G-single-item"]


def test_cyclic_versions_name_their_sources(build: Build) -> None:
    lines = build(at_once("rx1 wx2", "rx2 wx1"))
    result = check_transactions(lines, "rw-register", wfr_keys=True)
    (case,) = result.stats["elle"]["anomalies"]["cyclic-versions"]
    assert case["key"] == "x"
    assert sorted(case["scc"]) == [1, 2]
    assert case["sources"] == ["initial-state", "wfr-keys"]


def test_a_step_shows_the_versions_and_where_they_are(build: Build) -> None:
    result = check_transactions(build(at_once("wx1 wy1", "rx_ ry1")), "rw-register")
    (cycle,) = result.stats["elle"]["anomalies"]["G-single-item"]
    assert {"type": "rw", "key": "x", "value": None, "value'": 1,
            "a-mop-index": 0, "b-mop-index": 0} in cycle["steps"]  # fmt: skip
    assert {"type": "wr", "key": "y", "value": 1, "a-mop-index": 1, "b-mop-index": 1} in (
        cycle["steps"]
    )


def test_nothing_is_inferred_from_null_where_null_is_written(build: Build) -> None:
    assumed: dict[str, Any] = {"wfr_keys": True, "linearizable_keys": True}
    lines = build([(0, "rx_ wx1"), (1, "rx1 wx_"), (2, "rx_ wx2"), (0, "rx2 wx_"), (1, "rx_")])
    assert check_transactions(lines, "rw-register", **assumed).valid is True
    stale = build([(0, "rx_ wx1"), (1, "rx1 wx_"), (2, "rx1")])
    assert check_transactions(stale, "rw-register").valid is True


def test_two_writers_of_a_value_that_was_read_are_refused(build: Build) -> None:
    with pytest.raises(TransactionError, match="operations 1 and 3 both wrote 1 to key 'x'"):
        check_transactions(build([(0, "wx1"), (1, "wx1"), (2, "rx1")]), "rw-register")
    assert check_transactions(build([(0, "wx1"), (1, "wx1"), (2, "rx_")]), "rw-register")
