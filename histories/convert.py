"""Histories from and to other tools: Jepsen's EDN and JSON, JSON lines, Parquet.

Keywords become strings on reading. Operations of the nemesis (a process that is not a
number) are not client operations and are left out. ``time`` and ``index`` default to the
position. With ``independent`` a value ``[k v]`` is split into key and value, as
jepsen.independent writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from histories import edn
from histories.operation import Op, OpType
from histories.parquet import read_history_parquet
from histories.reading import HistoryError, from_table
from histories.store import whole_lines

FORMATS = ("jsonl", "edn", "json", "parquet")
_TYPES = get_args(OpType)


def guess_format(path: Path) -> str:
    """Return the format that ``path``'s name says. Raises :class:`HistoryError`."""
    suffix = path.suffix.lstrip(".").lower()
    if suffix in FORMATS:
        return suffix
    raise HistoryError(f"{path}: unknown kind of file; say --format {'|'.join(FORMATS)}")


def load(path: Path, kind: str | None = None, *, independent: bool = False) -> list[Op]:
    """Return the client operations of any history file, in order.

    Raises :class:`HistoryError` with one line saying where and what.
    """
    kind = kind or guess_format(path)
    if kind == "parquet":
        return from_table(read_history_parquet(path), Op)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    if kind == "jsonl":
        return _from_json_lines(path, data, independent)
    try:
        text = data.decode()
        records = _edn_records(text) if kind == "edn" else _json_records(text)
    except (edn.EdnError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError(f"{path}: {error}") from error
    ops = []
    for position, record in enumerate(records):
        op = _op(f"{path}: operation {position}", record, position, independent)
        if op is not None:
            ops.append(op)
    return ops


def _from_json_lines(path: Path, data: bytes, independent: bool) -> list[Op]:
    # A last line without its newline is kept if it is whole JSON: other tools leave it off.
    end = whole_lines(data)
    ops: list[Op] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if data.endswith(line) and end < len(data) and number > 1:
                break
            raise HistoryError(f"{path}:{number}: {error}") from error
        op = _op(f"{path}:{number}", record, len(ops), independent)
        if op is not None:
            ops.append(op)
    return ops


def _edn_records(text: str) -> list[Any]:
    values = edn.read_all(text)
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = list(values[0])
    return [_plain(value) for value in values]


def _json_records(text: str) -> list[Any]:
    value = msgspec.json.decode(text)
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> Any:
    """Return an EDN value as JSON would have it."""
    if isinstance(value, edn.Keyword | edn.Symbol):
        return value.name
    if isinstance(value, edn.Tagged):
        return _plain(value.value)
    if isinstance(value, dict):
        return {_plain_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _plain_key(key: Any) -> Any:
    plain = _plain(key)
    return plain if isinstance(plain, str | int) else msgspec.json.encode(plain).decode()


def _op(where: str, record: Any, position: int, independent: bool) -> Op | None:
    if not isinstance(record, dict):
        raise HistoryError(f"{where}: an operation is a map, got {type(record).__name__}")
    process = record.get("process")
    if isinstance(process, str):
        return None
    if not isinstance(process, int) or isinstance(process, bool):
        raise HistoryError(f"{where}: process must be a number, got {process!r}")
    kind = record.get("type")
    if kind not in _TYPES:
        raise HistoryError(f"{where}: type must be one of {', '.join(_TYPES)}, got {kind!r}")
    index, moment = record.get("index", position), record.get("time", position)
    if not isinstance(index, int) or not isinstance(moment, int):
        raise HistoryError(f"{where}: index and time must be whole numbers")
    key, value = record.get("key"), record.get("value")
    if independent and key is None and isinstance(value, list) and len(value) == 2:
        key, value = value
    error = record.get("error")
    if error is not None and not isinstance(error, str):
        error = msgspec.json.encode(error).decode()
    node = record.get("node")
    return Op(
        index=index,
        process=process,
        type=cast(OpType, kind),
        f=str(record.get("f") or ""),
        key=key,
        value=value,
        time=moment,
        node=node if isinstance(node, str) else None,
        error=error,
        final=bool(record.get("final", False)),
    )


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
