"""What runs on Spark's Python workers: files in, rows out, by the checkers' own functions.

Each function takes batches of (run, folder, file) and yields record batches. A history's
shard holds whole keys, so a task checks its keys without any shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.calls import Call, pair
from checkers.linearizable import check_keys, explain, model_of, operations_of
from checkers.registry import check
from checkers.run_data import RunData
from histories.fault import FaultEvent
from histories.operation import OK, Op
from histories.parquet import read_parquet
from histories.reading import HISTORY_SCHEMA, TRACE_SCHEMA, from_table, read_faults
from histories.verdict import Validity

WORDS: dict[Validity, str] = {True: "true", False: "false", "unknown": "unknown"}

FILES = "run string, folder string, file string"
OPERATIONS = (
    "run string, key string, f string, process long, type string, node string, final boolean, "
    "invoked long, latency_ms double, fault_window string"
)
KEYS = "run string, key string, valid string, operations long, explanation string"
LEADERS = "run string, epoch long, node string"
FINDINGS = (
    "run string, checker string, valid string, error string, anomaly string, explanation string, "
    "operations array<long>"
)

Batches = Iterable[pa.RecordBatch]
Rows = list[dict[str, Any]]


def operations(batches: Batches) -> Iterator[pa.RecordBatch]:
    """One row per operation: when it began, how it ended, and which faults were on."""
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("key", pa.string()),
            ("f", pa.string()),
            ("process", pa.int64()),
            ("type", pa.string()),
            ("node", pa.string()),
            ("final", pa.bool_()),
            ("invoked", pa.int64()),
            ("latency_ms", pa.float64()),
            ("fault_window", pa.string()),
        ]
    )
    for row in _files(batches):
        windows = fault_windows(read_faults(Path(row["folder"])))
        rows = [_operation(row["run"], call, windows) for call in calls_of(row["file"])]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _operation(run: str, call: Call, windows: list[tuple[int, int, str]]) -> dict[str, Any]:
    latency = None
    if call.type == OK and call.completed is not None:
        latency = (call.completed - call.invoked) / 1e6
    return {
        "run": run,
        "key": None if call.key is None else str(call.key),
        "f": call.f,
        "process": call.process,
        "type": call.type,
        "node": call.node,
        "final": call.final,
        "invoked": call.invoked,
        "latency_ms": latency,
        "fault_window": window_of(call, windows),
    }


def keys(batches: Batches) -> Iterator[pa.RecordBatch]:
    """One row per key: is its history linearizable, and if not, why."""
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("key", pa.string()),
            ("valid", pa.string()),
            ("operations", pa.int64()),
            ("explanation", pa.string()),
        ]
    )
    for row in _files(batches):
        test = RunData.from_folder(Path(row["folder"])).test
        rows: Rows = []
        if "linearizable" in (test.get("checkers") or ()):
            calls = operations_of(calls_of(row["file"]))
            rows = [
                {
                    "run": row["run"],
                    "key": verdict.key,
                    "valid": WORDS[verdict.outcome.valid],
                    "operations": verdict.count,
                    "explanation": explain(verdict.key, verdict.outcome)
                    if verdict.outcome.valid is False
                    else verdict.outcome.reason,
                }
                for verdict in check_keys(model_of(test), calls)
            ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def leaders(batches: Batches) -> Iterator[pa.RecordBatch]:
    """One row per (epoch, node) that the trace shows in state leader."""
    schema = pa.schema([("run", pa.string()), ("epoch", pa.int64()), ("node", pa.string())])
    for row in _files(batches):
        trace = read_parquet(Path(row["file"]), TRACE_SCHEMA)
        led = trace.filter(pa.compute.equal(trace.column("state"), "leader"))
        seats = led.group_by(["epoch", "node"]).aggregate([])
        rows = [{"run": row["run"], **seat} for seat in seats.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def findings(batches: Batches) -> Iterator[pa.RecordBatch]:
    """One row per checker of the run, and one more per anomaly after its first."""
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("checker", pa.string()),
            ("valid", pa.string()),
            ("error", pa.string()),
            ("anomaly", pa.string()),
            ("explanation", pa.string()),
            ("operations", pa.list_(pa.int64())),
        ]
    )
    for row in _files(batches):
        data = RunData.from_folder(Path(row["folder"]))
        verdict = check(data, data.test.get("checkers") or ["stats"])
        rows = []
        for name, result in verdict.checkers.items():
            head = {
                "run": row["run"],
                "checker": name,
                "valid": WORDS[result.valid],
                "error": result.error,
            }
            rows += [
                {
                    **head,
                    "anomaly": a.type,
                    "explanation": a.explanation,
                    "operations": a.operations,
                }
                for a in result.anomalies
            ] or [{**head, "anomaly": None, "explanation": None, "operations": None}]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def calls_of(file: str) -> list[Call]:
    """Return the operations in one shard of a history."""
    table = read_parquet(Path(file), HISTORY_SCHEMA).sort_by("index")
    return pair(from_table(table, Op))


def fault_windows(faults: Iterable[FaultEvent]) -> list[tuple[int, int, str]]:
    """Return (from, to, kind) of every fault, ns; one that never ended lasts for ever."""
    begun: dict[int, FaultEvent] = {}
    windows = []
    for fault in faults:
        if fault.phase == "start":
            begun[fault.id] = fault
        elif fault.id in begun:
            start = begun.pop(fault.id)
            windows.append((start.time, fault.done, start.kind))
    return windows + [(start.time, 1 << 62, start.kind) for start in begun.values()]


def window_of(call: Call, windows: list[tuple[int, int, str]]) -> str:
    """Name the kinds of faults that were on when ``call`` began: "kill+pause", "none"."""
    kinds = {kind for begin, end, kind in windows if begin <= call.invoked < end}
    return "+".join(sorted(kinds)) or "none"


def _files(batches: Batches) -> Iterator[dict[str, str]]:
    for batch in batches:
        yield from batch.to_pylist()
