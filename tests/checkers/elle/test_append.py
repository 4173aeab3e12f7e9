"""list-append: every anomaly is found in a history that holds it, and named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.check import Options, analyze
from kraftwreck.checkers.elle.graphs import network
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.histories.operation import Op

Lines = Sequence[tuple[Any, ...]]
Build = Callable[[Lines], list[Op]]


def at_once(*texts: str) -> Lines:
    """Transactions that all begin before any of them ends."""
    begun = [("begin", process, text) for process, text in enumerate(texts)]
    return [*begun, *(("end", process, text) for process, text in enumerate(texts))]


READ_BOTH = (9, "rx[1,2] ry[1,2]")

BROKEN: list[tuple[str, Lines, list[str]]] = [
    ("G0", [*at_once("ax1 ay2", "ax2 ay1"), (9, "rx[1,2] ry[1,2]")], ["read-uncommitted"]),
    ("G1a", [(0, "ax1", "fail"), (1, "rx[1]")], ["read-committed"]),
    ("G1b", at_once("ax1 ax2", "rx[1]", "rx[1,2]"), ["read-committed"]),
    ("G1c", at_once("ax1 ry[1]", "ay1 rx[1]"), ["read-committed"]),
    (
        "G-single-item",
        [(0, "ax1 ay1"), *at_once("ax2 ay2", "rx[1] ry[1,2]"), READ_BOTH],
        ["consistent-view", "repeatable-read"],
    ),
    (
        "G-nonadjacent-item",
        [*at_once("ax1", "ay1", "rx[1] ry_", "ry[1] rx_")],
        ["repeatable-read", "snapshot-isolation"],
    ),
    ("G2-item", at_once("rx_ ay1", "ry_ ax1"), ["repeatable-read"]),
    ("internal", at_once("ax1 ax2 rx[2]", "ry_ ay1"), ["read-atomic"]),
    ("internal", [(0, "ax1"), (1, "rx[1] ax2 rx[1]"), (2, "rx[1,2]")], ["read-atomic"]),
    ("internal", [(0, "ax1"), *at_once("ax2 rx[1,2,3]", "ax3")], ["read-committed"]),
    ("future-read", [(0, "rx[1] ax1")], ["read-committed"]),
    ("duplicate-elements", [(0, "ax1"), (1, "rx[1,1]")], ["read-uncommitted"]),
    ("garbage-read", [(0, "ax1"), (1, "rx[1,7]")], ["read-committed"]),
    (
        "incompatible-order",
        [*at_once("ax1", "ax2"), (2, "rx[1,2]"), (3, "rx[2,1]")],
        ["read-committed"],
    ),
    (
        "dirty-update",
        [(0, "ax1", "fail"), (1, "ax2"), (2, "rx[1,2]", "ok")],
        ["read-committed"],
    ),
    (
        "lost-update",
        [(0, "ax1"), *at_once("rx[1] ax2", "rx[1] ax3"), (3, "rx[1,2,3]")],
        ["cursor-stability", "update-atomic"],
    ),
    ("G0-realtime", [(0, "ax1"), (1, "ax2"), (2, "rx[2,1]")], ["strong-read-uncommitted"]),
    (
        "G-single-item-realtime",
        [(0, "ax1"), (1, "ax2"), (2, "rx[1]"), (3, "rx[1,2]")],
        ["strong-snapshot-isolation"],
    ),
    (
        "G-single-item-realtime",
        [(0, "ax1"), (1, "ax2"), (2, "rx[1]")],  # nobody read 2: it comes after what was read
        ["strong-snapshot-isolation"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "lines", "weakest"),
    BROKEN,
    ids=lambda case: str(case)[:24],
)
def test_an_anomaly_is_found_named_and_refutes_its_models(
    build: Build, name: str, lines: Lines, weakest: list[str]
) -> None:
    result = check_transactions(build(lines), "list-append")
    assert result.valid is False
    found = result.stats["elle"]
    assert name in found["anomaly-types"]
    assert found["not"] == weakest
    told = [anomaly for anomaly in result.anomalies if anomaly.type == name]
    assert told
    assert all(len(anomaly.explanation) > 20 for anomaly in told)


def test_a_history_that_happened_one_after_the_other_is_valid(build: Build) -> None:
    lines = [
        (0, "rx_ ry_"), (0, "ax1 rx[1] ax2"), (1, "rx[1,2] ay1"), (2, "ax3", "fail"),
        (3, "ax4", "info"), (4, "rx[1,2,4] ry[1]"), (0, "ay2 ry[1,2]"),
    ]  # fmt: skip
    result = check_transactions(build(lines), "list-append")
    assert result.valid is True
    assert result.anomalies == []


def test_unread_appends_have_no_order(build: Build) -> None:
    for lines in ([(0, "ax1"), (1, "ax2"), (2, "ry_")], [(0, "ax1"), (1, "ax2"), (0, "ax3")]):
        assert check_transactions(build(lines), "list-append").valid is True


def test_wr_edges_and_real_time_make_a_cycle(build: Build) -> None:
    # T2 saw T1's append, and ended before T1 began.
    lines = [("begin", 1, "rx[1]"), ("end", 1, "rx[1]"), ("begin", 0, "ax1"), ("end", 0, "ax1")]
    found = check_transactions(build(lines), "list-append").stats["elle"]
    assert found["anomaly-types"] == ["G1c-realtime"]
    assert found["not"] == ["strong-read-committed"]


@pytest.mark.parametrize("model", ["strong-session-serializable", "strong-session-PL-2"])
def test_the_order_of_a_process_is_asked_for_by_models_of_sessions(
    build: Build, model: str
) -> None:
    lines = build([(0, "rx[1]"), (0, "ax1")])
    found = check_transactions(lines, "list-append", consistency_models=[model]).stats["elle"]
    assert found["anomaly-types"] == ["G1c-process"]
    assert found["not"] == ["strong-session-read-committed"]
    serializable = check_transactions(lines, "list-append", consistency_models=["serializable"])
    assert serializable.valid is True


def test_rw_edges_across_a_process_are_distinguished(build: Build) -> None:
    lines = build([(0, "ax1"), (0, "rx_"), (1, "rx[1]")])
    model = ["strong-session-snapshot-isolation"]
    found = check_transactions(lines, "list-append", consistency_models=model).stats["elle"]
    assert found["anomaly-types"] == ["G-single-item-process"]


def test_only_forbidden_anomalies_make_a_history_invalid(build: Build) -> None:
    skew = build(at_once("rx_ ay1", "ry_ ax1"))
    for model, valid in [
        ("read-committed", True),
        ("snapshot-isolation", True),
        ("repeatable-read", False),
        ("serializable", False),
    ]:
        result = check_transactions(skew, "list-append", consistency_models=[model])
        assert result.valid is valid, model


def test_single_anomalies_can_be_asked_for(build: Build) -> None:
    aborted = build([(0, "ax1", "fail"), (1, "rx[1]"), (2, "ax2")])
    for name, valid in [("G1", False), ("G1a", False), ("G0", True), ("internal", True)]:
        result = check_transactions(aborted, "list-append", consistency_models=(), anomalies=[name])
        assert result.valid is valid or result.valid == "unknown", name


def test_models_refuted_are_named_though_they_were_not_asked_for(build: Build) -> None:
    lines = build([(0, "ax1", "fail"), (1, "rx[1]")])
    result = check_transactions(lines, "list-append", consistency_models=["read-uncommitted"])
    assert result.valid == "unknown"
    assert result.stats["elle"]["anomaly-types"] == ["empty-transaction-graph"]
    assert result.stats["elle"]["not"] == ["read-committed"]


ALONE = [(0, "ax1")]
IN_ORDER = [(0, "ax1"), (1, "ay1")]
OF_ONE_PROCESS = [(0, "ax1"), (0, "ay1")]


@pytest.mark.parametrize(
    ("lines", "model", "valid"),
    [
        (ALONE, "serializable", "unknown"),
        (ALONE, "strong-session-serializable", "unknown"),
        (ALONE, "strict-serializable", "unknown"),
        (at_once("ax1", "ay1"), "strict-serializable", "unknown"),
        (IN_ORDER, "serializable", "unknown"),
        (IN_ORDER, "strong-session-serializable", "unknown"),
        (IN_ORDER, "strict-serializable", True),
        ([(0, "ax1"), (1, "ay1", "fail")], "strict-serializable", True),
        ([(0, "ax1"), (1, "ay1", "info")], "strict-serializable", True),
        ([(0, "ax1", "info"), (1, "ay1")], "strict-serializable", "unknown"),
        (OF_ONE_PROCESS, "serializable", "unknown"),
        (OF_ONE_PROCESS, "strong-session-serializable", True),
        (OF_ONE_PROCESS, "strict-serializable", True),
    ],
)
def test_history_without_an_edge_between_transactions_is_unknown(
    build: Build, lines: Lines, model: str, valid: Any
) -> None:
    result = check_transactions(build(lines), "list-append", consistency_models=[model])
    assert result.valid == valid
    if valid == "unknown":
        assert result.stats["elle"]["anomalies"] == {"empty-transaction-graph": True}
        assert result.error == "unknown: empty-transaction-graph"


def test_indeterminate_appends_count_once_they_were_read(build: Build) -> None:
    seen = [(0, "ax1 ry[1]", "info"), (1, "ay1 rx[1]")]
    assert check_transactions(build(seen), "list-append").valid is True
    # It ordered two lists differently than another one did.
    both = [*at_once("ax1 ay2", "ax2 ay1")[:2], ("end", 0, "ax1 ay2", "info"),
            ("end", 1, "ax2 ay1"), (9, "rx[1,2] ry[1,2]")]  # fmt: skip
    circular = check_transactions(build(both), "list-append").stats["elle"]
    assert circular["anomaly-types"] == ["G0"]
    # Never answered at all: it was seen before it was invoked.
    lines = [(1, "rx[1]"), ("begin", 0, "ax1")]
    found = check_transactions(build(lines), "list-append").stats["elle"]
    assert found["anomaly-types"] == ["G1c-realtime"]


def test_a_cycle_is_as_short_as_it_can_be_and_explained(build: Build) -> None:
    filler = [(5, f"az{n}") for n in range(20)]
    lines = [(0, "ax1 ay1"), *filler, *at_once("ax2 ay2", "rx[1] ry[1,2]"), READ_BOTH]
    analysis = analyze(build(lines), "list-append", Options())
    (cycle,) = analysis.result["anomalies"]["G-single-item"]
    assert [step["type"] for step in cycle["steps"]] == ["rw", "wr"]
    assert cycle["cycle"][0] == cycle["cycle"][-1]
    assert len(cycle["cycle"]) == 3
    assert cycle["steps"][0] == {
        "type": "rw", "key": "x", "value": 1, "value'": 2, "a-mop-index": 0, "b-mop-index": 0,
    }  # fmt: skip
    (told,) = [a for a in check_transactions(build(lines), "list-append").anomalies
               if a.type == "G-single-item"]  # fmt: skip
    assert "T1 did not observe T2's append of 2 to 'x'" in told.explanation
    assert "T1 < T2" in told.explanation
    assert told.explanation.endswith("a contradiction.")
    graph: Any = network(analysis.result["anomalies"])
    assert graph.number_of_nodes() == 2
    assert sorted(kind for _, _, kind in graph.edges.data("kind")) == ["rw", "wr"]


def test_an_explanation_shows_what_long_transactions_did_to_the_keys_of_the_cycle(
    build: Build,
) -> None:
    others = " ".join(f"az{n}" for n in range(50))
    lines = [(0, "ax1 ay1"), *at_once(f"{others} ax2 ay2", "rx[1] ry[1,2]"), READ_BOTH]
    (told,) = [a for a in check_transactions(build(lines), "list-append").anomalies
               if a.type == "G-single-item"]  # fmt: skip
    assert "[append 'x' 2] [append 'y' 2] and 50 more" in told.explanation
    assert "'z'" not in told.explanation


def test_the_result_has_elles_shape(build: Build) -> None:
    valid = analyze(build([(0, "ax1"), (1, "rx[1]")]), "list-append", Options())
    assert valid.result == {"valid?": True}
    broken = analyze(build([(0, "ax1", "fail"), (1, "rx[1]")]), "list-append", Options()).result
    assert list(broken) == ["valid?", "anomaly-types", "anomalies", "not", "also-not"]
    (case,) = broken["anomalies"]["G1a"]
    assert case["op"]["index"] == 3
    assert case["writer"] == {
        "index": 1, "time": 1000, "type": "fail", "process": 0, "f": "txn",
        "value": [["append", "x", 1]],
    }  # fmt: skip
    assert case["element"] == 1
    assert "strong-serializable" in broken["also-not"]


def test_a_search_without_time_still_reports_that_cycles_exist(build: Build) -> None:
    lines = build([*at_once("ax1 ay2", "ax2 ay1"), (9, "rx[1,2] ry[1,2]")])
    result = check_transactions(lines, "list-append", cycle_search_seconds=-1)
    assert result.valid is False
    found = result.stats["elle"]
    assert "cycle-search-timeout" in found["anomaly-types"]
    assert "PL-1-cycle-exists" in found["anomaly-types"]
    assert found["not"] == ["read-uncommitted"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([["w", "x", 1]], 'operation 0: list-append knows "r" and "append", got \'w\''),
        ([["r", "x", 5]], "operation 0: a read of a list returns a list or null, got 5"),
        ("ax1", "operation 0: a transaction is a list of micro-operations, got 'ax1'"),
        ([["r"]], r"operation 0: a micro-operation is \[f, key, value\], got \['r'\]"),
    ],
)
def test_operations_other_than_transactions_are_refused(value: Any, message: str) -> None:
    op = Op(index=0, process=0, type="ok", f="txn", value=value, time=0)
    with pytest.raises(TransactionError, match=message):
        check_transactions([op], "list-append")


def test_nothing_can_be_said_where_a_value_is_appended_twice(build: Build) -> None:
    result = check_transactions(build([(0, "ax1"), (1, "ax1")]), "list-append")
    assert result.valid == "unknown"
    assert result.error is not None
    assert result.error.startswith("operation 2 appends 1 to key 'x', as another did before")
    assert result.stats["elle"]["type"] == "duplicate-appends"


def test_keys_and_values_may_be_anything() -> None:
    def op(index: int, kind: Any, value: Any) -> Op:
        return Op(index=index, process=0, type=kind, f="txn", value=value, time=index)

    one, true = ["append", {"k": [1]}, 1], ["append", {"k": [1]}, True]
    events = itertools.chain.from_iterable(
        [("invoke", [mop]), ("ok", [mop])] for mop in (one, true)
    )
    ops = [op(index, kind, value) for index, (kind, value) in enumerate(events)]
    ops += [op(4, "invoke", [["r", {"k": [1]}, None]]), op(5, "ok", [["r", {"k": [1]}, [1, True]]])]
    assert check_transactions(ops, "list-append").valid is True
