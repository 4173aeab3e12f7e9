"""Parquet and Arrow files as tables of :data:`~histories.tables.HISTORY_SCHEMA`.

The files may lack the columns that have a default, order columns differently, and hold numbers
where ours hold JSON text.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.column_size import expandable, sized, unpackable
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError

_REQUIRED = ("process", "type", "f", "value")
_TEXTS = ("key", "value")


def read_columns(path: Path, kind: str, *, every: bool = False) -> pa.Table:
    """Return the events of a Parquet (file or folder) or Arrow file, ordered by index.

    Unless ``every`` is set, nodes and errors may be null: no checker of columns needs them. Raises
    :class:`HistoryError`.
    """
    try:
        if kind == "parquet":
            files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
            if not files:
                raise HistoryError(f"{path}: no *.parquet file in this folder")
            table = pa.concat_tables(
                [_selected(sized(pq.ParquetFile(file), file), every) for file in files]
            )
        else:
            table = expandable(
                pa.ipc.open_file(pa.memory_map(str(unpackable(path)))).read_all(), path
            )
        missing = [name for name in _REQUIRED if name not in table.column_names]
        if missing:
            raise HistoryError(f"{path}: there is no column {missing[0]!r}")
        columns = [_column(table, field) for field in HISTORY_SCHEMA]
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: {' '.join(str(error).split())}") from error
    found = pa.Table.from_arrays(columns, schema=HISTORY_SCHEMA)
    for name in ("index", "process", "type", "f"):
        if found.column(name).null_count:
            row = int(np.argmax(pc.is_null(found.column(name)).to_numpy()))
            raise HistoryError(f"{path}: row {row}: {name} must not be null")
    index = found.column("index").to_numpy()
    if len(index) > 1 and bool((index[1:] <= index[:-1]).any()):
        found = found.sort_by("index")
    return found


def with_schema(table: pa.Table) -> pa.Table:
    """Return ``table`` with the columns of :data:`~histories.tables.HISTORY_SCHEMA`."""
    columns = [_column(table, field) for field in HISTORY_SCHEMA]
    return pa.Table.from_arrays(columns, schema=HISTORY_SCHEMA)


def _selected(file: pq.ParquetFile, every: bool) -> pa.Table:
    unread = () if every else ("node", "error")
    wanted = [name for name in file.schema_arrow.names if name not in unread]
    return file.read([name for name in wanted if name in HISTORY_SCHEMA.names])


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return one column of the schema, converted from the table's column or its default."""
    size = len(table)
    if field.name not in table.column_names:
        if field.name in ("index", "time"):
            return pa.chunked_array([np.arange(size)])
        if field.name == "final":
            return pa.chunked_array([np.zeros(size, np.bool_)])
        return pa.chunked_array([pa.nulls(size, field.type)])
    column = table.column(field.name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if field.name in _TEXTS and not pa.types.is_string(column.type):
        if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
            return column.cast(pa.string())
        if pa.types.is_large_string(column.type):
            return column.cast(pa.string())
        return pa.chunked_array([pa.array(_texts(column), pa.string())])
    return column.cast(field.type)


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    encode = msgspec.json.Encoder(order="deterministic").encode
    return [None if item is None else encode(item).decode() for item in column.to_pylist()]
