"""Any history file as a table of :data:`~histories.reading.HISTORY_SCHEMA`.

For checkers that work on whole columns. Parquet and Arrow files may lack the columns that
have a default, be ordered differently, and hold numbers where ours hold JSON text. JSON
lines are taken apart without making objects of their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from histories.events import Event, guess_format, read_events, to_op
from histories.reading import HISTORY_SCHEMA, HistoryError, to_table

_REQUIRED = ("process", "type", "f", "value")
_TEXTS = ("key", "value")
_TYPES = ("invoke", "ok", "fail", "info")
_BATCH = 1 << 16


class _Line(msgspec.Struct, gc=False):
    process: int
    type: str
    f: str
    index: int = -1
    time: int = -1
    key: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()
    node: str | None = None
    error: msgspec.Raw = msgspec.Raw()
    final: bool = False


def read_table(path: Path, kind: str | None = None, *, independent: bool = False) -> pa.Table:
    """Return the client events of ``path``, ordered by index.

    Raises :class:`HistoryError` with one line saying where and what.
    """
    kind = kind or guess_format(path)
    if kind in ("parquet", "arrow"):
        return split_keys(_columns(path, kind)) if independent else _columns(path, kind)
    if kind == "jsonl" and not independent:
        table = _json_lines(path)
        if table is not None:
            return table
    return table_of(read_events(path, kind, independent=independent))


def table_of(events: Iterable[Event]) -> pa.Table:
    """Return events as a table."""
    return to_table(list(map(to_op, events)), HISTORY_SCHEMA)


def _columns(path: Path, kind: str) -> pa.Table:
    try:
        if kind == "parquet":
            files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
            if not files:
                raise HistoryError(f"{path}: no *.parquet file in this folder")
            table = pa.concat_tables([_selected(pq.ParquetFile(file)) for file in files])
        else:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
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
    """Return ``table`` with the columns of :data:`~histories.reading.HISTORY_SCHEMA`."""
    columns = [_column(table, field) for field in HISTORY_SCHEMA]
    return pa.Table.from_arrays(columns, schema=HISTORY_SCHEMA)


def _selected(file: pq.ParquetFile) -> pa.Table:
    # Columns no checker of whole columns looks at are not read: they become defaults.
    wanted = [name for name in file.schema_arrow.names if name not in ("node", "error")]
    return file.read([name for name in wanted if name in HISTORY_SCHEMA.names])


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return one column of the schema from whatever the table has of it."""
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


def _json_lines(path: Path) -> pa.Table | None:
    """Read lines in the usual shape; None when any is another, so that it is read slowly."""
    decode = msgspec.json.Decoder(_Line).decode
    batches: list[pa.Table] = []
    lines: list[_Line] = []
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.isspace():
                    lines.append(decode(line))
                if len(lines) == _BATCH:
                    batches.append(_batch(lines))
                    lines = []
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    table = pa.concat_tables([*batches, _batch(lines)])
    size = len(table)
    index, time = (table.column(name).to_numpy() for name in ("index", "time"))
    if size and (index[0] < 0 or bool((index[1:] <= index[:-1]).any())):
        return None
    if not bool(pc.all(pc.is_in(table.column("type"), pa.array(_TYPES))).as_py()):
        return None
    if size and time.min() < 0:
        time = np.where(time < 0, np.arange(size), time)
        table = table.set_column(table.schema.get_field_index("time"), "time", pa.array(time))
    return table.cast(HISTORY_SCHEMA)


def _batch(lines: list[_Line]) -> pa.Table:
    size = len(lines)
    columns: dict[str, Any] = {
        "index": np.fromiter((line.index for line in lines), np.int64, size),
        "process": np.fromiter((line.process for line in lines), np.int64, size),
        "type": pa.array([line.type for line in lines], pa.string()),
        "f": pa.array([line.f for line in lines], pa.string()),
        "key": _raw([line.key for line in lines]),
        "value": _raw([line.value for line in lines]),
        "time": np.fromiter((line.time for line in lines), np.int64, size),
        "node": pa.array([line.node for line in lines], pa.string()),
        "error": _raw([line.error for line in lines]),
        "final": np.fromiter((line.final for line in lines), np.bool_, size),
    }
    return pa.Table.from_pydict(columns, schema=HISTORY_SCHEMA)


def _raw(raws: list[msgspec.Raw]) -> pa.Array:
    """Return the JSON texts of a column; null and what is absent become null."""
    texts = [bytes(raw) for raw in raws]
    column = pa.array(texts, pa.binary()).cast(pa.string())
    nothing = pc.or_(pc.equal(column, ""), pc.equal(column, "null"))
    return pc.if_else(nothing, pa.scalar(None, pa.string()), column)


def split_keys(table: pa.Table) -> pa.Table:
    """Split values ``[k, v]`` into key and value, as jepsen.independent writes them."""
    keys: list[str | None] = []
    values: list[str | None] = []
    decode = msgspec.json.Decoder(list[msgspec.Raw]).decode
    for key, value in zip(
        table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True
    ):
        if key is None and value is not None and value.startswith("["):
            parts = decode(value)
            if len(parts) == 2:
                key = bytes(parts[0]).decode()
                text = bytes(parts[1]).decode()
                value = None if text == "null" else text
        keys.append(key)
        values.append(value)
    table = table.set_column(
        table.schema.get_field_index("key"), "key", pa.array(keys, pa.string())
    )
    return table.set_column(
        table.schema.get_field_index("value"), "value", pa.array(values, pa.string())
    )
