"""Any file becomes the same table, however its columns are typed."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck.histories.columns import read_table
from kraftwreck.histories.events import read_events
from kraftwreck.histories.source import Events, HistoryFile
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError

ROWS: list[dict[str, Any]] = [
    {"index": 0, "process": 0, "type": "invoke", "f": "write", "value": 3},
    {"index": 1, "process": 0, "type": "ok", "f": "write", "value": 3},
    {"index": 2, "process": 1, "type": "invoke", "f": "read", "value": None},
    {"index": 4, "process": 1, "type": "ok", "f": "read", "value": 3},
]


def _lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _typed(path: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(2, "type", table.column("type").dictionary_encode())
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def test_lines_and_typed_columns_are_one_history(tmp_path: Path) -> None:
    texts = read_table(_lines(tmp_path / "h.jsonl", ROWS))
    assert texts.schema == HISTORY_SCHEMA
    for name in ("h.parquet", "h.arrow"):
        path = _typed(tmp_path / name)
        table = read_table(path)
        for column in ("index", "process", "type", "f", "value"):
            assert table.column(column).to_pylist() == texts.column(column).to_pylist()
        assert [event.value for event in read_events(path)] == [3, 3, None, 3]


def test_lines_of_another_shape_are_read_slowly_and_alike(tmp_path: Path) -> None:
    rows = [{**row, "process": row["process"], "extra": {"a": [1]}, "error": ["x"]} for row in ROWS]
    rows.insert(2, {"process": "nemesis", "type": "info", "f": "start", "value": None, "index": 2})
    rows[3]["index"] = 3
    path = _lines(tmp_path / "h.jsonl", rows)
    table = read_table(path)
    assert table.column("value").to_pylist() == ["3", "3", None, "3"]
    assert table.equals(Events(read_events(path)).table())


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = _lines(tmp_path / "h.jsonl", ROWS)
    expected = read_table(path)
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    assert read_table(path).equals(expected)


def test_keys_are_split_from_values(tmp_path: Path) -> None:
    rows = [{**row, "value": ["k", row["value"]]} for row in ROWS]
    path = _lines(tmp_path / "h.jsonl", rows)
    table = HistoryFile(path, independent=True).table()
    assert table.column("key").to_pylist() == ['"k"'] * 4
    assert table.column("value").to_pylist() == ["3", "3", None, "3"]
    pq.write_table(read_table(path), tmp_path / "h.parquet")
    again = HistoryFile(tmp_path / "h.parquet", independent=True)
    assert again.table().column("value").to_pylist() == ["3", "3", None, "3"]
    assert [event.key for event in again.events()] == ["k"] * 4


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{**ROWS[0], "process": "x1"}], r"h\.jsonl:1: process must be a whole number.* got 'x1'"),
        ([{**ROWS[0], "process": 1, "type": "gone"}], r"h\.jsonl:1: type must be one of"),
        ([ROWS[0], {**ROWS[1], "type": "done"}], r"h\.jsonl:2: type must be one of"),
        ([{**ROWS[0], "time": "now"}], r"h\.jsonl:1: time must be a whole number of 64 bits"),
        ([{**ROWS[0], "f": 3}], r"h\.jsonl:1: f must be a word, got 3"),
    ],
)
def test_malformed_input_is_named_by_line_and_field(
    tmp_path: Path, rows: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(HistoryError, match=said):
        read_table(_lines(tmp_path / "h.jsonl", rows))


def test_a_table_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS).drop_columns(["f"]), path)
    with pytest.raises(HistoryError, match="there is no column 'f'"):
        read_table(path)
