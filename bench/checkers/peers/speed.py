"""Compares the speed of ours with Porcupine's on registers and adya's on transactions.

    python -m bench.checkers.peers.speed registers|transactions [--counts 1000,10000] [--rounds N]

All judge the same files. Ours is a process of its own per round. Its figures are CPU seconds (both
cores, user and system) from opening the file to the verdict, reading included, once from Parquet
and once from JSON lines.

Up to 10,000 register operations the sixth check in one process counts, since loading compiled code
would hide the result (a Go program is compiled before). A further column has the seconds of
checking alone, from paired operations.

The peers read JSON lines. The table shows their seconds with reading, and those of checking alone,
also from paired operations. A peer gets 60 s (--limit) of wall time for checking and 8 GiB of
address space. If it exceeds a limit, the table shows its CPU seconds so far; it is not run again,
nor on more operations. Figures are medians, except that a peer that needs more than 10 s is run
once.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from bench.checkers import elle as ours_elle
from bench.checkers import linearizability as ours_registers
from bench.checkers.histories import registers
from bench.checkers.peers.run import adya, porcupine
from bench.checkers.small import phantom, small
from bench.checkers.transactions import history, write, write_lines

LIMIT = 60.0
CLIENTS = (5, 10, 20, 50)
_WARMED = 10_000
Peer = Callable[[Path], list[dict[str, Any]]]


def peer_cell(peer: Peer, path: Path, rounds: int) -> tuple[str, float | None]:
    """Return a table's cells for a peer, and its CPU seconds of checking if it answered."""
    runs: list[dict[str, Any]] = []
    for _ in range(rounds):
        (told,) = peer(path)[-1:]
        if told["valid"] not in (True, False):
            word = "over 60 s" if told["valid"] == "unknown" else str(told["valid"])
            spent = f"> {told['check_cpu']:.1f}" if "check_cpu" in told else ""
            return f"{word} | {spent} | | {told.get('mib', '')}", None
        runs.append(told)
        if told["check_wall"] > 10:
            break
    check, cpu = (statistics.median(run[k] for run in runs) for k in ("check_cpu", "cpu"))
    word = "valid" if runs[0]["valid"] else "invalid"
    return f"{word} | {check:.4f} | {cpu:.3f} | {max(run['mib'] for run in runs)}", check


class Table:
    """Prints rows, and remembers the sizes at which a peer gave up."""

    def __init__(self, peer: Peer, rounds: int) -> None:
        self._peer, self._rounds = peer, rounds
        self._gave_up: set[tuple[Any, ...]] = set()

    def row(self, kind: tuple[Any, ...], name: str, mine: str, cpu: float, path: Path) -> None:
        """Run the peer, unless it gave up on a smaller history of this kind, and print the row."""
        if kind in self._gave_up:
            theirs, check = "not tried | | | ", None
        else:
            theirs, check = peer_cell(self._peer, path, self._rounds)
        if check is None:
            self._gave_up.add(kind)
        ratio = "" if check is None else f"{check / cpu:.2f}"
        click.echo(f"| {name} | {mine} | {theirs} | {ratio} |")


def _registers(
    counts: list[int],
    rounds: int,
    families: tuple[str, ...],
    clients_of: tuple[int, ...],
    limit: float,
) -> None:
    click.echo(
        "| history | ours | check CPU s | CPU s, Parquet | CPU s, JSON lines | MiB | Porcupine "
        "| check CPU s | CPU s | MiB | Porcupine's check / ours (where not told: with Parquet) |"
        "\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    table = Table(lambda path: porcupine([path], limit), rounds)
    with tempfile.TemporaryDirectory(prefix="kraftwreck-bench-") as scratch:
        folder = Path(scratch)
        columns, lines = folder / "history.parquet", folder / "history.jsonl"
        for family in families:
            for clients in clients_of:
                for wrong in (False, True):
                    for count in counts:
                        name = f"{family}, {count:,}, {clients} clients"
                        _make(family, count, clients, wrong, lines, columns)
                        model = "register" if family != "small" else "cas-register"
                        warm = 5 if count <= _WARMED else 0
                        slow = ours_registers.measure(model, lines, rounds, warm)
                        fast = ours_registers.measure(model, columns, rounds, warm)
                        word = {True: "valid", False: "invalid"}.get(fast.valid, "unknown")
                        check = "" if fast.check is None else f"{fast.check:.4f}"
                        mine = f"{word} | {check} | {fast.cpu:.4f} | {slow.cpu:.4f} | {fast.mib}"
                        name += ", wrong" * wrong
                        spent = fast.cpu if fast.check is None else fast.check
                        table.row((family, clients, wrong), name, mine, spent, lines)


def _make(family: str, count: int, clients: int, wrong: bool, lines: Path, columns: Path) -> None:
    """Write the same history as JSON lines and as Parquet."""
    if family == "small":
        small(lines, count, clients)
        if wrong:
            phantom(lines)
        ours_registers.to_parquet(lines, columns)
        return
    keys = 5_000 if family == "keyed" else 1
    ours_registers.to_lines(
        lines, lambda path: registers(path, count, clients, keys=keys, stale=wrong)
    )
    registers(columns, count, clients, keys=keys, stale=wrong)


def _adya(model: str, limit: float, path: Path) -> list[dict[str, Any]]:
    return adya(model, "strict-serializable", [path], limit)


def _transactions(
    counts: list[int], rounds: int, clients_of: tuple[int, ...], limit: float
) -> None:
    click.echo(
        "| history | ours | CPU s, Parquet | CPU s, JSON lines | MiB | adya | check CPU s | CPU s "
        "| MiB | adya's check / ours |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="kraftwreck-bench-") as scratch:
        columns, lines = Path(scratch) / "history.parquet", Path(scratch) / "history.jsonl"
        for model, planted in ours_elle.PLANTED.items():
            table = Table(partial(_adya, model, limit), rounds)
            for clients in clients_of:
                for what in (None, planted):
                    for count in counts:
                        write(columns, history(model, count, clients, 1, what))
                        write_lines(lines, history(model, count, clients, 1, what))
                        few = 1 if count > 100_000 else rounds
                        slow = ours_elle.measure_ours(lines, model, few)
                        fast = ours_elle.measure_ours(columns, model, few)
                        valid, _, types = fast.verdict.partition("|")
                        word = "valid" if valid == "True" else types.strip("[]").replace("'", "")
                        mine = f"{word} | {fast.cpu:.2f} | {slow.cpu:.2f} | {fast.memory}"
                        name = f"{model}, {count:,}, {clients} clients" + f", {what}" * bool(what)
                        table.row((model, clients, what), name, mine, fast.cpu, lines)


@click.command()
@click.argument("what", type=click.Choice(["registers", "transactions"]))
@click.option("--counts", default="1000,10000,100000,1000000", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--family", "families", type=click.Choice(["distinct", "small", "keyed"]), multiple=True,
    default=("distinct", "small", "keyed"),
)  # fmt: skip
@click.option("--clients", type=int, multiple=True, default=CLIENTS, show_default=True)
@click.option("--limit", type=float, default=LIMIT, show_default=True, help="Seconds of a peer.")
def main(
    what: str,
    counts: str,
    rounds: int,
    families: tuple[str, ...],
    clients: tuple[int, ...],
    limit: float,
) -> None:
    """Print a table."""
    click.echo(f"load average {os.getloadavg()[0]:.1f} at the begin\n")
    numbers = [int(count) for count in counts.split(",")]
    if what == "registers":
        _registers(numbers, rounds, families, clients, limit)
    else:
        _transactions(numbers, rounds, clients, limit)
    click.echo(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
