"""From a run folder to silver: typed tables, written by Spark's Python workers as Parquet.

A task reads one file of one run and writes one file. It yields the names and the facts that are
needed later. All work is done on whole columns. Invocations and completions are paired by the same
function as in the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.checkers.linearizability.zones.operations import TYPES, pair_rows
from kraftwreck.checkers.recorded.clocks import NodeClock, node_clocks
from kraftwreck.histories.parquet import read_parquet
from kraftwreck.histories.reading import read_faults, read_history, read_trace
from kraftwreck.histories.tables import HISTORY_SCHEMA, TRACE_SCHEMA, HistoryError, to_text
from kraftwreck.pipeline.apart import apart
from kraftwreck.pipeline.runs import read_test, run_id
from kraftwreck.pipeline.schemas import SILVER
from kraftwreck.pipeline.windows import fault_windows, first_served, joined, name_windows

Batches = Iterable[pa.RecordBatch]
Facts = dict[str, Any]

FILES = "run string, folder string, table string, file string, out string"
WRITTEN = "run string, table string, file string, rows long, facts string, error string"
_WRITTEN = pa.schema(
    [
        ("run", pa.string()),
        ("table", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("facts", pa.string()),
        ("error", pa.string()),
    ]
)
_BATCH = 1 << 17
_SECOND = 1_000_000_000
APART = 4 << 20
"""Files of at least this many bytes are read in a separate process, which may be killed."""
_LARGE = 32 << 20
"""With at least this many bytes of history, every shard of a run is a separate task."""


def sources(folder: Path) -> list[tuple[str, Path]]:
    """Return (table, file or run folder) of everything to be read of a run."""
    history, trace = folder / "history.parquet", folder / "trace.parquet"
    shards = sorted(history.glob("*.parquet"))
    found = [("faults", folder), ("trace", trace if trace.is_file() else folder)]
    if sum(path.stat().st_size for path in shards) >= _LARGE:
        return found + [("operations", shard) for shard in shards]
    return [*found, ("operations", history if shards else folder)]


def write(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Write the silver file of each row of :data:`FILES`; yield the results.

    For an unreadable file the error is yielded; it does not affect other files.
    """
    for batch in batches:
        for row in batch.to_pylist():
            told = {"run": row["run"], "table": row["table"], "file": row["out"]}
            try:
                rows, facts = _write_one(row)
                told |= {"rows": rows, "facts": msgspec.json.encode(facts).decode()}
            except Exception as error:
                told["error"] = one_line(error, row["file"])
            yield pa.RecordBatch.from_pylist([told], schema=_WRITTEN)


def _write_one(row: dict[str, str]) -> tuple[int, Facts]:
    folder, file, out = (Path(row[name]) for name in ("folder", "file", "out"))
    write_table = _WRITERS[row["table"]]
    if size_of(file) < APART:
        return write_table(folder, file, out)
    rows, facts = apart(lambda _: write_table(folder, file, out))
    return rows, facts


def size_of(file: Path) -> int:
    """Return the bytes of a file, of the files in a folder of shards, or of a run's records."""
    if file.is_file():
        return file.stat().st_size
    found = [*file.glob("*.parquet"), *file.glob("*.jsonl"), *file.glob("nodes/*/trace.jsonl")]
    return sum(path.stat().st_size for path in found)


