"""Small histories with a known contradiction, for the pictures of anomalies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import Verdict

MS = 1_000_000


def _history(calls: list[tuple[int, int, int, str, Any, Any]], key: Any) -> list[Op]:
    """Return the events of ``calls``: (process, from ms, to ms, f, sent, seen)."""
    events: list[tuple[int, int, Op]] = []
    for process, start, end, f, sent, seen in calls:
        common: dict[str, Any] = {"index": 0, "process": process, "f": f, "key": key}
        invoke = Op(**common, type="invoke", value=sent, time=start * MS)
        events += [
            (start, 0, invoke),
            (end, 1, Op(**common, type="ok", value=seen, time=end * MS, node=f"n{process + 1}")),
        ]
    events.sort(key=lambda event: event[:2])
    for index, (_, _, op) in enumerate(events):
        op.index = index
    return [op for _, _, op in events]


def stale_read_ops() -> list[Op]:
    """A register whose value 1 is read again after 3 was: two concurrent writes before."""
    return _history(
        [
            (0, 0, 10, "write", 1, 1),
            (1, 12, 20, "read", None, 1),
            (2, 22, 60, "write", 2, 2),
            (0, 25, 55, "write", 3, 3),
            (1, 65, 80, "read", None, 3),
            (3, 70, 120, "write", 4, 4),
            (2, 85, 100, "read", None, 1),
            (0, 90, 110, "read", None, 4),
        ],
        "x",
    )


def cycle_ops() -> list[Op]:
    """Transactions over lists: a write skew, and a read that misses what had ended before."""
    return _history(
        [
            (0, 0, 2, "txn", [["append", 1, 1]], [["append", 1, 1]]),
            (1, 1, 3, "txn", [["append", 2, 1]], [["append", 2, 1]]),
            (
                0, 4, 6, "txn", [["r", 1, None], ["append", 2, 2]],
                [["r", 1, [1]], ["append", 2, 2]],
            ),
            (
                1, 5, 7, "txn", [["r", 2, None], ["append", 1, 2]],
                [["r", 2, [1]], ["append", 1, 2]],
            ),
            (
                0, 8, 9, "txn", [["r", 1, None], ["r", 2, None]],
                [["r", 1, [1, 2]], ["r", 2, [1, 2]]],
            ),
            (0, 10, 11, "txn", [["append", 3, 1]], [["append", 3, 1]]),
            (
                1, 12, 13, "txn", [["r", 3, None], ["append", 4, 1]],
                [["r", 3, None], ["append", 4, 1]],
            ),
            (2, 16, 17, "txn", [["r", 3, None]], [["r", 3, [1]]]),
        ],
        None,
    )  # fmt: skip


def write_judged_run(folder: Path, ops: list[Op], verdict: Verdict) -> Path:
    """Write a run folder with nothing but a history and its verdict."""
    folder.mkdir(parents=True)
    test = {"system": "kraft", "workload": "register", "faults": [], "nodes": [], "seed": 1}
    (folder / "test.json").write_bytes(msgspec.json.encode(test))
    (folder / "history.jsonl").write_bytes(b"".join(msgspec.json.encode(o) + b"\n" for o in ops))
    (folder / "faults.jsonl").write_bytes(b"")
    (folder / "results.json").write_bytes(msgspec.json.encode(verdict))
    return folder
