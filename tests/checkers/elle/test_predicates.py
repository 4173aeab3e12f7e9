"""Transactions with predicate reads: seen and unseen objects, and the dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.predicates import DEAD, UNBORN, matches
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.histories.operation import Op, OpType

INIT: tuple[int, str, Any] = (0, "init", {"x": 0, "y": 0})


def history(*lines: tuple[int, str, Any]) -> list[Op]:
    """Each (process, f, value) committed before the next began."""
    ops: list[Op] = []
    for process, f, value in lines:
        kinds: tuple[OpType, ...] = ("invoke", "ok")
        for kind in kinds:
            at = len(ops)
            ops.append(Op(index=at, process=process, type=kind, f=f, value=value, time=at))
    return ops


def found(ops: Sequence[Op], model: str = "serializable") -> dict[str, Any]:
    result = check_transactions(ops, "closed-predicate", consistency_models=[model])
    for anomaly in result.anomalies:
        assert len(anomaly.explanation) > 20
    elle: dict[str, Any] = result.stats["elle"]
    return elle


def test_predicates_match_versions_that_are_there() -> None:
    assert matches("true", 3)
    assert matches(["=", 3], 3)
    assert not matches(["=", 3], 4)
    assert matches(["mod", 2, 1], 3)
    assert not matches("true", UNBORN)
    assert not matches("true", DEAD)
    with pytest.raises(TransactionError, match="no predicate is written 'odd'"):
        matches("odd", 1)


def test_one_after_the_other_is_valid() -> None:
    lines = history(
        INIT,
        (1, "txn", [["rp", "true", {"x": 0, "y": 0}], ["delete", "x"]]),
        (2, "txn", [["rp", "true", {"y": 0}], ["insert", "z", 5], ["r", "x", None]]),
        (1, "txn", [["rp", ["mod", 5, 0], {"y": 0, "z": 5}], ["w", "y", 7]]),
        (2, "txn", [["rp", ["=", 7], {"y": 7}]]),
    )
    assert found(lines, "strict-serializable") == {"valid?": True}


def test_two_that_see_each_others_writes_are_circular() -> None:
    result = found(history(
        (0, "txn", [["w", "x", 1], ["rp", "true", {"y": 2}]]),
        (1, "txn", [["w", "y", 2], ["rp", "true", {"x": 1}]]),
    ))  # fmt: skip
    assert result["anomaly-types"] == ["G1c"]
    assert result["not"] == ["read-committed"]
    assert {step["type"] for step in result["anomalies"]["G1c"][0]["steps"]} == {"wrp"}


def test_predicate_reads_see_deletes_by_missing_objects() -> None:
    result = found(history(
        INIT,
        (0, "txn", [["delete", "x"], ["rp", "true", {}]]),
        (1, "txn", [["delete", "y"], ["rp", "true", {}]]),
    ))  # fmt: skip
    assert result["anomaly-types"] == ["G1c"]


def test_two_phantoms_make_a_cycle_that_repeatable_read_allows() -> None:
    lines = history(
        INIT,
        (0, "txn", [["rp", ["=", 1], {}], ["w", "x", 1]]),
        (1, "txn", [["rp", ["=", 1], {}], ["w", "y", 1]]),
    )
    result = found(lines)
    assert result["anomaly-types"] == ["G2"]
    assert result["not"] == ["serializable"]
    assert found(lines, "repeatable-read") == {"valid?": True}
    strict = found(lines, "strict-serializable")
    assert strict["anomaly-types"] == ["G-single-realtime", "G2"]
    assert strict["not"] == ["serializable", "strong-snapshot-isolation"]


def test_reads_of_objects_make_item_cycles() -> None:
    result = found(history(
        (0, "init", {"x": 0, "z": 0}),
        (0, "txn", [["delete", "x"], ["insert", "y", 1]]),
        (1, "txn", [["r", "y", 1], ["r", "z", None]]),
    ))  # fmt: skip
    assert result["anomaly-types"] == ["G-single-item"]
    assert result["not"] == ["consistent-view", "repeatable-read"]


def test_an_object_that_always_matches_must_be_returned() -> None:
    result = found(history(INIT, (1, "txn", [["rp", "true", {"x": 0}]])))
    assert "predicate-read-miss" in result["anomaly-types"]
    (case,) = result["anomalies"]["predicate-read-miss"]
    assert case["key"] == "y"
    assert case["versions"] == [0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([["append", "x", 1]], "operation 0: no micro-operation is"),
        ([["w", "x", 1], ["w", "y", 1]], "operation 3 writes 1 to key 'x', as another did"),
    ],
)
def test_unsupported_operations_are_refused(value: Any, message: str) -> None:
    with pytest.raises(TransactionError, match=message):
        found(history((0, "txn", value), (1, "txn", value)))


@pytest.mark.parametrize("read", [["r", "x", 7], ["rp", "true", {"x": 7, "y": 0}]])
def test_committed_reads_of_aborted_writes_are_found(read: list[Any]) -> None:
    ops = history(INIT, (1, "txn", [["w", "x", 7]]), (2, "txn", [read]))
    assert found(ops, "read-committed") == {"valid?": True}
    ops[3] = msgspec.structs.replace(ops[3], type="fail")
    result = found(ops, "read-committed")
    assert "G1a" in result["anomaly-types"]
    assert result["not"] == ["read-committed"]
    (case,) = result["anomalies"]["G1a"]
    assert (case["op"]["index"], case["mop"], case["writer"]["index"]) == (5, read, 3)
    ops[3] = msgspec.structs.replace(ops[3], type="info")
    assert found(ops, "read-committed") == {"valid?": True}


def test_a_history_without_any_dependency_is_unknown() -> None:
    result = found(history((0, "init", {}), (1, "txn", [["r", "x", None]])), "read-committed")
    assert result["valid?"] == "unknown"
    assert result["anomaly-types"] == ["empty-transaction-graph"]


@pytest.mark.parametrize("read", [["r", "x", 7], ["rp", ["=", 7], {"x": 7}]])
@pytest.mark.parametrize("last", [["w", "x", 8], ["delete", "x"]])
def test_committed_reads_of_intermediate_writes_are_found(read: list[Any], last: list[Any]) -> None:
    ops = history(INIT, (1, "txn", [["w", "x", 7], last]), (2, "txn", [read]))
    result = found(ops, "read-committed")
    assert result["anomaly-types"] == ["G1b"]
    (case,) = result["anomalies"]["G1b"]
    assert (case["op"]["index"], case["mop"], case["writer"]["index"]) == (5, read, 3)
    assert found(ops, "read-uncommitted") == {"valid?": True}


def test_reads_of_own_and_of_final_writes_are_clean() -> None:
    own = history(
        INIT,
        (1, "txn", [["w", "x", 7], ["r", "x", 7], ["w", "x", 8]]),
        (2, "txn", [["r", "x", 8]]),
    )
    assert found(own, "read-committed") == {"valid?": True}
    retried = history(
        INIT,
        (1, "txn", [["w", "x", 7]]),
        (1, "txn", [["w", "x", 7]]),
        (2, "txn", [["r", "x", 7]]),
    )
    retried[3] = msgspec.structs.replace(retried[3], type="fail")
    assert found(retried, "read-committed") == {"valid?": True}
