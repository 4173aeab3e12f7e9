"""Histories from and to other tools: Jepsen's EDN and JSON, JSON lines, Parquet.

Keywords become strings on reading. Operations of the nemesis (a process that is not a
number) are not client operations and are left out. ``time`` and ``index`` default to the
position. With ``independent`` a value ``[k v]`` is split into key and value, as
jepsen.independent writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from histories import edn
from histories.events import FORMATS, guess_format, read_events, to_ops
from histories.operation import Op

__all__ = ["FORMATS", "guess_format", "load", "to_edn", "to_json", "to_json_lines"]


def load(path: Path, kind: str | None = None, *, independent: bool = False) -> list[Op]:
    """Return the client operations of any history file, in order.

    Raises :class:`HistoryError` with one line saying where and what.
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
            plain = edn.Keyword(value) if name in ("type", "f") and value else value
            record[edn.Keyword(name)] = plain
        lines.append(edn.write(record) + "\n")
    return "".join(lines)


def to_json(ops: Sequence[Op], *, independent: bool = False) -> bytes:
    """Return ``ops`` as one JSON array of Jepsen's operation maps."""
    return msgspec.json.encode([_fields(op, independent) for op in ops])


def to_json_lines(ops: Sequence[Op]) -> bytes:
    """Return ``ops`` as our own JSON lines."""
    return b"".join(msgspec.json.encode(op) + b"\n" for op in ops)


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
