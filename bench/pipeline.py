"""Gold over many runs by Spark, compared with DuckDB doing the same; memory of one large run.

``python bench/pipeline.py --runs 100 --operations 10000 --events 100000`` makes a store by seed,
analyzes it, lets DuckDB compute the same aggregates from the same silver files, and compares the
results. ``--incremental`` then adds one run. CPU seconds are those of all processes: driver, JVM
and Python workers, or DuckDB's own; peak memory is the sum of their resident sets (shared pages
count once for each).
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from bench.pipeline_store import CHECKERS, make_run, rows
from kraftwreck.pipeline.analysis import analyze_store
from kraftwreck.pipeline.gold import files, read
from kraftwreck.pipeline.session import session

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
LATENCY = """count(latency_ms) AS count, quantile_cont(latency_ms, 0.5) AS p50_ms,
    quantile_cont(latency_ms, 0.95) AS p95_ms, quantile_cont(latency_ms, 0.99) AS p99_ms,
    max(latency_ms) AS max_ms"""
QUERIES = {
    "rates": """SELECT run, second, f, count(*) AS invoked, count_if(type = 'ok') AS ok,
        count_if(type = 'fail') AS fail, count_if(type = 'info') AS info FROM operations
        GROUP BY ALL""",
    "latency": """SELECT run, second, f, LATENCY FROM operations
        WHERE latency_ms IS NOT NULL GROUP BY ALL""",
    "latency_by_fault": """SELECT run, fault_window, f, LATENCY FROM operations
        WHERE latency_ms IS NOT NULL GROUP BY ALL""",
    "availability": """SELECT run, fault_window, count(*) AS seconds,
        count_if(ok > 0) AS available_s, count_if(ok > 0) / count(*) AS availability,
        sum(invoked)::BIGINT AS invoked, sum(ok)::BIGINT AS ok
        FROM (SELECT run, fault_window, second, count(*) AS invoked, count_if(type = 'ok') AS ok
            FROM operations GROUP BY ALL) GROUP BY run, fault_window""",
    "leaders": """SELECT run, epoch, list_sort(list(DISTINCT node)) AS leaders,
        count(DISTINCT node) AS count, min(time_ns) AS first_ns, max(time_ns) AS last_ns
        FROM trace WHERE state = 'leader' GROUP BY run, epoch""",
}


def _tree() -> list[Path]:
    """Return the /proc folders of this process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(stat[1]), []).append(int(folder.name))
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        found.append(Path("/proc") / str(pid))
        todo += parents.get(pid, [])
    return found


_CPUACCT = Path("/sys/fs/cgroup/cpuacct")
_GROUP = _CPUACCT / f"kraftwreck-bench-{os.getpid()}"


