"""Histories from and to other tools: Jepsen's EDN and JSON, JSON lines, Parquet, Arrow.

Keywords become strings on reading. Operations of the nemesis (``info`` of a process that is not a
number) are not client operations and are left out. ``time`` and ``index`` default to the
position. With ``independent`` a value ``[k v]`` is split into key and value, as
jepsen.independent writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from kraftwreck.histories import edn
from kraftwreck.histories.events import FORMATS, guess_format, read_events, to_ops
from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import write_table
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table

__all__ = ["FORMATS", "guess_format", "load", "to_edn", "to_json", "to_json_lines", "write"]


def load(path: Path, kind: str | None = None, *, independent: bool = False) -> list[Op]:
    """Return the client operations of any history file, in order.

    Raises :class:`HistoryError` with one line that names the place and the reason.
    """
    return list(to_ops(read_events(path, kind, independent=independent)))


def to_edn(ops: Sequence[Op], *, independent: bool = False) -> str:
    """Return ``ops`` as Jepsen's ``history.edn``: one map per line.

    ``type`` and ``f`` become keywords; with ``independent`` key and value are written as
    one vector ``[k v]``.
    """
    lines = []
    for op in ops:
        record: dict[edn.Keyword, Any] = {}
        for name, value in _fields(op, independent).items():
            word = name in ("type", "f") and edn.is_name(value)
            record[edn.Keyword(name)] = edn.Keyword(value) if word else value
        lines.append(edn.write(record) + "\n")
    return "".join(lines)


def to_json(ops: Sequence[Op], *, independent: bool = False) -> bytes:
    """Return ``ops`` as one JSON array of Jepsen's operation maps."""
    return msgspec.json.encode([_fields(op, independent) for op in ops])


def to_json_lines(ops: Sequence[Op], *, independent: bool = False) -> bytes:
    """Return ``ops`` as JSON lines, the format of a run's folder."""
    rows = (_fields(op, independent) for op in ops) if independent else ops
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def write(ops: Sequence[Op], path: Path, kind: str, *, independent: bool = False) -> None:
    """Write ``ops`` to ``path`` as ``kind``, one of :data:`FORMATS`; at once or not at all.

    With ``independent`` text formats hold ``[k, v]`` as a value. Raises OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    if kind == "edn":
        temporary.write_text(to_edn(ops, independent=independent), encoding="utf-8")
    elif kind == "json":
        temporary.write_bytes(to_json(ops, independent=independent))
    elif kind == "jsonl":
        temporary.write_bytes(to_json_lines(ops, independent=independent))
    else:
        table = to_table(list(ops), HISTORY_SCHEMA)
        if kind == "parquet":
            write_table(table, path)
            return
        with pa.ipc.new_file(temporary, table.schema) as file:
            file.write_table(table)
    temporary.replace(path)


def _fields(op: Op, independent: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "index": op.index,
        "time": op.time,
        "type": op.type,
        "process": op.process,
        "f": op.f,
    }
    if independent and op.key is not None:
        fields["value"] = [op.key, op.value]
    else:
        if op.key is not None:
            fields["key"] = op.key
        fields["value"] = op.value
    if op.node is not None:
        fields["node"] = op.node
    if op.error is not None:
        fields["error"] = op.error
    if op.final:
        fields["final"] = True
    return fields
