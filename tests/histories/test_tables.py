"""Arrow and Parquet: fixed schemas, JSON text for values, shards that hold whole keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import (
    read_history_parquet,
    shard_of,
    write_history,
)
from kraftwreck.histories.reading import convert_run, read_history, read_trace
from kraftwreck.histories.store import JsonLines
from kraftwreck.histories.tables import (
    HISTORY_SCHEMA,
    TRACE_SCHEMA,
    HistoryError,
    from_table,
    to_table,
)
from kraftwreck.histories.trace import TraceEvent


def history(keys: list[Any]) -> list[Op]:
    ops = []
    for i, key in enumerate(keys):
        value = [None, {"a": i}]
        ops.append(Op(index=i, process=i % 3, type="ok", f="w", key=key, value=value, time=i * 7))
    return ops


def test_values_of_any_shape_come_back_equal() -> None:
    ops = history([1, "1", None, [1, 2], {"b": 1, "a": 2}, True, 1.5])
    table = to_table(ops, HISTORY_SCHEMA)
    assert table.schema == HISTORY_SCHEMA
    assert table.column("key").to_pylist()[:4] == ["1", '"1"', None, "[1,2]"]
    assert from_table(table, Op) == ops


def test_equal_maps_are_equal_text_whatever_the_order_of_their_keys() -> None:
    table = to_table(history([{"a": 1, "b": 2}, {"b": 2, "a": 1}]), HISTORY_SCHEMA)
    first, second = table.column("key").to_pylist()
    assert first == second


def test_an_empty_history_has_the_schema_and_can_be_written(tmp_path: Path) -> None:
    write_history(to_table([], HISTORY_SCHEMA), tmp_path / "history.parquet")
    table = read_history_parquet(tmp_path / "history.parquet")
    assert table.num_rows == 0
    assert table.schema == HISTORY_SCHEMA


def test_each_key_lies_in_one_shard_sorted_by_key_and_index(tmp_path: Path) -> None:
    ops = history([f"k{i % 13}" for i in range(500)])
    folder = tmp_path / "history.parquet"
    write_history(to_table(ops, HISTORY_SCHEMA), folder, shards=4)
    seen: dict[str, int] = {}
    for part in sorted(folder.glob("part-*.parquet")):
        rows = pq.read_table(part).to_pylist()
        order = [(row["key"], row["index"]) for row in rows]
        assert order == sorted(order)
        for key in {row["key"] for row in rows}:
            assert seen.setdefault(key, shard_of(key, 4)) == int(part.stem[-5:])
    assert len(seen) == 13
    assert from_table(read_history_parquet(folder), Op) == ops


def test_a_parquet_that_is_not_ours_is_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "x.parquet"
    bad.write_bytes(b"PAR1 nonsense")
    with pytest.raises(HistoryError, match=r"x\.parquet: ") as caught:
        read_history_parquet(bad)
    assert "\n" not in str(caught.value)


def test_a_run_is_converted_as_a_whole(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "history.jsonl")
    ops = history(["a", "b"])
    for op in ops:
        lines.write(op)
    lines.close()
    for node, incarnation in (("n2", 1), ("n1", 2), ("n1", 1)):
        (tmp_path / "nodes" / node).mkdir(parents=True, exist_ok=True)
        trace = JsonLines(tmp_path / "nodes" / node / "trace.jsonl")
        trace.write(
            TraceEvent(
                node=node,
                incarnation=incarnation,
                seq=0,
                mono=1,
                wall=2,
                kind="start",
                state="unattached",
                epoch=0,
                leader=-1,
                voted=-1,
                leo=0,
                hw=-1,
                detail={"x": [1]},
            )
        )
        trace.close()
    convert_run(tmp_path)
    events = from_table(pq.read_table(tmp_path / "trace.parquet").cast(TRACE_SCHEMA), TraceEvent)
    assert [(e.node, e.incarnation) for e in events] == [("n1", 1), ("n1", 2), ("n2", 1)]
    assert events[0].detail == {"x": [1]}
    assert read_trace(tmp_path).num_rows == 3
    (tmp_path / "history.jsonl").unlink()
    assert from_table(read_history(tmp_path), Op) == ops