def _enter_group() -> None:
    """Let the kernel count all processes from here on, also those that end unnoticed."""
    try:
        _GROUP.mkdir()
        (_GROUP / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        print(f"CPU seconds miss what ends unnoticed: {error}", file=sys.stderr)


def _leave_group() -> None:
    with contextlib.suppress(OSError):
        for pid in (_GROUP / "cgroup.procs").read_text().split():
            (_CPUACCT / "cgroup.procs").write_text(pid)
        _GROUP.rmdir()


def cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, ended ones included.

    Without a control group those of processes that Spark's daemon does not wait for are missing.
    """
    with contextlib.suppress(OSError):
        return int((_GROUP / "cpuacct.usage").read_text()) / 1e9
    total = 0
    for folder in _tree():
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, stat[11:15]))
    return total / _TICK


class Memory:
    """Samples the resident memory of all processes until it is stopped."""

    def __init__(self) -> None:
        self.peak = 0.0
        self.who: dict[str, float] = {}
        """At the peak, GiB by program: driver, java, workers."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            sizes: dict[str, float] = {}
            for folder in _tree():
                try:
                    pages = int((folder / "statm").read_text().split()[1])
                    name = (folder / "comm").read_text().strip()
                except OSError:
                    continue
                own = folder.name == str(os.getpid())
                name = "driver" if own else "workers" if name.startswith("python") else name
                sizes[name] = sizes.get(name, 0.0) + pages * _PAGE / (1 << 30)
            if sum(sizes.values()) > self.peak:
                self.peak, self.who = sum(sizes.values()), sizes

    def stop(self) -> float:
        """Return the peak in GiB."""
        self._stop.set()
        self._thread.join()
        return self.peak

    def told(self) -> str:
        """Return the peak and each program's part of it."""
        parts = sorted(self.who.items(), key=lambda part: -part[1])
        return f"{self.peak:.2f} GiB ({', '.join(f'{name} {size:.2f}' for name, size in parts)})"


class Phases:
    """CPU and wall seconds between the steps that an analysis reports."""

    def __init__(self) -> None:
        self._last = (cpu_s(), time.monotonic())
        self.taken: dict[str, tuple[float, float]] = {}

    def __call__(self, step: str) -> None:
        name = step.split()[0]
        now = (cpu_s(), time.monotonic())
        before = self.taken.get(name, (0.0, 0.0))
        self.taken[name] = (
            before[0] + now[0] - self._last[0],
            before[1] + now[1] - self._last[1],
        )
        self._last = now


def _duckdb(store: Path) -> tuple[dict[str, Any], float, float]:
    began = (cpu_s(), time.monotonic())
    found = {}
    with duckdb.connect() as db:
        for view in ("operations", "trace"):
            paths = [str(path) for path in files(store, f"silver/{view}")]
            db.read_parquet(paths).create_view(view)
        for name, query in QUERIES.items():
            found[name] = db.sql(query.replace("LATENCY", LATENCY)).to_arrow_table()
    return found, cpu_s() - began[0], time.monotonic() - began[1]


def _same(store: Path, found: dict[str, Any]) -> None:
    """Whether both engines computed the same rows."""

    def value(found: Any) -> Any:
        if isinstance(found, Decimal):  # DuckDB counts in 128 bits.
            return int(found)
        return round(found, 9) if isinstance(found, float) else found

    def plain(table: Any) -> list[str]:
        names = sorted(table.column_names)
        return sorted(str([value(row[name]) for name in names]) for row in table.to_pylist())

    for name, table in found.items():
        assert plain(table) == plain(read(store, name)), name


def main() -> None:
    """Make, analyze, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--incremental", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkers", default=",".join(CHECKERS))
    parser.add_argument("--limit-gib", type=float, help="Fail when it takes more memory.")
    parser.add_argument("--in", dest="folder", help="Where the store is made [default: /tmp].")
    asked = parser.parse_args()
    _enter_group()
    atexit.register(_leave_group)
    with tempfile.TemporaryDirectory(prefix="kraftwreck-bench-", dir=asked.folder) as folder:
        store = Path(folder)
        _timed("make", lambda: _make(store, asked))
        print(f"{asked.runs} runs: {rows(store)} rows of histories, traces", flush=True)
        begun, memory = (cpu_s(), time.monotonic()), Memory()
        with session(asked.master, small=False) as spark:
            spark.range(1000).selectExpr("sum(id)").collect()
            print(f"spark up: {cpu_s() - begun[0]:.1f} CPU-s", flush=True)
            _analyze(store, spark)
            memory.stop()
            print(f"peak memory of all processes: {memory.told()}", flush=True)
            if asked.incremental:
                _make(store, asked, first=asked.runs, runs=1)
                _analyze(store, spark)
                _analyze(store, spark)
        found, cpu, wall = _duckdb(store)
        print(f"duckdb, same aggregates: {cpu:.2f} CPU-s, {wall:.2f} s", flush=True)
        _same(store, found)
        print("results agree", flush=True)
    if asked.limit_gib is not None and memory.peak > asked.limit_gib:
        sys.exit(f"FAILED: more than {asked.limit_gib:g} GiB: {memory.told()}")


def _make(store: Path, asked: argparse.Namespace, first: int = 0, runs: int = 0) -> None:
    checkers = tuple(asked.checkers.split(","))
    for number in range(first, first + (runs or asked.runs)):
        make_run(store, number, asked.operations, asked.events, seed=asked.seed, checkers=checkers)


def _analyze(store: Path, spark: Any) -> None:
    phases = Phases()
    _timed("analyze", lambda: analyze_store(lambda: spark, store, watch=phases))
    verdicts = read(store, "verdicts").group_by(["checker", "valid"]).aggregate([("run", "count")])
    told = sorted(f"{row['checker']} {row['valid']}" for row in verdicts.to_pylist())
    print(f"  verdicts: {', '.join(told)}; load {os.getloadavg()[0]:.1f}", flush=True)
    for name, (cpu, wall) in phases.taken.items():
        print(f"  {name}: {cpu:.1f} CPU-s, {wall:.1f} s", flush=True)


def _timed(name: str, do: Callable[[], Any]) -> None:
    begun = (cpu_s(), time.monotonic())
    do()
    taken = (cpu_s() - begun[0], time.monotonic() - begun[1])
    print(f"{name}: {taken[0]:.1f} CPU-s, {taken[1]:.1f} s", flush=True)


if __name__ == "__main__":
    main()
