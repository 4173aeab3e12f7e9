"""Any history file as a table of :data:`~histories.tables.HISTORY_SCHEMA`.

For checkers that work on whole columns. JSON lines are parsed without making objects of their
values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.histories.column_files import read_columns
from kraftwreck.histories.events import Event, guess_format, read_events, to_ops
from kraftwreck.histories.json_lines import UNREADABLE, lines, reason
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError, from_text, to_table, to_text

_TYPES = ("invoke", "ok", "fail", "info")
_BATCH = 1 << 16
_PLAIN = r'^(0|-?[1-9][0-9]*|"[^"\\]*")$'
"""JSON texts with a unique form: no other text has the same value."""


_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Line(msgspec.Struct, gc=False):
    process: _Int64
    type: str
    f: str
    index: _Int64 = -1
    time: _Int64 = -1
    key: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()
    node: str | None = None
    error: msgspec.Raw = msgspec.Raw()
    final: bool = False


def read_table(path: Path, kind: str | None = None, *, independent: bool = False) -> pa.Table:
    """Return the client events of ``path``, ordered by index.

    Raises :class:`HistoryError` with one line that names the place and the reason.
    """
    kind = kind or guess_format(path)
    if kind in ("parquet", "arrow"):
        table = read_columns(path, kind)
        return with_equal_keys(path, split_keys(table) if independent else table)
    if kind == "jsonl" and not independent:
        table = _json_lines(path)
        if table is not None:
            return with_equal_keys(path, table)
    return table_of(read_events(path, kind, independent=independent))


def with_equal_keys(path: Path, table: pa.Table) -> pa.Table:
    """Return ``table`` with one JSON text for each key, however its file writes it.

    Raises :class:`HistoryError` for a key that is not JSON.
    """
    found = table.column("key").combine_chunks().dictionary_encode()
    plain = pc.match_substring_regex(found.dictionary, _PLAIN)
    if bool(pc.all(plain).as_py() in (True, None)):
        return table
    try:
        texts = [to_text(from_text(text)) for text in found.dictionary.to_pylist()]
    except UNREADABLE as error:
        raise HistoryError(f"{path}: a key is not JSON text: {reason(error)}") from error
    keys = pa.array(texts, pa.string()).take(found.indices)
    return table.set_column(table.schema.get_field_index("key"), table.schema.field("key"), keys)


def table_of(events: Iterable[Event]) -> pa.Table:
    """Return events as a table."""
    return to_table(list(to_ops(events)), HISTORY_SCHEMA)


def _json_lines(path: Path) -> pa.Table | None:
    """Read lines of the usual shape; None if any line has another, so that it is read slowly."""
    decode = msgspec.json.Decoder(_Line).decode
    batches: list[pa.Table] = []
    rows: list[_Line] = []
    try:
        for _, line in lines(path):
            rows.append(decode(line))
            if len(rows) == _BATCH:
                batches.append(_batch(rows))
                rows = []
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    except UNREADABLE:
        return None
    table = pa.concat_tables([*batches, _batch(rows)])
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


def _batch(rows: list[_Line]) -> pa.Table:
    size = len(rows)
    columns: dict[str, Any] = {
        "index": np.fromiter((line.index for line in rows), np.int64, size),
        "process": np.fromiter((line.process for line in rows), np.int64, size),
        "type": pa.array([line.type for line in rows], pa.string()),
        "f": pa.array([line.f for line in rows], pa.string()),
        "key": _raw([line.key for line in rows]),
        "value": _raw([line.value for line in rows]),
        "time": np.fromiter((line.time for line in rows), np.int64, size),
        "node": pa.array([line.node for line in rows], pa.string()),
        "error": _raw([line.error for line in rows]),
        "final": np.fromiter((line.final for line in rows), np.bool_, size),
    }
    return pa.Table.from_pydict(columns, schema=HISTORY_SCHEMA)


def _raw(raws: list[msgspec.Raw]) -> pa.Array:
    """Return the JSON texts of a column; null and missing values become null."""
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
