"""Histories as written, one event at a time; unknown fields are kept.

Jepsen's own checkers read single events and not pairs. Their histories may lack parts that ours
always have: an index, a time, a process, the invocation of a completion. Events are read one by
one: a file of JSON lines, of EDN maps, or a Parquet file is never in memory as a whole.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.histories import edn
from kraftwreck.histories.column_files import read_columns
from kraftwreck.histories.column_size import sized
from kraftwreck.histories.json_array import read_json
from kraftwreck.histories.json_lines import UNREADABLE, lines, reason
from kraftwreck.histories.operation import INFO, INVOKE, Op, OpType
from kraftwreck.histories.tables import HISTORY_SCHEMA, HistoryError, from_table

FORMATS = ("jsonl", "edn", "json", "parquet", "arrow")
_TYPES = get_args(OpType)
_KNOWN = frozenset(
    {"index", "process", "type", "f", "key", "value", "time", "node", "error", "final"}
)
_NOTHING: dict[str, Any] = {}
_BATCH = 65_536
_BLOCK = 1 << 20
_INT64 = range(-(1 << 63), 1 << 63)


class Event(msgspec.Struct, kw_only=True, gc=False):
    """An invocation or a completion, with all fields of its file.

    ``index`` and ``time`` (nanoseconds) are the position when the file has none. ``process`` may be
    None. ``fields`` are the fields that are not Jepsen's core ones. ``line`` is the line of the
    file, or 0 when it has no lines.
    """

    index: int
    process: int | None
    type: OpType
    f: str
    key: Any = None
    value: Any = None
    time: int
    node: str | None = None
    error: Any = None
    final: bool = False
    fields: dict[str, Any] = _NOTHING
    line: int = 0

    def where(self) -> str:
        """Return the place of the event, for an error."""
        return f"line {self.line}" if self.line else f"operation {self.index}"

    def refuse(self, what: str) -> HistoryError:
        """Return the error that the value of this event is invalid: ``what``."""
        text = msgspec.json.encode(self.value, enc_hook=str).decode()
        shown = text if len(text) <= 80 else text[:77] + "..."
        return HistoryError(f"{self.where()}: field value of {self.f!r} {what}, got {shown}")


def guess_format(path: Path, option: str = "--format") -> str:
    """Return the format given by ``path``'s name.

    Raises :class:`HistoryError` that names ``option``, which sets the format.
    """
    suffix = path.suffix.lstrip(".").lower()
    suffix = "arrow" if suffix in ("feather", "ipc") else suffix
    if suffix in FORMATS:
        return suffix
    raise HistoryError(f"{path}: unknown kind of file; say {option} {'|'.join(FORMATS)}")


def read_events(
    path: Path, kind: str | None = None, *, independent: bool = False
) -> Iterator[Event]:
    """Yield the client events of any history file, in its order.

    Events of the nemesis (``info`` of a process that is a word) are left out. With ``independent``
    a value ``[k, v]`` is split into key and value. Raises :class:`HistoryError` with one line that
    names the place and the reason.
    """
    kind = kind or guess_format(path)
    if kind in ("parquet", "arrow"):
        for row in _from_columns(path, kind):
            if independent and row.key is None and isinstance(row.value, list):
                row.key, row.value = _split(row)
            yield row
        return
    yield from events_of(path, read_records(path, kind), independent=independent)


def events_of(
    path: Path, records: Iterable[tuple[int, Any]], *, independent: bool = False
) -> Iterator[Event]:
    """Yield the client events of the records of ``path``, as :func:`read_events` does."""
    for position, (line, record) in enumerate(records):
        where = f"{path}:{line}" if line else f"{path}: operation {position}"
        event = to_event(where, record, position, line, independent)
        if event is not None:
            yield event


def read_records(path: Path, kind: str) -> Iterator[tuple[int, Any]]:
    """Yield the records of a JSON or EDN file, with their lines (0: none), the nemesis' too."""
    try:
        if kind == "jsonl":
            yield from _json_lines(path)
        elif kind == "edn":
            yield from _edn_records(path)
        else:
            yield from read_json(path)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    decode = msgspec.json.Decoder().decode
    for number, line in lines(path):
        try:
            yield number, decode(line)
        except UNREADABLE as error:
            raise HistoryError(f"{path}:{number}: {reason(error)}") from error


