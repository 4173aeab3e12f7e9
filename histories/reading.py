"""A run's live JSON lines, read as records and as tables; the Parquet if there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import (
    SHARDS,
    read_history_parquet,
    read_parquet,
    write_history,
    write_table,
)
from kraftwreck.histories.store import whole_lines
from kraftwreck.histories.tables import HISTORY_SCHEMA, TRACE_SCHEMA, HistoryError, Record, to_table
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import UNDECODABLE


def read_lines(path: Path, kind: type[Record]) -> list[Record]:
    """Return the records of the JSON lines file ``path``; a torn tail is cut off.

    Raises :class:`HistoryError` for a missing file and for any malformed whole line.
    """
    return list(_decode(path, kind))


def _decode(path: Path, kind: type[Record]) -> Iterator[Record]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
    decode = msgspec.json.Decoder(kind).decode
    for number, line in enumerate(data[: whole_lines(data)].splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield decode(line)
        except UNDECODABLE as error:
            raise HistoryError(f"{path}:{number}: {error}") from error


def read_history(run: Path) -> pa.Table:
    """Return a run's operations ordered by index: the live JSON lines, else the Parquet.

    Raises :class:`HistoryError` when the run has neither.
    """
    lines = run / "history.jsonl"
    if lines.exists():
        return to_table(read_lines(lines, Op), HISTORY_SCHEMA)
    return read_history_parquet(run / "history.parquet")


def read_trace(run: Path) -> pa.Table:
    """Return the trace events of all nodes ordered by (node, incarnation, seq)."""
    events: list[TraceEvent] = []
    for path in sorted((run / "nodes").glob("*/trace.jsonl")):
        events.extend(read_lines(path, TraceEvent))
    if not events and (run / "trace.parquet").exists():
        return read_parquet(run / "trace.parquet", TRACE_SCHEMA)
    events.sort(key=lambda event: (event.node, event.incarnation, event.seq))
    return to_table(events, TRACE_SCHEMA)


def read_faults(run: Path) -> list[FaultEvent]:
    """Return the faults of a run in the order they were recorded; none if there is no file."""
    path = run / "faults.jsonl"
    return read_lines(path, FaultEvent) if path.exists() else []


def convert_run(run: Path, shards: int = SHARDS) -> None:
    """Write ``history.parquet`` and ``trace.parquet`` of the run folder ``run``.

    Raises :class:`HistoryError` when the live files cannot be read.
    """
    write_history(read_history(run), run / "history.parquet", shards)
    trace = read_trace(run)
    write_table(trace.cast(TRACE_SCHEMA), run / "trace.parquet")
