"""Compares verdicts of the native engine with those of the real Elle, through the wrapper.

    KRAFTWRECK_ELLE=elle-cli.jar python -m bench.checkers.peers.elle_differential [--count N]

Random list-append and rw-register histories are checked against several consistency models. Every
difference has a cause: a documented one that this module recognises, or ``unexplained``. An
unexplained one is printed with its history, and the exit code is 1.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
import msgspec

from bench.checkers.random_histories import transactions
from kraftwreck.checkers.elle.binding import ElleError, ElleMissingError, check_all_with_elle
from kraftwreck.checkers.elle.check import Options, analyze
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import CheckerResult

History = Sequence[Op]
MODELS = (
    "strict-serializable",
    "strong-session-snapshot-isolation",
    "serializable",
    "snapshot-isolation",
    "repeatable-read",
    "read-committed",
    "read-uncommitted",
)
SAME = "same verdict, models and anomalies"
KINDS = "same verdict and models; one of them names more kinds of cycles"
INDETERMINATE = "Elle believes reads of info completions"
GARBAGE = "Elle has no garbage-read: it fails on lists and accepts registers"
FUTURE = "Elle has no future-read of registers, or calls it G1c"
LOOP = "Elle counts what a transaction does to a register that it read itself as a dependency"
CONTESTED = "Elle chooses one of several longest reads that differ"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Difference:
    """A history with two different verdicts, and the cause."""

    cause: str
    model: str
    options: Options
    history: History
    ours: dict[str, Any]
    theirs: dict[str, Any]


@dataclass
class Comparison:
    """How often each cause occurred, and the differences without a known cause."""

    causes: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    unexplained: list[Difference] = field(default_factory=list)

    def add(self, found: Difference) -> None:
        """Count one comparison."""
        self.causes[found.cause] += 1
        self.verdicts[f"{found.model}: {found.ours['valid?']}"] += 1
        if found.cause == UNEXPLAINED:
            self.unexplained.append(found)

    def table(self) -> str:
        """Return the causes as a Markdown table, the most frequent first."""
        rows = [f"| {cause} | {times} |" for cause, times in self.causes.most_common()]
        return "\n".join(["| cause | histories |", "|---|--:|", *rows])


def random_history(seed: int, number: int, lists: bool) -> list[Op]:
    """Return a history; some have an impossible read, or ``info`` completions that report reads."""
    ops = transactions(seed, number, lists)
    rnd = random.Random(f"reads {lists} {seed} {number}")
    if rnd.random() < 0.05:
        ops = _with_impossible_read(rnd, ops, lists)
    if not lists or rnd.random() < 2 / 3:
        return ops
    states: dict[Any, list[Any]] = {"x": [[]], "y": [[]]}
    for op in ops:
        for f, key, value in op.value if op.type == "ok" else ():
            if f == "r" and value is not None:
                states[key].append(value)
    return [
        msgspec.structs.replace(op, value=[_read(rnd, states, mop) for mop in op.value])
        if op.type == "info" and rnd.random() < 0.7
        else op
        for op in ops
    ]


def _with_impossible_read(rnd: random.Random, ops: list[Op], lists: bool) -> list[Op]:
    """Return the history with one value added or changed in one committed read."""
    reads = [(at, place) for at, op in enumerate(ops) if op.type == "ok"
             for place, mop in enumerate(op.value) if mop[0] == "r"]  # fmt: skip
    if not reads:
        return ops
    at, place = rnd.choice(reads)
    value: Any = rnd.randint(1, 12)
    mops = [list(mop) for mop in ops[at].value]
    mops[place][2] = [*(mops[place][2] or ()), value] if lists else value
    changed = msgspec.structs.replace(ops[at], value=mops)
    return [*ops[:at], changed, *ops[at + 1 :]]


def _read(rnd: random.Random, states: dict[Any, list[Any]], mop: list[Any]) -> list[Any]:
    return ["r", mop[1], rnd.choice(states[mop[1]])] if mop[0] == "r" else mop


def compare(
    histories: Sequence[History], model: str, options: Options, command: str | None = None
) -> Iterator[Difference]:
    """Yield the verdicts of the two engines for each history.

    Raises :class:`~checkers.elle.binding.ElleMissingError` when there is no Elle to call.
    """
    verdicts = check_all_with_elle(histories, model, options, command=command)
    for history, verdict in zip(histories, verdicts, strict=True):
        ours = analyze(history, model, options).result
        theirs = _result(verdict)
        cause = _cause(history, model, options, ours, theirs)
        yield Difference(cause, model, options, history, ours, theirs)


def _result(verdict: CheckerResult | ElleError) -> dict[str, Any]:
    if isinstance(verdict, ElleError):
        return {"valid?": "failed", "error": str(verdict)}
    found: dict[str, Any] = verdict.stats.get("elle") or {"valid?": verdict.valid}
    return found


def _claims(result: dict[str, Any]) -> tuple[Any, ...]:
    return (result["valid?"], result.get("not") or [], result.get("also-not") or [])


def _types(result: dict[str, Any]) -> set[str]:
    return set(result.get("anomaly-types") or ())


def _cause(
    history: History, model: str, options: Options, ours: dict[str, Any], theirs: dict[str, Any]
) -> str:
    if _claims(ours) == _claims(theirs):
        return SAME if _types(ours) == _types(theirs) else KINDS
    empty = _types(ours) == {"empty-transaction-graph"}
    if model == "rw-register" and empty and theirs["valid?"] is True:
        return LOOP
    # All that this engine knows, whatever model was requested.
    every = replace(options, consistency_models=("strict-serializable",))
    believed = replace(every, indeterminate_reads=True)
    known = _types(analyze(history, model, every).result)
    if model == "list-append":
        as_elle = analyze(history, model, replace(options, indeterminate_reads=True)).result
        if _claims(as_elle) != _claims(ours) and _claims(as_elle) == _claims(theirs):
            return INDETERMINATE
        known |= _types(analyze(history, model, believed).result)
    if "garbage-read" in known:
        return GARBAGE
    if model == "rw-register" and "future-read" in known:
        return FUTURE
    if "incompatible-order" in known and _contested(history):
        return CONTESTED
    return UNEXPLAINED


def _contested(history: History) -> bool:
    """Return whether the longest reads of some key differ."""
    reads: dict[Any, set[tuple[Any, ...]]] = {}
    for op in history:
        if op.type in ("ok", "info"):
            for f, key, value in op.value:
                if f == "r" and value:
                    reads.setdefault(key, set()).add(tuple(value))
    most = {key: max(map(len, seen)) for key, seen in reads.items()}
    return any(sum(len(read) == most[key] for read in seen) > 1 for key, seen in reads.items())


def compare_random(count: int, seed: int, command: str | None = None) -> Comparison:
    """Compare ``count`` random histories, spread over both models and all of :data:`MODELS`."""
    found = Comparison()
    cells = [(model, consistency) for model in ("list-append", "rw-register")
             for consistency in MODELS]  # fmt: skip
    for at, (model, consistency) in enumerate(cells):
        numbers = range(count * at // len(cells), count * (at + 1) // len(cells))
        lists = model == "list-append"
        histories = [random_history(seed, number, lists) for number in numbers]
        options = Options(consistency_models=(consistency,))
        for difference in compare(histories, model, options, command):
            found.add(difference)
    return found


def shown(difference: Difference) -> str:
    """Return a difference with its history as JSON lines."""
    lines = [msgspec.json.encode(op).decode() for op in difference.history]
    asked = ", ".join(difference.options.consistency_models)
    names = ("valid?", "anomaly-types", "not", "error")
    told = [{name: result[name] for name in names if name in result}
            for result in (difference.ours, difference.theirs)]  # fmt: skip
    return f"{difference.model} {asked}: ours {told[0]}, Elle's {told[1]}\n" + "\n".join(lines)


@click.command()
@click.option("--count", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--elle", "command", metavar="COMMAND", help="[default: KRAFTWRECK_ELLE]")
def main(count: int, seed: int, command: str | None) -> None:
    """Print how often each cause occurred, and every difference without a known cause."""
    try:
        found = compare_random(count, seed, command)
    except ElleMissingError as error:
        raise click.UsageError(str(error)) from None
    for difference in found.unexplained:
        click.echo(shown(difference))
    click.echo(found.table())
    click.echo(", ".join(f"{verdict} {times}" for verdict, times in sorted(found.verdicts.items())))
    sys.exit(1 if found.unexplained else 0)


if __name__ == "__main__":
    main()
