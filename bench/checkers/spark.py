"""Finds the size from which Spark is faster in ``kraftwreck check`` of one history.

    python -m bench.checkers.spark [--counts 1000000,10000000] [--master local[2]] [--clients N]

Histories are of registers with distinct values, 200 operations a key, in a folder of Parquet
sharded by key (as a run folder has it), which Spark reads once. Each line is a whole command, from
its start to its end: wall seconds, CPU seconds of it and of all its descendants (Java among them),
and its verdict. Results: bench/results/pipeline.md.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.checkers.histories import registers

_PR_SET_CHILD_SUBREAPER = 36
PARTS = 8
PER_KEY = 200


def make(folder: Path, count: int, clients: int, stale: bool) -> None:
    """Write a history in parts, one after the other; each part has its own keys and processes."""
    folder.mkdir()
    each = count // PARTS
    for part in range(PARTS):
        path = folder / f"part-{part:05d}.parquet"
        keys = max(2, each // PER_KEY)
        registers(path, each, clients, keys=keys, stale=stale and part == 0, seed=part)
        table = pq.read_table(path)
        size = len(table)
        process = PARTS * table.column("process").to_numpy() + part
        names = [f"{part}{text}" for text in table.column("key").to_pylist()]
        columns = {
            "index": np.arange(size) * PARTS + part,
            "process": process,
            "key": pa.array(names),
        }
        for name, column in columns.items():
            table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
        pq.write_table(table, path, compression="zstd")


def run(command: list[str]) -> tuple[int, float, float]:
    """Return exit code, wall seconds and CPU seconds of a command and its descendants."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = perf_counter()
    code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    wall = perf_counter() - begun
    while True:  # orphans inherited from its parent: Python workers of the JVM
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return code, wall, cpu


@click.command()
@click.option("--counts", default="1000000,10000000", show_default=True)
@click.option("--master", default="local[2]", show_default=True)
@click.option("--clients", type=click.IntRange(1), default=5, show_default=True)
@click.option("--stale", is_flag=True, help="Plant one stale read.")
def main(counts: str, master: str, clients: int, stale: bool) -> None:
    """Print a table."""
    # Orphans become our children, so that their CPU seconds count.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    click.echo(f"load average {os.getloadavg()[0]:.1f} at the begin\n")
    click.echo("| operations | where | wall s | CPU s | exit code |\n|---|---|---|---|---|")
    tool = str(Path(sys.executable).parent / "kraftwreck")
    for count in map(int, counts.split(",")):
        with tempfile.TemporaryDirectory(prefix="kraftwreck-bench-") as scratch:
            folder = Path(scratch) / "history.parquet"
            make(folder, count, clients, stale)
            for name, more in (("one process", []), (master, ["--master", master])):
                code, wall, cpu = run([tool, "check", str(folder), "-m", "register", *more])
                click.echo(f"| {count:,} | {name} | {wall:.1f} | {cpu:.1f} | {code} |")
                sys.stdout.flush()
    click.echo(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
