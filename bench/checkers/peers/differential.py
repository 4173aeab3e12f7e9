"""Compares our verdicts with those of Porcupine and adya, on many small random histories.

    python -m bench.checkers.peers.differential [--count N] [--seed S]

Registers with few values and with distinct ones, compare-and-set, keys; list-append and rw-register
transactions, checked against five consistency models. Some answers to clients are wrong, and some
operations end indeterminate or fail. Every disagreement is printed as the history itself; the exit
code is then 1.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from bench.checkers.peers.run import adya, porcupine
from bench.checkers.random_histories import registers, transactions
from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.linearizability.models import Register
from kraftwreck.checkers.linearizability.zones.registers import decide
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table

MODELS = (
    "strict-serializable",
    "serializable",
    "snapshot-isolation",
    "read-committed",
    "read-uncommitted",
)
_BATCH = 500
History = Sequence[Op]


def write(path: Path, histories: Sequence[History]) -> None:
    """Write histories as JSON lines, separated by empty lines."""
    with path.open("wb") as file:
        for history in histories:
            for op in history:
                row = {
                    "index": op.index, "type": op.type, "process": op.process, "f": op.f,
                    "key": op.key, "value": op.value,
                }  # fmt: skip
                file.write(msgspec.json.encode(row) + b"\n")
            file.write(b"\n")


def ours(history: History) -> Any:
    """Return our verdict on registers."""
    decision = decide(to_table(history, HISTORY_SCHEMA), Register("cas-register"))
    verdicts = [verdict.outcome.valid for verdict in decision.verdicts]
    return False if False in verdicts else "unknown" if "unknown" in verdicts else True


def _batches(count: int) -> Iterator[range]:
    for first in range(0, count, _BATCH):
        yield range(first, min(first + _BATCH, count))


def _tell(kind: str, mine: Any, theirs: Any, history: History) -> None:
    lines = [msgspec.json.encode(op).decode() for op in history]
    click.echo(f"{kind}: ours {mine}, theirs {theirs}\n" + "\n".join(lines))


def compare_registers(count: int, seed: int, path: Path) -> Counter[str]:
    """Compare with Porcupine."""
    found: Counter[str] = Counter()
    for numbers in _batches(count):
        histories = [registers(seed, number) for number in numbers]
        write(path, histories)
        told = [line["valid"] for line in porcupine([path], 60)]
        for history, theirs in zip(histories, told, strict=True):
            mine = ours(history)
            found[f"{mine}"] += 1
            if mine is not theirs:
                found["differ"] += 1
                _tell("register", mine, theirs, history)
    return found


def compare_transactions(model: str, count: int, seed: int, path: Path) -> Counter[str]:
    """Compare with adya, one consistency model after another."""
    found: Counter[str] = Counter()
    for batch, numbers in enumerate(_batches(count)):
        consistency = MODELS[batch % len(MODELS)]
        histories = [transactions(seed, number, model == "list-append") for number in numbers]
        write(path, histories)
        told = adya(model, consistency, [path], 120)
        for history, theirs in zip(histories, told, strict=True):
            result = check_transactions(history, model, consistency_models=[consistency])
            mine = {"valid": result.valid, "not": result.stats["elle"].get("not", [])}
            found[f"{result.valid}"] += 1
            if theirs.get("types") == ["empty-transaction-graph"] and result.valid is True:
                # Elle and this checker count the order in time among the dependencies.
                found["adya leaves out the order in time"] += 1
            elif mine["valid"] != theirs["valid"]:
                found["differ"] += 1
                _tell(f"{model} {consistency}", mine, theirs, history)
            elif set(mine["not"]) != set(theirs.get("not", [])):
                found["differ in not"] += 1
                _tell(f"{model} {consistency}", mine, theirs, history)
    return found


@click.command()
@click.option("--count", type=click.IntRange(1), default=5000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--peer", "peers", type=click.Choice(["porcupine", "adya"]), multiple=True,
    default=("porcupine", "adya"),
)  # fmt: skip
def main(count: int, seed: int, peers: tuple[str, ...]) -> None:
    """Print every disagreement, and how many histories were compared."""
    totals: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "histories.jsonl"
        if "porcupine" in peers:
            totals["register"] = compare_registers(count, seed, path)
        if "adya" in peers:
            for model in ("list-append", "rw-register"):
                totals[model] = compare_transactions(model, count, seed, path)
    for name, found in totals.items():
        click.echo(f"{name}: {dict(found)}")
    sys.exit(any(found["differ"] or found["differ in not"] for found in totals.values()))


if __name__ == "__main__":
    main()
