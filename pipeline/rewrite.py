"""Rewrite old rows of gold without changed or forgotten runs, in few files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.pipeline.gold import conform
from kraftwreck.pipeline.manifest import locate

MANY = 64
"""This many files of a table are merged into one."""


def without(
    analysis: Path,
    files: Sequence[str],
    runs: Collection[str],
    schema: pa.Schema,
    place: Path,
) -> list[str | Path]:
    """Return files with the rows of ``files``, except those of ``runs``.

    A file without such rows is kept, unless there are :data:`MANY` files. The others are copied,
    row group by row group, to a new file in the folder ``place``.
    """
    wanted = pa.array(sorted(runs), pa.string())
    old = [(file, locate(analysis, file)) for file in files]
    touched = old if len(old) >= MANY else [pair for pair in old if _holds(pair[1], wanted)]
    if not touched:
        return list(files)
    names = {file for file, _ in touched}
    target = place / "kept.parquet"
    rows = _copy([path for _, path in touched], wanted, schema, target)
    kept: list[str | Path] = [file for file in files if file not in names]
    return [*kept, target] if rows else kept


def _holds(path: Path, runs: pa.Array) -> bool:
    if not len(runs):
        return False
    column = pq.read_table(path, columns=["run"]).column("run").cast(pa.string())
    return bool(pc.any(pc.is_in(column, runs)).as_py())


def _copy(paths: Iterable[Path], runs: pa.Array, schema: pa.Schema, target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches():
                table = conform(pa.Table.from_batches([batch]), schema)
                table = table.filter(pc.invert(pc.is_in(table.column("run"), runs)))
                writer.write_table(table)
                rows += len(table)
    return rows
