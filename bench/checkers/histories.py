"""Histories of registers and logs for the benchmarks, made by array operations.

Closed-loop clients: each operation takes effect at a random moment inside its interval, so a
history is linearizable by construction. 5 % of the operations end ``info`` (half of them took
effect). Their clients continue under new process numbers, as Jepsen's do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

INFO = 0.05
Array = Any


@dataclass(frozen=True)
class Timeline:
    """Operations by invocation: client, process, moments of begin, effect and end."""

    client: Array
    process: Array
    begin: Array
    effect: Array
    end: Array
    info: Array
    happened: Array


def timeline(count: int, clients: int, random: np.random.Generator) -> Timeline:
    """Run ``clients`` closed loops of together ``count`` operations."""
    per = -(-count // clients)
    lengths = (random.exponential(1_000_000, (clients, per)) + 2000).astype(np.int64)
    info = random.random((clients, per)) < INFO
    lengths = np.where(info, 4 * lengths, lengths)
    ends = np.cumsum(lengths + random.integers(1, 20_000, (clients, per)), axis=1)
    begins = ends - lengths
    effects = begins + 1 + (random.random((clients, per)) * (lengths - 2)).astype(np.int64)
    client = np.repeat(np.arange(clients), per).reshape(clients, per)
    before: Array = np.cumsum(info, axis=1) - info
    order = np.argsort(begins, axis=None, kind="stable")[:count]
    happened = ~info | (random.random((clients, per)) < 0.5)
    columns = (client, client + clients * before, begins, effects, ends, info, happened)
    return Timeline(*(column.ravel()[order] for column in columns))


def _events(line: Timeline) -> tuple[Array, Array]:
    """Return operation and whether it ends, event by event."""
    moments = np.concatenate([line.begin, line.end])
    order = np.argsort(moments, kind="stable")
    return order % len(line.begin), order >= len(line.begin)


def _held(writes: Array, effects: Array, keys: Array) -> Array:
    """Return for each operation the last write to its key before it took effect, -1 for none."""
    order = np.lexsort((effects, keys))
    last = np.where(writes[order], np.arange(len(order)), -1)
    start = np.searchsorted(keys[order], keys[order], side="left")
    latest = np.maximum.accumulate(last)
    held = np.full(len(order), -1, np.int64)
    held[order] = np.where(latest >= start, order[np.maximum(latest, 0)], -1)
    return held


def registers(
    path: Path, count: int, clients: int, *, keys: int = 1, stale: bool = False, seed: int = 1
) -> None:
    """Write reads and writes of distinct values; with ``stale`` one read returns an old value."""
    random = np.random.default_rng(seed)
    line = timeline(count, clients, random)
    key = random.integers(0, keys, count)
    write = random.random(count) < 0.5
    held = _held(write & line.happened, line.effect, key)
    value = np.arange(1, count + 1)
    seen = np.where(held >= 0, value[held], 0)
    if stale:
        _make_stale(line, write, held, seen, key, value)
    operation, ends = _events(line)
    read = ~write[operation]
    told = np.where(read, seen[operation], value[operation])
    empty = read & (~ends | line.info[operation] | (seen[operation] == 0))
    columns = {
        "value": pa.array(told.astype("U").tolist(), pa.string(), mask=empty),
        "f": np.where(read, "read", "write"),
    }
    if keys > 1:
        columns["key"] = pa.array([str(k) for k in key[operation].tolist()])
    _write(path, line, operation, ends, columns)


def _make_stale(
    line: Timeline, write: Array, held: Array, seen: Array, key: Array, value: Array
) -> None:
    """Give a late read the value that was overwritten before a finished read saw its successor."""
    count = len(write)
    good = ~write & ~line.info
    for late in range(int(0.9 * count), count):
        if not good[late]:
            continue
        past = np.arange(max(0, late - 20_000), late)
        past = past[good[past] & (key[past] == key[late]) & (held[past] >= 0)]
        past = past[line.end[past] < line.begin[late]]
        for reader in past[::-1]:
            new = held[reader]
            old = np.arange(max(0, int(new) - 20_000), int(new))
            old = old[write[old] & (key[old] == key[late]) & ~line.info[old]]
            old = old[line.end[old] < line.begin[new]]
            if not line.info[new] and len(old) and line.end[new] < line.begin[late]:
                seen[late] = value[old[-1]]
                return
    raise AssertionError("no read can be made stale")


def log(path: Path, count: int, clients: int, *, stale: bool = False, seed: int = 1) -> None:
    """Write appends, answered with offsets, and reads of values near the end."""
    random = np.random.default_rng(seed)
    line = timeline(count, clients, random)
    append = random.random(count) < 0.5
    effects = np.argsort(line.effect, kind="stable")
    place = np.empty(count, np.int64)
    place[effects] = np.cumsum((append & line.happened)[effects]) - 1
    by_offset = effects[(append & line.happened)[effects]]
    offset = np.where(append, place, np.maximum(place - random.integers(0, 50, count), 0))
    if stale:
        # An append gets the offset of another one, long before it.
        pair = by_offset[[len(by_offset) // 2, -1]]
        offset[pair] = offset[pair[::-1]]
    operation, ends = _events(line)
    read = ~append[operation]
    value = np.where(read, by_offset[offset[operation]], operation)
    quiet = ~ends | line.info[operation] | (place[operation] < 0)
    columns = {
        "value": pa.array(value, mask=read & quiet),
        "f": np.where(read, "read", "append"),
        "offset": pa.array(offset[operation], mask=quiet),
    }
    _write(path, line, operation, ends, columns)


def _write(
    path: Path, line: Timeline, operation: Array, ends: Array, columns: dict[str, Any]
) -> None:
    kind = np.where(~ends, 0, np.where(line.info[operation], 2, 1)).astype(np.int8)
    names = pa.array(["invoke", "ok", "info"])
    table = pa.table(
        {
            "index": np.arange(len(operation)),
            "process": line.process[operation],
            "type": pa.DictionaryArray.from_arrays(pa.array(kind), names).cast(pa.string()),
            **columns,
        }
    )
    pq.write_table(table, path, compression="zstd")