def one_line(error: BaseException, where: str) -> str:
    """Return an error as one line that names the file."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, HistoryError):
        return text
    return f"{where}: {text}"


def _operations(folder: Path, source: Path, out: Path) -> tuple[int, Facts]:
    history = read_history(folder) if source == folder else read_parquet(source, HISTORY_SCHEMA)
    faults = read_faults(folder)
    table = operations(history.sort_by("index"), run_id(folder), fault_windows(faults))
    _write(table, out)
    return len(table), _served(table, faults)


def operations(history: pa.Table, run: str, windows: list[tuple[int, int, str]]) -> pa.Table:
    """Return the operations of a history that is ordered by index.

    Raises :class:`~checkers.calls.HistoryShapeError`.
    """
    pairs = pair_rows(history)
    begun = history.take(pa.array(pairs.begun))
    done = history.take(pa.array(pairs.done, mask=pairs.done < 0))
    invoked = begun.column("time").to_numpy()
    kind = pa.DictionaryArray.from_arrays(pa.array(pairs.outcome), pa.array(TYPES))
    succeeded = pairs.outcome == TYPES.index("ok")
    took = pc.divide(pc.cast(pc.subtract(done.column("time"), begun.column("time")), "double"), 1e6)
    columns = {
        "run": pa.repeat(pa.scalar(run), len(begun)),
        "start": begun.column("index"),
        "completion": done.column("index"),
        "process": begun.column("process"),
        "f": begun.column("f"),
        "key": begun.column("key"),
        "argument": begun.column("value"),
        "value": done.column("value"),
        "type": kind.cast(pa.string()),
        "node": pc.coalesce(done.column("node"), begun.column("node")),
        "error": done.column("error"),
        "final": pc.or_(begun.column("final"), pc.fill_null(done.column("final"), False)),
        "invoked_ns": begun.column("time"),
        "completed_ns": done.column("time"),
        "second": pa.array(invoked // _SECOND),
        "latency_ms": pc.if_else(pa.array(succeeded), took, pa.scalar(None, pa.float64())),
        "fault_window": name_windows(windows, invoked),
    }
    return pa.table(columns, schema=SILVER["operations"])


def _served(table: pa.Table, faults: list[Any]) -> Facts:
    """Return counts, and when clients were first served after the start and end of each fault."""
    counts = {
        row["values"]: row["counts"] for row in table.column("type").value_counts().to_pylist()
    }
    # A node that answers "not leader" responds, but does not serve the client.
    serves = pc.or_(pc.not_equal(table.column("f"), "leader"), pc.is_valid(table.column("value")))
    ok = table.filter(pc.and_(pc.equal(table.column("type"), "ok"), serves))
    moments = (ok.column("invoked_ns").to_numpy(), ok.column("completed_ns").to_numpy())
    pairs = joined(faults)
    ends = [None if end is None else end.done for _, end in pairs]
    last = pc.max(pc.coalesce(table.column("completed_ns"), table.column("invoked_ns"))).as_py()
    return {
        **{name: counts.get(name, 0) for name in ("ok", "fail", "info")},
        "last_ns": last,
        "after_start": first_served([start.done for start, _ in pairs], *moments),
        "after_end": first_served(ends, *moments),
    }


def _trace(folder: Path, source: Path, out: Path) -> tuple[int, Facts]:
    run, clocks = run_id(folder), node_clocks(read_test(folder))
    if source == folder:
        batches: Iterable[pa.RecordBatch] = read_trace(folder).to_batches(_BATCH)
    else:
        # Only one batch of a large trace at a time is in memory.
        batches = pq.ParquetFile(source).iter_batches(_BATCH, columns=TRACE_SCHEMA.names)
    rows = 0
    writer = None
    try:
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(TRACE_SCHEMA.names).cast(TRACE_SCHEMA)
            table = table.append_column("time_ns", _on_test_clock(table, clocks))
            table = table.append_column("run", pa.repeat(pa.scalar(run), len(table)))
            if writer is None:
                out.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(out, SILVER["trace"], compression="zstd")
            writer.write_table(table.select(SILVER["trace"].names).cast(SILVER["trace"]))
            rows += len(table)
    finally:
        if writer is not None:
            writer.close()
    return rows, {}


def _on_test_clock(table: pa.Table, clocks: dict[str, NodeClock]) -> pa.Array:
    mono = table.column("mono").to_numpy()
    nodes = table.column("node").combine_chunks().dictionary_encode()
    codes = nodes.indices.to_numpy()
    times = np.zeros(len(table), np.int64)
    unknown = np.zeros(len(table), np.bool_)
    for code, name in enumerate(nodes.dictionary.to_pylist()):
        mine = codes == code
        clock = clocks.get(name)
        if clock is None:
            unknown |= mine
        elif clock.stretch == clock.squeeze == 1.0:  # Never disturbed: a constant difference.
            times[mine] = mono[mine] - clock.reading(0)
        else:
            times[mine] = [clock.time(int(reading)) for reading in mono[mine]]
    return pa.array(times * 1000, mask=unknown)


def _faults(folder: Path, _: Path, out: Path) -> tuple[int, Facts]:
    pairs = joined(read_faults(folder))
    run = run_id(folder)
    rows = [
        {
            "run": run,
            "id": start.id,
            "kind": start.kind,
            "shape": start.shape,
            "targets": start.targets,
            "started_ns": start.time,
            "struck_ns": start.done,
            "ended_ns": None if end is None else end.time,
            "healed_ns": None if end is None else end.done,
            "detail": to_text(start.detail),
            "evidence": to_text(start.evidence),
            "end_detail": None if end is None else to_text(end.detail),
            "end_evidence": None if end is None else to_text(end.evidence),
            "error": start.error or (None if end is None else end.error),
        }
        for start, end in pairs
    ]
    _write(pa.Table.from_pylist(rows, schema=SILVER["faults"]), out)
    told = ("id", "kind", "shape", "struck_ns", "healed_ns")
    return len(rows), {"faults": [{name: row[name] for name in told} for row in rows]}


def _write(table: pa.Table, out: Path) -> None:
    if len(table):
        out.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, out, compression="zstd")


_WRITERS: dict[str, Callable[[Path, Path, Path], tuple[int, Facts]]] = {
    "operations": _operations,
    "trace": _trace,
    "faults": _faults,
}
