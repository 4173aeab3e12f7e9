"""Histories of one register with five values, by a simulation of its clients."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

VALUES = 5
INFO = 0.05


def small(path: Path, count: int, clients: int, seed: int = 1) -> None:
    """Write half reads, a quarter writes, a quarter compare-and-set as JSON lines."""
    random = np.random.default_rng(seed)
    kinds = random.random(count)
    values = random.integers(0, VALUES, (count, 2)).tolist()
    info = random.random(count) < INFO
    happens = ~info | (random.random(count) < 0.5)
    lengths = ((random.exponential(1_000_000, count) + 2000) * (1 + 3 * info)).astype(np.int64)
    moments = random.random(count)
    state: Any = None
    answers: list[Any] = [None] * count
    refused = [False] * count
    processes = list(range(clients))
    queue = [
        (int(at), 0, client, -1) for client, at in enumerate(random.integers(0, 10**6, clients))
    ]
    heapq.heapify(queue)
    issued = index = 0
    with path.open("wb") as file:

        def tell(client: int, number: int, kind: str) -> None:
            nonlocal index
            f, value = _asked(kinds[number], values[number])
            value = answers[number] if f == "read" and kind == "ok" else value
            row = {
                "index": index,
                "process": processes[client],
                "type": kind,
                "f": f,
                "value": value,
            }
            file.write(msgspec.json.encode(row) + b"\n")
            index += 1

        while queue:
            now, what, client, number = heapq.heappop(queue)
            if what == 0:
                if issued == count:
                    continue
                number, issued = issued, issued + 1
                tell(client, number, "invoke")
                length = int(lengths[number])
                effect = now + 1 + int(moments[number] * (length - 2))
                heapq.heappush(queue, (effect, 1, client, number))
                heapq.heappush(queue, (now + length, 2, client, number))
            elif what == 1:
                f, value = _asked(kinds[number], values[number])
                if f == "read":
                    answers[number] = state
                elif f == "write":
                    state = value if happens[number] else state
                elif state == value[0]:
                    state = value[1] if happens[number] else state
                else:
                    refused[number] = True
            else:
                kind = "info" if info[number] else "fail" if refused[number] else "ok"
                tell(client, number, kind)
                processes[client] += clients if kind == "info" else 0
                heapq.heappush(queue, (now + 1, 0, client, -1))


def phantom(path: Path) -> None:
    """Make one read, after nine tenths of the history, return a value that was never written."""
    lines = path.read_bytes().splitlines()
    for at in range(len(lines) * 9 // 10, len(lines)):
        row = msgspec.json.decode(lines[at])
        if row["f"] == "read" and row["type"] == "ok":
            row["value"] = VALUES + 1
            lines[at] = msgspec.json.encode(row)
            break
    path.write_bytes(b"\n".join(lines) + b"\n")


def _asked(kind: float, values: list[int]) -> tuple[str, Any]:
    if kind < 0.5:
        return "read", None
    return ("write", values[0]) if kind < 0.75 else ("cas", values)
