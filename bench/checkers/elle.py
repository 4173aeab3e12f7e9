"""Measures how fast histories of transactions are judged, and in how much memory.

    python -m bench.checkers.elle [--rounds N] [--counts 1000,10000,…] [--elle COMMAND]

Each round is a process of its own that imports, reads a Parquet file and judges it against strict
serializability, so the figures are the waiting time of a user. Wall and CPU seconds are medians,
memory is the largest resident size of the rounds. An available Elle (``--elle``,
``KRAFTWRECK_ELLE`` or ``elle-cli``) judges the same files up to 100,000 transactions in the same
run. Histories: :mod:`bench.checkers.transactions`. Results: bench/results/elle.md.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from bench.checkers import transactions
from kraftwreck.checkers.elle.binding import ElleMissingError, find_elle

CONCURRENCIES = (5, 10, 20, 50)
PLANTED = {"list-append": "G-single-item", "rw-register": "G1c"}
ELLE_UP_TO = 100_000

_NATIVE = """
import resource, sys, time
begun = time.perf_counter()
from pathlib import Path
from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.files import read_history_file
from kraftwreck.histories.without_pandas import leave_pandas_out
leave_pandas_out()
found = check_transactions(read_history_file(Path(sys.argv[1])), sys.argv[2])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(found.valid, found.stats["elle"].get("anomaly-types", []), sep="|")
print(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)
"""
_ELLE = """
import resource, sys, time
from pathlib import Path
from kraftwreck.checkers.elle.binding import check_with_elle
from kraftwreck.checkers.elle.check import Options
from kraftwreck.histories.events import read_events, to_ops
ops = list(to_ops(read_events(Path(sys.argv[1]))))
begun = time.perf_counter()
found = check_with_elle(ops, sys.argv[2], Options(), command=sys.argv[3] or None)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(found.valid, found.stats["elle"].get("anomaly-types", []), sep="|")
print(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)
"""


class Figures(msgspec.Struct):
    """The cost of one history: seconds of wall and CPU, MB of memory, and the verdict."""

    verdict: str
    wall: float
    cpu: float
    memory: int


def measure(code: str, arguments: list[str], rounds: int) -> Figures:
    """Run ``code`` in processes of its own; return medians, and the largest memory."""
    walls, cpus, memories, verdict = [], [], [], ""
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        verdict, figures = done.stdout.strip().splitlines()
        wall, cpu, memory = figures.split()
        walls.append(float(wall))
        cpus.append(float(cpu))
        memories.append(int(memory))
    return Figures(verdict, statistics.median(walls), statistics.median(cpus), max(memories))


def measure_ours(path: Path, model: str, rounds: int) -> Figures:
    """Return the figures of our engine for a file."""
    return measure(_NATIVE, [str(path), model], rounds)


def _row(case: tuple[str, int, int, str | None], engine: str, figures: Figures) -> str:
    model, count, concurrency, planted = case
    valid, _, types = figures.verdict.partition("|")
    names = types.strip("[]").replace("'", "")
    said = {"True": "valid", "False": f"invalid ({names})"}.get(valid, valid)
    return (
        f"| {model} | {count:,} | {concurrency} | {planted or 'none'} | {engine} | {said} "
        f"| {figures.wall:.2f} | {figures.cpu:.2f} | {figures.memory} |"
    )


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--counts", default="1000,10000,100000,1000000", show_default=True)
@click.option("--concurrency", "concurrencies", type=int, multiple=True, default=CONCURRENCIES)
@click.option("--model", "models", multiple=True, default=tuple(PLANTED))
@click.option("--elle", metavar="COMMAND", help="The real Elle, to compare with.")
def main(
    rounds: int,
    counts: str,
    concurrencies: tuple[int, ...],
    models: tuple[str, ...],
    elle: str | None,
) -> None:
    """Print a table of medians."""
    try:
        find_elle(elle)
        compare = True
    except ElleMissingError as error:
        click.echo(f"without Elle itself: {error}", err=True)
        compare = False
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    click.echo(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}\n")
    click.echo(
        "| model | transactions | clients | planted | engine | verdict | wall s | CPU s | MB |"
    )
    click.echo("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kraftwreck-bench-") as folder:
        for model in models:
            for count in map(int, counts.split(",")):
                for clients in concurrencies:
                    for planted in (None, PLANTED[model]):
                        path = Path(folder) / "history.parquet"
                        events = transactions.history(model, count, clients, 1, planted)
                        transactions.write(path, events)
                        case = (model, count, clients, planted)
                        figures = measure_ours(path, model, rounds)
                        click.echo(_row(case, "native", figures))
                        if compare and count <= ELLE_UP_TO:
                            figures = measure(_ELLE, [str(path), model, elle or ""], 1)
                            click.echo(_row(case, "Elle", figures))


if __name__ == "__main__":
    main()
