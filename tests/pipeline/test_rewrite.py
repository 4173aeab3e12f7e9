"""Old rows of gold are kept, those of some runs left out, and many files become one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.pipeline.rewrite import MANY, without
from kraftwreck.pipeline.schemas import GOLD

SCHEMA = GOLD["lost_commits"]


def write(analysis: Path, number: int, *runs: str) -> str:
    name = f"gold/lost_commits/{number:06d}/rows.parquet"
    rows = [{"run": run, "anomaly": "I8", "operations": [1, 2]} for run in runs]
    path = analysis / name
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return name


def test_only_files_with_such_rows_are_rewritten(tmp_path: Path) -> None:
    files = [write(tmp_path, 1, "a/1", "a/2"), write(tmp_path, 2, "a/3"), write(tmp_path, 3, "a/4")]
    kept = without(tmp_path, files, {"a/1", "a/4", "b/1"}, SCHEMA, tmp_path / "new")
    assert kept == [files[1], tmp_path / "new" / "kept.parquet"]
    table = pq.read_table(kept[1])
    assert table.schema.equals(SCHEMA)
    assert table.to_pylist() == [
        {"run": "a/2", "anomaly": "I8", "explanation": None, "operations": [1, 2]}
    ]
    assert without(tmp_path, files, {"b/1"}, SCHEMA, tmp_path / "new") == files
    assert without(tmp_path, files[1:], {"a/3", "a/4"}, SCHEMA, tmp_path / "none") == []


def test_many_files_become_one(tmp_path: Path) -> None:
    files = [write(tmp_path, number, f"a/{number}") for number in range(MANY)]
    (kept,) = without(tmp_path, files, {"a/7"}, SCHEMA, tmp_path / "new")
    assert pq.read_table(kept).column("run").to_pylist() == [
        f"a/{number}" for number in range(MANY) if number != 7
    ]
