"""Records as Arrow tables with fixed schemas, and back to objects.

Columns ``key``, ``value``, ``detail`` and ``evidence`` hold any JSON value as compact JSON text; a
null of the line is an Arrow null. So equal values are equal strings, and one schema fits every
workload.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("f", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("error", pa.string()),
        pa.field("final", pa.bool_(), nullable=False),
    ]
)
TRACE_SCHEMA = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("incarnation", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("mono", pa.int64(), nullable=False),
        pa.field("wall", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("leader", pa.int64(), nullable=False),
        pa.field("voted", pa.int64(), nullable=False),
        pa.field("leo", pa.int64(), nullable=False),
        pa.field("hw", pa.int64(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
FAULT_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("shape", pa.string(), nullable=False),
        pa.field("targets", pa.list_(pa.string()), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("done", pa.int64(), nullable=False),
        pa.field("detail", pa.string()),
        pa.field("evidence", pa.string()),
        pa.field("error", pa.string()),
    ]
)
JSON_COLUMNS = frozenset({"key", "value", "detail", "evidence"})

Record = TypeVar("Record", Op, TraceEvent, FaultEvent)


class HistoryError(BadInputError):
    """A file of a run cannot be read; the message is ``file:line: reason``."""


def to_table(records: Iterable[Op | TraceEvent | FaultEvent], schema: pa.Schema) -> pa.Table:
    """Return ``records`` as a table of ``schema`` (one of this module's), in their order."""
    rows = records if isinstance(records, list) else list(records)
    columns = [
        pa.array(_column(rows, column.name), type=column.type, from_pandas=False)
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(rows: list[Any], name: str) -> list[Any]:
    values = [getattr(row, name) for row in rows]
    if name in JSON_COLUMNS:
        return [None if value is None else to_text(value) for value in values]
    return values


def to_text(value: Any) -> str:
    """Return ``value`` as the compact JSON text used in tables (map keys sorted)."""
    return msgspec.json.encode(value, order="deterministic").decode()


def from_text(text: str | None) -> Any:
    """Return the value that :func:`to_text` wrote; None for an Arrow null."""
    return None if text is None else msgspec.json.decode(text)


def from_table(table: pa.Table, kind: type[Record]) -> list[Record]:
    """Return the records of ``table`` as objects, in the table's order."""
    names = [name for name in kind.__struct_fields__ if name in table.column_names]
    columns = []
    for name in names:
        values = table.column(name).to_pylist()
        if name in JSON_COLUMNS:
            values = [from_text(value) for value in values]
            if name in ("detail", "evidence"):
                values = [value if value is not None else {} for value in values]
        columns.append(values)
    return [kind(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
