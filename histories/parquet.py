"""Tables as Parquet: histories sharded by key so that a per-key check needs no shuffle.

A key's operations are all in one shard, sorted by (key, index). The shard of a key is the CRC-32 of
its JSON text modulo the number of shards; operations without a key count as the key "".
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.column_size import sized
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError

SHARDS = 8
_DELTA = ("index", "time", "seq", "mono", "wall")


def shard_of(key: str | None, shards: int = SHARDS) -> int:
    """Return the shard that holds ``key`` (its JSON text)."""
    return zlib.crc32((key or "").encode()) % shards


def write_history(history: pa.Table, folder: Path, shards: int = SHARDS) -> None:
    """Write ``history`` to ``folder`` as ``part-00000.parquet`` …; empty shards are left out.

    The folder is created atomically.
    """
    numbers = [shard_of(key, shards) for key in history.column("key").to_pylist()]
    column = pa.array(numbers, type=pa.int32())
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    present = sorted(set(numbers)) or [0]
    for shard in present:
        part = history.filter(pc.equal(column, shard)) if numbers else history
        part = part.sort_by([("key", "ascending"), ("index", "ascending")])
        _write(part, temporary / f"part-{shard:05d}.parquet")
    if folder.exists():
        shutil.rmtree(folder)
    temporary.rename(folder)


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` as one file, atomically."""
    temporary = path.with_name(path.name + ".tmp")
    _write(table, temporary)
    temporary.replace(path)


def _write(table: pa.Table, path: Path) -> None:
    delta = {name: "DELTA_BINARY_PACKED" for name in _DELTA if name in table.column_names}
    plain = [name for name in table.column_names if name not in delta]
    pq.write_table(
        table, path, compression="zstd", use_dictionary=plain, column_encoding=delta or None
    )


def read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the table in file or folder ``path``. Raises :class:`HistoryError`."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise HistoryError(f"{path}: no *.parquet file in this folder")
    try:
        tables = [sized(pq.ParquetFile(file), file).read() for file in files]
        return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise HistoryError(f"{path}: {' '.join(str(error).split())}") from error


def read_history_parquet(path: Path) -> pa.Table:
    """Return the sharded history in ``path``, ordered by index."""
    return read_parquet(path, HISTORY_SCHEMA).sort_by("index")
