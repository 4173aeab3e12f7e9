"""Histories as columns: tables, files and the arrays made of them say what the lists do."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from time import thread_time
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.component import Budget, Component
from kraftwreck.checkers.elle.components import strong_components, tangled
from kraftwreck.checkers.elle.files import read_history_file
from kraftwreck.checkers.elle.graph import RW, WW, Graph
from kraftwreck.checkers.elle.reading import read_transactions
from kraftwreck.checkers.elle.transactions import TransactionError
from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import write_table
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError, to_table
from kraftwreck.nodes.draw import draw_below

VALUES = [
    [["append", 3, 7], ["r", 3, None]],
    [["r", 3, [7]], ["r", 12, []], ["append", -4, -15]],
    [],
    None,
    [["append", 3, 123456789012345678], ["r", -4, [-15]]],
]


def ops_of(values: list[Any], kind: Any = "ok") -> list[Op]:
    return [
        Op(index=2 * at, process=at, type=kind, f="txn", value=value, time=at)
        for at, value in enumerate(values)
    ]


def plain(history: Any, model: str = "list-append") -> list[Any]:
    """Return everything the columns hold, as Python values."""
    found = read_transactions(history, model)
    mops = found.mops
    return [
        (
            int(mops.event[at]),
            int(mops.f[at]),
            found.name_key(int(mops.key[at])),
            int(mops.kind[at]),
            [found.name_value(value) for value in mops.list_of(at)],
        )
        for at in range(len(mops))
    ]


@pytest.mark.parametrize("spaces", [False, True])
def test_a_table_of_text_holds_what_the_operations_do(spaces: bool) -> None:
    ops = ops_of(VALUES)
    table = to_table(ops, HISTORY_SCHEMA)
    if spaces:
        texts = [None if value is None else json.dumps(value) for value in VALUES]
        table = table.set_column(5, "value", pa.array(texts, pa.string()))
    assert plain(table) == plain(ops)


@pytest.mark.parametrize(
    "value",
    [
        [["append", "x", 1]],
        [["append", 1, "x"]],
        [["r", 1, ["a", "b"]]],
        [["r", 1, [1.5]]],
        [["r", 1, [True]]],
        [["append", 1, [2]]],
        [["append", 1234567890123456789012, 1]],
        [["r", 1]],
    ],
)
def test_text_that_is_not_plain_is_decoded(value: Any) -> None:
    ops = ops_of([[["append", 5, 6]], value])
    assert plain(to_table(ops, HISTORY_SCHEMA)) == plain(ops)


def test_registers_read_single_values() -> None:
    ops = ops_of([[["w", 1, 2], ["r", 1, 2]], [["r", 1, None], ["w", 4, 50]]])
    assert plain(to_table(ops, HISTORY_SCHEMA), "rw-register") == plain(ops, "rw-register")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[["r", 1, 5]]], "operation 0: a read of a list returns a list or null, got 5"),
        ([[], [["cas", 1, [1, 2]]]], 'operation 2: list-append knows "r" and "append"'),
    ],
)
def test_a_table_that_holds_no_transactions_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(TransactionError, match=message):
        read_transactions(to_table(ops_of(values), HISTORY_SCHEMA), "list-append")


def test_a_row_of_no_known_type_is_refused() -> None:
    table = to_table(ops_of([[]]), HISTORY_SCHEMA)
    table = table.set_column(2, "type", pa.array(["okay"]))
    with pytest.raises(TransactionError, match=r"operation 0: type must be one of .* got 'okay'"):
        read_transactions(table, "list-append")


def test_rows_out_of_order_are_sorted() -> None:
    ops = [
        Op(index=0, process=0, type="invoke", f="txn", value=[["append", 1, 1]], time=0),
        Op(index=1, process=0, type="ok", f="txn", value=[["append", 1, 1]], time=1),
        Op(index=2, process=1, type="invoke", f="txn", value=[["r", 1, None]], time=2),
        Op(index=3, process=1, type="ok", f="txn", value=[["r", 1, None]], time=3),
    ]
    result = check_transactions(to_table(ops[::-1], HISTORY_SCHEMA), "list-append")
    assert result.stats["elle"]["anomaly-types"] == ["G-single-item-realtime"]


def test_every_kind_of_file_says_the_same(tmp_path: Path) -> None:
    ops = ops_of([[["append", 1, 1]], [["r", 1, [1]], ["append", 1, 2]], [["r", 1, [2]]]])
    table = to_table(ops, HISTORY_SCHEMA)
    lines = tmp_path / "history.jsonl"
    rows = [{"index": op.index, "process": op.process, "type": op.type, "f": op.f,
             "value": op.value, "time": op.time} for op in ops]  # fmt: skip
    nemesis = {"index": 99, "process": "nemesis", "type": "info", "f": "start", "value": {}}
    lines.write_text("\n".join(json.dumps(row) for row in [*rows, nemesis]) + "\n")
    write_table(table, tmp_path / "history.parquet")
    folder = tmp_path / "shards.parquet"
    folder.mkdir()
    pq.write_table(table, folder / "part-00000.parquet")
    (tmp_path / "history.json").write_text(json.dumps(rows))
    with pa.ipc.new_file(tmp_path / "history.arrow", table.schema) as sink:
        sink.write_table(table)
    told = [
        check_transactions(read_history_file(tmp_path / name), "list-append").stats["elle"]
        for name in ("history.jsonl", "history.parquet", "shards.parquet", "history.json",
                     "history.arrow")
    ]  # fmt: skip
    assert told[0]["anomaly-types"] == ["incompatible-order"]
    assert all(other == told[0] for other in told)


@pytest.mark.parametrize("line", ['{"process": 0}', "{", '{"process":1.5,"type":"ok","f":"txn"}'])
def test_a_line_that_is_no_operation_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index":0,"process":0,"type":"ok","f":"txn","value":[]}\n' + line + "\n")
    with pytest.raises(HistoryError, match=r"bad\.jsonl:2: "):
        read_history_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("none.jsonl", "none.parquet"):
        with pytest.raises(HistoryError, match=name):
            read_history_file(tmp_path / name)


# --- strong components -----------------------------------------------------------------------


def random_graph(seed: int, size: int, edges: int) -> tuple[Any, Any]:
    picks = [draw_below(size, seed, at) for at in range(2 * edges)]
    return np.array(picks[:edges], dtype=np.int64), np.array(picks[edges:], dtype=np.int64)


def groups_of(label: Any) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for vertex, number in enumerate(label.tolist()):
        found.setdefault(number, set()).add(vertex)
    return {frozenset(group) for group in found.values()}


@pytest.mark.parametrize("compiled", [False, True])
def test_components_are_those_that_networkx_finds(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        monkeypatch.setattr("kraftwreck.checkers.elle.components.COMPILE_FROM", 0)
    for seed in range(40):
        source, target = random_graph(seed, 12, 4 + seed // 2)
        graph = nx.DiGraph(list(zip(source.tolist(), target.tolist(), strict=True)))
        graph.add_nodes_from(range(12))
        truth = {frozenset(group) for group in nx.strongly_connected_components(graph)}
        assert groups_of(strong_components(12, source, target)) == truth


def test_no_edge_of_a_cycle_is_left_out_before_the_search() -> None:
    left_out = 0
    for seed in range(200):
        source, target = random_graph(seed, 14, 6 + seed % 20)
        keep = source != target
        source, target = source[keep], target[keep]
        begin = np.array([draw_below(30, seed, "begin", at) for at in range(14)])
        end = begin + np.array([draw_below(9, seed, "end", at) for at in range(14)])
        kept = set(tangled(source, target, begin, end).tolist())
        label = strong_components(14, source, target)
        inner = set(np.flatnonzero(label[source] == label[target]).tolist())
        assert inner <= kept
        left_out += len(source) - len(kept)
    assert left_out > 300


def test_a_history_in_order_needs_no_search() -> None:
    size = 1000
    chain = np.arange(size - 1)
    assert len(tangled(chain, chain + 1, np.arange(size), np.arange(size))) == 0
    # Even if every dependency leads to what was invoked before.
    begin = np.array(list(itertools.chain.from_iterable((at + 1, at) for at in range(0, size, 2))))
    pairs = np.arange(0, size, 2)
    assert len(tangled(pairs, pairs + 1, begin, begin + 2)) == 0


def test_two_rw_edges_in_a_row_are_not_walked_where_they_must_be_apart() -> None:
    edges = [(0, 1, RW), (1, 4, WW), (0, 2, WW), (2, 3, RW), (3, 4, WW)]
    places = np.arange(5)
    source, target = (np.array([edge[at] for edge in edges], dtype=np.int64) for at in (0, 1))
    kind = np.array([edge[2] for edge in edges], dtype=np.int8)
    graph = Graph(5, 5, source, target, kind, places, places)
    component = Component(graph, np.arange(len(edges)), Budget(thread_time() + 60))
    # An rw edge led to 0, so the walk must not begin with another one.
    assert component.walk(0, [4], WW, RW) == {4: [(0, 2, WW), (2, 3, RW), (3, 4, WW)]}
    assert len(component.walk(0, [4], WW | RW)[4]) == 2
