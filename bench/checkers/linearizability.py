"""Measures how fast histories of registers and logs are decided, from the file to the verdict.

    python -m bench.checkers.linearizability [ROUNDS] [FOLDER]

Every line is a process of its own: median seconds (wall, and CPU of both cores) from the start of
reading to the verdict, without starting Python and its imports, and the greatest memory. ``stale``
plants one read of a value that was overwritten (of a log: two offsets exchanged). Histories:
:mod:`bench.checkers.histories`. ``small`` histories repeat five values, so they are searched.
Results: bench/results/linearizability.md.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from bench.checkers.histories import log, registers
from bench.checkers.small import small
from kraftwreck.histories.columns import read_table

_CHILD = """
import json, re, statistics, sys, time
from pathlib import Path
from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.checkers.linearizability.models import Register
from kraftwreck.checkers.linearizability.zones.operations import pair_rows, read_operations
from kraftwreck.checkers.linearizability.zones.registers import decide
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.without_pandas import leave_pandas_out
import kraftwreck.checkers.linearizability.logs.linearizable
import kraftwreck.checkers.linearizability.compiled_search
leave_pandas_out()
model, path, warm = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
now = time.process_time
for _ in range(warm + 1):
    wall, cpu = time.perf_counter(), now()
    report = find(model).judge(HistoryFile(path), Settings(time_limit_s=60))
    wall, cpu = time.perf_counter() - wall, now() - cpu
checks, cas = [], model == "cas-register"
for _ in range(warm):
    table, begun = HistoryFile(path).table(), now()
    read_operations(table, pair_rows(table), initial=None, cas=cas)
    paired = now()
    decide(table, Register("register", cas=cas), cas=cas)
    checks.append(now() - paired - (paired - begun))
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
check = statistics.median(checks) if checks else None
print(json.dumps({"valid": report.result.valid, "wall": wall, "cpu": cpu, "check": check,
                  "mib": int(peak.group(1)) >> 10}))
"""


class Figures(NamedTuple):
    """A verdict, and the seconds from opening the file to it.

    The seconds of ``check`` alone begin with operations that are paired and numbered (None without
    warm-up).
    """

    valid: Any
    wall: float
    cpu: float
    check: float | None
    mib: int


Make = Callable[[Path], None]


def settings() -> list[tuple[str, str, str, Make]]:
    """Return the measured settings: name, model, suffix, maker."""
    found: list[tuple[str, str, str, Make]] = []
    for clients in (5, 10, 20, 50):
        for stale in (False, True):
            found.append(
                (
                    f"distinct, 1,000,000, {clients} clients{', stale' * stale}",
                    "register",
                    "parquet",
                    partial(registers, count=1_000_000, clients=clients, stale=stale),
                )
            )
    found.append(
        (
            "distinct, 1,000,000, 20 clients, JSON lines",
            "register",
            "jsonl",
            lambda path: to_lines(path, lambda file: registers(file, 1_000_000, 20)),
        )
    )
    for stale in (False, True):
        found.append(
            (
                f"distinct, 1,000,000 over 5,000 keys, 20 clients{', stale' * stale}",
                "register",
                "parquet",
                partial(registers, count=1_000_000, clients=20, keys=5_000, stale=stale),
            )
        )
    for count in (10_000, 100_000):
        for clients in (5, 10, 20, 50):
            found.append(
                (
                    f"small, {count:,}, {clients} clients",
                    "cas-register",
                    "jsonl",
                    partial(small, count=count, clients=clients),
                )
            )
    for stale in (False, True):
        found.append(
            (
                f"log with offsets, 10,000,000, 20 clients{', stale' * stale}",
                "log",
                "parquet",
                partial(log, count=10_000_000, clients=20, stale=stale),
            )
        )
    return found


def to_lines(path: Path, make: Make) -> None:
    """Make a history and write it as JSON lines."""
    columns = path.with_suffix(".made.parquet")
    make(columns)
    table = read_table(columns).select(["index", "process", "type", "f", "key", "value"])
    columns.unlink()
    with path.open("wb") as file:
        for batch in table.to_batches(1 << 16):
            for row in batch.to_pylist():
                row["value"] = None if row["value"] is None else int(row["value"])
                file.write(msgspec.json.encode(row) + b"\n")


def to_parquet(lines: Path, path: Path) -> None:
    """Write a history of JSON lines as Parquet, with whole values as JSON text."""
    pq.write_table(read_table(lines), path, compression="zstd")


def measure(model: str, path: Path, rounds: int, warm: int = 0) -> Figures:
    """Return medians over ``rounds`` processes, and the greatest memory.

    With ``warm`` the process judges the file that many times before, so that compiled code is
    loaded.
    """
    runs = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _CHILD, model, str(path), str(warm)]
        told = subprocess.run(command, check=True, capture_output=True).stdout
        runs.append(Figures(**json.loads(told)))
    wall, cpu = (statistics.median(values) for values in zip(*(r[1:3] for r in runs), strict=True))
    checks = [run.check for run in runs if run.check is not None]
    check = statistics.median(checks) if checks else None
    return Figures(runs[0].valid, wall, cpu, check, max(run.mib for run in runs))


def main() -> None:
    """Print one line per setting."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    words = {True: "valid", False: "invalid", "unknown": "unknown"}
    print(f"Python {platform.python_version()}, {rounds} rounds")
    print("| history | verdict | wall s | CPU s | MiB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch)
        for name, model, suffix, make in settings():
            path = folder / f"history.{suffix}"
            make(path)
            valid, wall, cpu, _, memory = measure(model, path, rounds)
            print(f"| {name} | {words[valid]} | {wall:.2f} | {cpu:.2f} | {memory} |", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
