"""Histories of transactions from files, without an object for every operation.

Parquet and Arrow files have columns. Of JSON lines only the frame of each line is decoded, and the
value stays text. Other files (EDN, JSON arrays, lines of another shape) are read by
:func:`histories.events.read_events`, which also reports errors in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.checkers.elle.reading import as_numbers
from kraftwreck.histories.column_size import expandable, sized
from kraftwreck.histories.events import guess_format, read_events, to_ops
from kraftwreck.histories.json_lines import UNREADABLE, lines
from kraftwreck.histories.operation import Op, OpType
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError

_COLUMNS = ("index", "process", "type", "f", "value", "time")
_SCHEMA = pa.schema([HISTORY_SCHEMA.field(name) for name in _COLUMNS])
_BATCH = 1 << 16


class _Line(msgspec.Struct, gc=False):
    process: int | str
    type: OpType
    f: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    index: int = -1
    time: int = -1


def read_history_file(path: Path, kind: str | None = None) -> Sequence[Op] | pa.Table:
    """Return the client operations of ``path``, for :func:`~checkers.elle.check_transactions`.

    ``kind`` is one of :data:`histories.events.FORMATS`, by default what the name says.
    Raises :class:`histories.tables.HistoryError`.
    """
    kind = kind or guess_format(path)
    if kind in ("parquet", "arrow"):
        return _from_columns(path, kind)
    if kind == "jsonl":
        table = _from_json_lines(path)
        if table is not None:
            return table
    return list(to_ops(read_events(path, kind)))


def _from_columns(path: Path, kind: str) -> pa.Table:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise HistoryError(f"{path}: no *.parquet file in this folder")
    try:
        if kind == "arrow":
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all().select(list(_COLUMNS))
                return expandable(table, path)
        tables = [
            sized(pq.ParquetFile(file, read_dictionary=["type", "f"]), file).read(list(_COLUMNS))
            for file in files
        ]
        return pa.concat_tables(tables).select(list(_COLUMNS))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise HistoryError(f"{path}: {' '.join(str(error).split())}") from error


def _from_json_lines(path: Path) -> pa.Table | None:
    """Return the table of a file of JSON lines; None where a line is not as expected."""
    decode = msgspec.json.Decoder(_Line).decode
    batches: list[pa.RecordBatch] = []
    rows: list[_Line] = []
    try:
        for _, line in lines(path):
            row = decode(line)
            if isinstance(row.process, int):
                rows.append(row)
            if len(rows) == _BATCH:
                batches.append(_batch(rows))
                rows = []
        batches.append(_batch(rows))
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    except (*UNREADABLE, OverflowError):
        return None
    table = pa.Table.from_batches(batches, schema=_SCHEMA)
    # In a file without numbers, operations are known by their positions.
    index = as_numbers(table.column("index"))
    return None if bool((index < 0).any() or (np.diff(index) <= 0).any()) else table


def _batch(rows: list[_Line]) -> pa.RecordBatch:
    columns: list[Any] = [
        pa.array([row.index for row in rows], pa.int64()),
        pa.array([row.process for row in rows], pa.int64()),
        pa.array([row.type for row in rows], pa.string()),
        pa.array([row.f or "" for row in rows], pa.string()),
        pa.array([_text(row.value) for row in rows], pa.string()),
        pa.array([row.time for row in rows], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _text(value: msgspec.Raw) -> bytes | None:
    text = bytes(value)
    return None if text == b"null" else text