def _edn_records(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        for line, value in edn.read_each(_text_parts(path)):
            yield line, plain(value)
    except edn.EdnError as error:
        raise HistoryError(f"{path}: {error}") from error


def _text_parts(path: Path) -> Iterator[str]:
    decoder, lines_before = getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as file:
        block = b" "
        while block:
            block = file.read(_BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line = lines_before + error.object.count(b"\n", 0, error.start) + 1
                raise HistoryError(f"{path}: line {line}: not UTF-8: {error.reason}") from error
            lines_before += text.count("\n")
            yield text


def _from_columns(path: Path, kind: str) -> Iterator[Event]:
    """Read in batches if the file has our columns in order, else as a whole."""
    if kind == "parquet" and not path.is_dir():
        try:
            file = sized(pq.ParquetFile(path), path)
            if file.schema_arrow.equals(HISTORY_SCHEMA):
                yield from _batches(path, file)
                return
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{path}: {' '.join(str(error).split())}") from error
    table = read_columns(path, kind, every=True)
    for start in range(0, len(table), _BATCH):
        yield from of_ops(from_table(table.slice(start, _BATCH), Op))


def _batches(path: Path, file: pq.ParquetFile) -> Iterator[Event]:
    last = -1
    for batch in file.iter_batches(_BATCH):
        for op in from_table(pa.Table.from_batches([batch]), Op):
            if op.index <= last:
                raise HistoryError(
                    f"{path}: operation {op.index} comes after operation {last}; "
                    "sort the table by index"
                )
            last = op.index
            yield _of_op(op)


def _split(event: Event) -> tuple[Any, Any]:
    return tuple(event.value) if len(event.value) == 2 else (None, event.value)


def plain(value: Any) -> Any:
    """Return an EDN value in the form that JSON has for it."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, edn.Keyword | edn.Symbol):
        return value.name
    if isinstance(value, edn.Tagged):
        return plain(value.value)
    if isinstance(value, dict):
        return {_plain_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _plain_key(key: Any) -> Any:
    value = plain(key)
    return value if isinstance(value, str | int) else msgspec.json.encode(value).decode()


def to_event(
    where: str, record: Any, position: int, line: int = 0, independent: bool = False
) -> Event | None:
    """Return the event of one record, None for the nemesis'.

    Raises :class:`HistoryError` naming ``where`` and the field.
    """
    if not isinstance(record, dict):
        raise HistoryError(f"{where}: an operation is a map, got {type(record).__name__}")
    process, kind = record.get("process"), record.get("type")
    if process == "nemesis" or (isinstance(process, str) and kind == INFO):
        return None
    if process is not None:
        # Without the operations of a client the others may look wrong.
        _must_fit(where, "process", process)
    if kind not in _TYPES:
        raise HistoryError(f"{where}: type must be one of {', '.join(_TYPES)}, got {kind!r}")
    index = record.get("index", position)
    moment = record.get("time", position)
    _must_fit(where, "index", index)
    _must_fit(where, "time", moment)
    f = record.get("f")
    if f is not None and not isinstance(f, str):
        raise HistoryError(f"{where}: f must be a word, got {f!r}")
    key, value = record.get("key"), record.get("value")
    if independent and key is None and isinstance(value, list) and len(value) == 2:
        key, value = value
    node = record.get("node")
    extra = _NOTHING
    if len(record) > 6 or not record.keys() <= _KNOWN:
        extra = {name: item for name, item in record.items() if name not in _KNOWN} or _NOTHING
    return Event(
        index=index if index >= 0 else position,
        process=process,
        type=cast(OpType, kind),
        f=f or "",
        key=key,
        value=value,
        time=moment,
        node=node if isinstance(node, str) else None,
        error=record.get("error"),
        final=bool(record.get("final", False)),
        fields=extra,
        line=line,
    )


def _must_fit(where: str, name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number not in _INT64:
        shown = repr(number) if len(repr(number)) <= 80 else repr(number)[:77] + "..."
        raise HistoryError(f"{where}: {name} must be a whole number of 64 bits, got {shown}")


def of_ops(ops: Iterable[Op]) -> Iterator[Event]:
    """Yield operations of our own histories as events."""
    return map(_of_op, ops)


def _of_op(op: Op) -> Event:
    return Event(
        index=op.index,
        process=op.process,
        type=op.type,
        f=op.f,
        key=op.key,
        value=op.value,
        time=op.time,
        node=op.node,
        error=op.error,
        final=op.final,
    )


def to_ops(events: Iterable[Event]) -> Iterator[Op]:
    """Yield ``events`` as operations of ours.

    An event without a process belongs to a client with a single operation: a completion, or an
    invocation and the completion that follows it. Such clients are numbered from -1 down. Raises
    :class:`HistoryError` for an invocation without a process that follows another one, as the
    completions would be ambiguous.
    """
    nameless, waiting = 0, None
    for event in events:
        process = event.process
        if process is None:
            if event.type == INVOKE:
                if waiting is not None:
                    raise HistoryError(
                        f"{event.where()}: process is missing, and the invocation without one at "
                        f"{waiting.where()} has no completion yet; give both a process"
                    )
                waiting = event
                nameless += 1
            elif waiting is not None:
                waiting = None
            else:
                nameless += 1
            process = -nameless
        yield _to_op(event, process)


def _to_op(event: Event, process: int) -> Op:
    error = event.error
    if error is not None and not isinstance(error, str):
        error = msgspec.json.encode(error).decode()
    return Op(
        index=event.index,
        process=process,
        type=event.type,
        f=event.f,
        key=event.key,
        value=event.value,
        time=event.time,
        node=event.node,
        error=error,
        final=event.final,
    )
