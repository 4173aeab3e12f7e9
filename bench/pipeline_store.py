"""A store of synthetic run folders, by seed and of any size.

Histories are linearizable registers (:mod:`bench.checkers.histories`); traces have one leader per
epoch, and positions that only grow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.checkers.histories import registers
from kraftwreck.histories.columns import read_table
from kraftwreck.histories.parquet import write_history, write_table
from kraftwreck.histories.tables import TRACE_SCHEMA

NODES = 5
SECONDS = 60
CHECKERS = ("stats", "linearizable", "topics")
_KINDS = np.array(["commit", "high-watermark", "append", "fetch", "state"])
_FAULTS = ("partition", "kill", "pause")


def make_run(
    store: Path,
    number: int,
    operations: int,
    events: int,
    *,
    seed: int = 1,
    checkers: tuple[str, ...] = CHECKERS,
) -> Path:
    """Write run ``number``; return its folder."""
    folder = (
        store
        / "kraft-register"
        / f"20260101T{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}.000Z-{number}"
    )
    folder.mkdir(parents=True)
    test: dict[str, Any] = {
        "system": "kraft", "workload": "register", "model": "cas-register", "seed": number,
        "faults": list(_FAULTS), "cluster": "sim", "simulated": True, "checkers": checkers,
        "nodes": [f"n{n + 1}" for n in range(NODES)], "concurrency": 10,
        "clock": {f"n{n + 1}": {"offset_us": 1_000_000 * n} for n in range(NODES)},
    }  # fmt: skip
    (folder / "test.json").write_bytes(msgspec.json.encode(test))
    _history(folder, operations, seed + number)
    write_table(trace(events, seed + number), folder / "trace.parquet")
    (folder / "faults.jsonl").write_bytes(b"".join(_faults()))
    return folder


def _history(folder: Path, operations: int, seed: int) -> None:
    whole = folder / "whole.parquet"
    registers(whole, operations, 10, keys=max(16, operations // 1000), seed=seed)
    table = read_table(whole)
    whole.unlink()
    time = table.column("time").to_numpy().astype(np.float64)
    spread = (time / max(time.max(), 1) * SECONDS * 1e9).astype(np.int64)
    place = table.schema.get_field_index("time")
    table = table.set_column(place, table.schema.field(place), pa.array(spread))
    write_history(table, folder / "history.parquet")


def trace(events: int, seed: int) -> pa.Table:
    """Return the trace of five nodes that change their leader every two seconds."""
    random = np.random.default_rng(seed)
    each = events // NODES
    tables = []
    for node in range(NODES):
        at = np.sort(random.integers(0, SECONDS * 1_000_000, each))
        epoch = at // 2_000_000 + 1
        leader = epoch % NODES + 1
        leads = leader == node + 1
        kinds = random.integers(0, len(_KINDS) - 1, each)
        end = np.arange(each, dtype=np.int64)
        columns = {
            "node": _word(np.zeros(each, np.int32), [f"n{node + 1}"]),
            "incarnation": np.ones(each, np.int64),
            "seq": end,
            "mono": at + 1_000_000 * node,
            "wall": at,
            "kind": _word(kinds, _KINDS),
            "state": _word(leads.astype(np.int32), ["follower", "leader"]),
            "epoch": epoch,
            "leader": leader,
            "voted": np.full(each, -1, np.int64),
            "leo": end,
            "hw": np.maximum(end - 1, 0),
            "detail": _word(kinds, [f'{{"of":"{kind}","count":1}}' for kind in _KINDS]),
        }
        # Kinds whose details the checkers parse would need matching details, so there are none.
        columns["kind"] = _word(np.zeros(each, np.int32), ["tick"])
        arrays = [pa.array(columns[field.name]).cast(field.type) for field in TRACE_SCHEMA]
        tables.append(pa.Table.from_arrays(arrays, schema=TRACE_SCHEMA))
    return pa.concat_tables(tables)


def _word(codes: Any, words: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(words)))


def _faults() -> list[bytes]:
    lines = []
    for number in range(10):
        begin = (6 * number + 1) * 1_000_000_000
        for phase, at in (("start", begin), ("stop", begin + 3_000_000_000)):
            fault = {
                "id": number, "phase": phase, "kind": _FAULTS[number % 3], "shape": "one",
                "targets": ["n1"], "time": at, "done": at,
            }  # fmt: skip
            lines.append(msgspec.json.encode(fault) + b"\n")
    return lines


def rows(store: Path) -> tuple[int, int]:
    """Return the events of all histories and of all traces."""
    histories = sum(pq.read_metadata(p).num_rows for p in store.glob("*/*/history.parquet/*"))
    return histories, sum(pq.read_metadata(p).num_rows for p in store.glob("*/*/trace.parquet"))
