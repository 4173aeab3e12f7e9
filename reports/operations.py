"""Operations as columns, each invocation joined with its completion.

Times are microseconds since the start of the test.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kraftwreck.histories.operation import INVOKE, Op

TYPES = ("ok", "fail", "info", "open")
"""The ways in which an operation ends; "open": the history ends before its completion."""

NEVER = 0xFFFFFFFF
"""The latency of an open operation."""

MAX_LANES = 64
MAX_TEXT = 160

Ints = NDArray[np.int64]


class Interned:
    """Distinct texts, numbered in order of appearance; number 0 is the empty text."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._ids: dict[str, int] = {"": 0}
        self._values: dict[bytes, int] = {}

    def add(self, text: str) -> int:
        """Return the number of ``text``."""
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = len(self.texts)
            self.texts.append(text)
        return number

    def value(self, value: Any) -> int:
        """Return the number of a value's text (:func:`value_text`); 0 for None."""
        if value is None:
            return 0
        data = msgspec.json.encode(value)
        number = self._values.get(data)
        if number is None:
            number = self._values[data] = self.add(_cut(data.decode(), MAX_TEXT))
        return number


def value_text(value: Any, limit: int = MAX_TEXT) -> str:
    """Return ``value`` as JSON, cut to ``limit`` characters with its full length appended."""
    return _cut(msgspec.json.encode(value).decode(), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


@dataclass
class Operations:
    """One row per invocation, ordered by start; all arrays have the same length.

    ``latency`` is :data:`NEVER` for open operations, ``type`` a position in :data:`TYPES`.
    ``f``, ``node``, ``key``, ``sent``, ``seen`` and ``error`` are numbers into ``texts``.
    ``completion`` is a history index or -1. ``orphans`` counts completions without an
    invocation.
    """

    start: Ints
    latency: Ints
    type: Ints
    process: Ints
    lane: Ints
    f: Ints
    node: Ints
    key: Ints
    sent: Ints
    seen: Ints
    error: Ints
    invoke: Ints
    completion: Ints
    lanes: list[str]
    texts: list[str]
    orphans: int

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> int:
        """The time of the last event in microseconds."""
        if not len(self):
            return 0
        done = np.where(self.latency == NEVER, 0, self.latency)
        return int((self.start + done).max())

    def rows_of(self, indices: Iterable[int]) -> dict[int, int]:
        """Map each of ``indices`` that belongs to an operation to its row."""
        wanted = np.unique(np.fromiter(indices, np.int64))
        found: dict[int, int] = {}
        for column in (self.invoke, self.completion):
            rows = np.flatnonzero(np.isin(column, wanted[wanted >= 0]))
            found.update(zip(column[rows].tolist(), rows.tolist(), strict=True))
        return found


def _lanes(process: Ints, concurrency: int | None) -> tuple[Ints, list[str]]:
    """Return each row's lane, and the names of the lanes.

    In Jepsen's numbering a crashed process continues as ``process + concurrency`` on the same
    thread, so each thread gets a lane. If the concurrency is unknown, each process gets one. With
    more than :data:`MAX_LANES` processes they share lanes.
    """
    if concurrency is not None and concurrency > 0:
        lane = process % concurrency
        return lane, [f"client {i}" for i in range(int(lane.max(initial=-1)) + 1)]
    names, lane = np.unique(process, return_inverse=True)
    if len(names) > MAX_LANES:
        return lane % MAX_LANES, [f"lane {i}" for i in range(MAX_LANES)]
    return lane.astype(np.int64), [f"process {n}" for n in names]


def join_operations(ops: list[Op], concurrency: int | None = None) -> Operations:
    """Join the events of a history, in index order, into operations."""
    interned = Interned()
    text, value = interned.add, interned.value
    open_type, types = TYPES.index("open"), {name: at for at, name in enumerate(TYPES)}
    # Flat arrays filled by row: a million small lists would slow the garbage collector down.
    start, latency, kind, process, f, node, key, sent, seen, error, invoke, completion = (
        columns := [array("q") for _ in range(12)]
    )
    running: dict[int, int] = {}
    orphans = 0
    for op in ops:
        if op.type == INVOKE:
            running[op.process] = len(start)
            start.append(op.time // 1000)
            latency.append(NEVER)
            kind.append(open_type)
            process.append(op.process)
            f.append(text(op.f))
            node.append(text(op.node or ""))
            key.append(value(op.key))
            sent.append(value(op.value))
            seen.append(0)
            error.append(0)
            invoke.append(op.index)
            completion.append(-1)
            continue
        row = running.pop(op.process, None)
        if row is None:
            orphans += 1
            continue
        latency[row] = min(max(op.time // 1000 - start[row], 0), NEVER - 1)
        kind[row] = types[op.type]
        node[row] = text(op.node) if op.node else node[row]
        seen[row] = value(op.value)
        error[row] = text(op.error[:MAX_TEXT]) if op.error else 0
        completion[row] = op.index
    table = np.array(columns, dtype=np.int64).reshape(12, len(start))
    table = table[:, np.argsort(table[0], kind="stable")]
    lane, lanes = _lanes(table[3], concurrency)
    return Operations(
        start=table[0],
        latency=table[1],
        type=table[2],
        process=table[3],
        lane=lane,
        f=table[4],
        node=table[5],
        key=table[6],
        sent=table[7],
        seen=table[8],
        error=table[9],
        invoke=table[10],
        completion=table[11],
        lanes=lanes,
        texts=interned.texts,
        orphans=orphans,
    )


def seconds(operations: Operations) -> dict[str, list[Any]]:
    """Return series per second: ``p50 p95 p99`` and ``ok fail info``.

    Quantiles are latencies in microseconds of ok operations, by the second of their invocation
    (None if there are none). The others count completions per second.
    """
    length = operations.end // 1_000_000 + 1
    result: dict[str, list[Any]] = {}
    started = operations.start // 1_000_000
    ok = operations.type == TYPES.index("ok")
    groups: list[list[Any]] = [[None] * length for _ in range(3)]
    latencies, second = operations.latency[ok], started[ok]
    cuts = np.flatnonzero(np.diff(second)) + 1
    for part, when in zip(np.split(latencies, cuts), np.split(second, cuts), strict=True):
        if len(part):
            for series, value in zip(groups, np.percentile(part, (50, 95, 99)), strict=True):
                series[int(when[0])] = round(float(value))
    result["p50"], result["p95"], result["p99"] = groups
    done = operations.latency != NEVER
    ended = (operations.start[done] + operations.latency[done]) // 1_000_000
    for code, name in enumerate(TYPES[:3]):
        chosen = ended[operations.type[done] == code]
        result[name] = np.bincount(chosen, minlength=length).tolist()
    return result
