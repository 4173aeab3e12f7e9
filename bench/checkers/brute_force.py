"""Compares the checkers with naive judges, on as many small random histories as time allows.

    python -m bench.checkers.brute_force [--seconds S] [--family F] [--state FILE] [--seed N]

Histories are numbered (:mod:`bench.checkers.random_histories`). The judges try every order
(:mod:`bench.checkers.judges`, :mod:`bench.checkers.naive_cycles`). FILE stores the number of
compared histories of each family, so that the next call continues there. Every disagreement is
written beside it as a history; the exit code is then 1. Runs in one process, by default at the
lowest priority.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from operator import eq
from pathlib import Path
from time import monotonic
from typing import Any

import click
import msgspec
import pyarrow as pa

from bench.checkers import judges, naive_cycles
from bench.checkers.random_histories import machine, one_register, transactions
from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.logs import stream
from kraftwreck.checkers.linearizability.logs.decide import AmbiguousError
from kraftwreck.checkers.linearizability.logs.decide import decide as decide_log
from kraftwreck.checkers.linearizability.logs.linearizable import judge_calls
from kraftwreck.checkers.linearizability.logs.operations import from_columns
from kraftwreck.checkers.linearizability.machines import fifo
from kraftwreck.checkers.linearizability.machines.linearizable import check_calls
from kraftwreck.checkers.linearizability.models import MODELS, Register
from kraftwreck.checkers.linearizability.zones import key_values
from kraftwreck.checkers.linearizability.zones.registers import decide
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table

History = list[Op]
_BATCH = 500
_TURN_S = 10.0
Verdicts = Callable[[Sequence[History]], list[Any]]


class Family(msgspec.Struct, frozen=True):
    """The generator of a family of histories, the checker's verdicts, and the true ones."""

    make: Callable[[int, int], History]
    ours: Verdicts
    truth: Callable[[History], Any]
    agree: Callable[[Any, Any], bool] = eq


def _register_truth(**options: bool) -> Callable[[History], bool]:
    """Return the judge of a register with these options of :func:`judges.register`."""

    def truth(history: History) -> bool:
        calls = judges.operations(history, ["read"])
        return judges.explained(calls, None, judges.register(**options))

    return truth


def _keyed(histories: Sequence[History]) -> list[Any]:
    """Judge many histories at once, compiled: each is a key of one table."""
    import kraftwreck.checkers.linearizability.search_kernel  # noqa: F401  # from then on columns are searched

    rows: History = []
    for number, history in enumerate(histories):
        base, shift = len(rows), number * 10_000
        for op in history:
            rows.append(
                msgspec.structs.replace(
                    op, index=base + op.index, process=shift + op.process, key=str(number)
                )
            )
    decision = decide(to_table(rows, HISTORY_SCHEMA), Register("cas-register"), time_limit_s=1e6)
    verdicts: list[Any] = [True] * len(histories)
    for verdict in decision.verdicts:
        verdicts[int(msgspec.json.decode(verdict.key))] = verdict.outcome.valid
    return verdicts


def _searched(model: str) -> Verdicts:
    return lambda histories: [search(MODELS[model], pair(h)).valid for h in histories]


def _machine(name: str, start: Any, step: judges.Step, **options: Any) -> Family:
    model = "lock" if name == "owned-lock" else name

    def ours(histories: Sequence[History]) -> list[Any]:
        found = []
        for history in histories:
            verdicts = [v.outcome.valid for v in check_calls(model, options, pair(history), 60)]
            found.append(all(verdicts))
        return found

    def truth(history: History) -> bool:
        looks = ("contains", "read", "get")
        return judges.explained(judges.operations(history, looks), start, step)

    return Family(lambda seed, number: machine(name, seed, number), ours, truth)


def _sorted_queue(history: History) -> Any:
    calls = pair(history)
    found = fifo.decide(calls)
    if found is None:
        return "undecided"
    return found.valid and fifo.unproven(calls, found.order) is None


def _sorted_strings(history: History) -> Any:
    found = key_values.decide(pair(history))
    return "undecided" if found is None else found.valid


def _queue_truth(history: History) -> bool:
    return judges.explained(judges.operations(history), (), judges.queue(True))


def _log_verdict(history: History) -> Any:
    try:
        outcome, _ = judge_calls(pair(history), monotonic() + 60)
    except AmbiguousError:
        return "ambiguous"
    return outcome.valid


def _log_truth(history: History) -> bool:
    calls = judges.operations(history, ["read", "fetch", "size"])
    if not any(op.f == "read" and op.type == "ok" for op in history):
        told = [call.answer[0] for call in calls if isinstance(call.answer, list) and call.answer
                and call.f == "append"]  # fmt: skip
        for call in calls:
            if call.f == "size":
                told.append(call.answer)
            elif call.f == "fetch":
                told += [offset for offset, _ in call.answer]
        highest = max(told, default=0) + len(calls)
        return judges.explained(calls, (0, ()), judges.log_with_gaps(highest))
    return judges.explained(calls, (), judges.whole_log)


def columns_of(history: History) -> pa.Table:
    """Return a history of appends and fetches of one offset as columns of whole numbers."""
    rows = []
    for op in history:
        value, offset = op.value, None
        if op.f == "fetch":
            offset, value = op.value[0] if op.type == "ok" else (None, None)
        elif op.type == "ok" and isinstance(value, list):
            offset, value = value
        f = "read" if op.f == "fetch" else op.f
        rows.append((op.index, op.process, op.type, f, value, offset))
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64())
    names = ["index", "process", "type", "f", "value", "offset"]
    lists = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(c, k) for c, k in zip(lists, kinds, strict=True)], names)


def _columns_verdict(history: History) -> Any:
    """Judge columns in one pass, and where that is not enough whole; both must agree."""
    table = columns_of(history)
    try:
        whole = decide_log(from_columns(table)).fault is None
    except AmbiguousError:
        whole = None
    passed = stream.run(table.to_batches(3))
    if passed is None:
        return "ambiguous" if whole is None else whole
    legal = passed.fault is None
    return legal if whole in (None, legal) else "the pass differs"


def _lists(consistency: str) -> Family:
    strict = consistency == "strict-serializable"

    def ours(histories: Sequence[History]) -> list[Any]:
        found = []
        for history in histories:
            model = [consistency]
            valid = check_transactions(history, "list-append", consistency_models=model).valid
            found.append(True if valid == "unknown" else valid)
        return found

    def truth(history: History) -> bool:
        return judges.explained(judges.operations(history), ((), ()), judges.lists, timely=strict)

    return Family(lambda seed, n: transactions(seed, n, True, final=True), ours, truth)


def _values(strict: bool) -> Family:
    """A register history with a legal order must not be invalid; others may have any verdict."""
    model = "strict-serializable" if strict else "serializable"

    def ours(histories: Sequence[History]) -> list[Any]:
        return [
            check_transactions(
                history, "rw-register", consistency_models=[model], wfr_keys=strict,
                sequential_keys=strict, linearizable_keys=strict,
            ).valid is not False
            for history in histories
        ]  # fmt: skip

    def truth(history: History) -> Any:
        calls = judges.operations(history)
        legal = judges.explained(calls, (None, None), judges.values, timely=strict)
        return True if legal else None

    return Family(lambda seed, number: transactions(seed, number, False), ours, truth)


def _anomalies(model: str, order: str) -> Family:
    def ours(histories: Sequence[History]) -> list[Any]:
        return [
            naive_cycles.summary(
                check_transactions(history, "list-append", consistency_models=[model]).stats["elle"]
            )
            for history in histories
        ]

    def truth(history: History) -> Any:
        return naive_cycles.anomalies(history, order)

    make = FAMILIES["list-append"].make
    return Family(make, ours, truth, naive_cycles.agree)


FAMILIES: dict[str, Family] = {
    "register": Family(one_register, _keyed, _register_truth()),
    "register-search": Family(
        lambda seed, number: one_register(seed, number, delete=True),
        _searched("cas-register"),
        _register_truth(),
    ),
    "topic-register": Family(
        lambda seed, number: one_register(seed, number, delete=True),
        _searched("topic-register"),
        _register_truth(strict=True),
    ),
    "expiring-register": Family(
        lambda seed, number: one_register(seed, number, delete=True),
        _searched("expiring-register"),
        _register_truth(expires=True),
    ),
    "lock": _machine("lock", None, judges.lock(False)),
    "owned-lock": _machine("owned-lock", None, judges.lock(True), owned=True),
    "fifo-queue": _machine("fifo-queue", (), judges.queue(True)),
    "fifo-queue of distinct values": Family(
        lambda seed, number: machine("distinct-queue", seed, number),
        lambda histories: list(map(_sorted_queue, histories)),
        _queue_truth,
        lambda said, true: said in (true, "undecided"),
    ),
    "unordered-queue": _machine("unordered-queue", (), judges.queue(False)),
    "linearizable-set": _machine("linearizable-set", frozenset(), judges.members),
    "linearizable-counter": _machine("linearizable-counter", 0, judges.counter),
    "key-value": _machine("key-value", "", judges.string),
    "key-value of distinct values": Family(
        lambda seed, number: machine("distinct-strings", seed, number),
        lambda histories: [_sorted_strings(history) for history in histories],
        lambda history: judges.explained(judges.operations(history, ["get"]), "", judges.string),
        lambda said, true: said in (true, "undecided"),
    ),
    "multi-register": _machine(
        "multi-register", (0, 0), judges.several, initial={"x": 0, "y": 0}
    ),
    "log": Family(
        lambda seed, number: machine("log", seed, number),
        lambda histories: list(map(_log_verdict, histories)),
        _log_truth,
    ),
    "log of points": Family(
        lambda seed, number: machine("log of points", seed, number),
        lambda histories: list(map(_columns_verdict, histories)),
        _log_truth,
        lambda said, true: said in (true, "ambiguous"),
    ),
    "list-append, strict": _lists("strict-serializable"),
    "list-append": _lists("serializable"),
    "rw-register, strict": _values(True),
    "rw-register": _values(False),
}  # fmt: skip
FAMILIES |= {
    "anomalies": _anomalies("serializable", ""),
    "anomalies in sessions": _anomalies("strong-session-serializable", "process"),
    "anomalies in time": _anomalies("strict-serializable", "realtime"),
}


def hold(family: Family, seed: int, first: int, count: int) -> tuple[int, list[tuple[Any, ...]]]:
    """Return the number of illegal histories, and the histories that were judged differently."""
    histories = [family.make(seed, number) for number in range(first, first + count)]
    wrong, differing = 0, []
    for history, said in zip(histories, family.ours(histories), strict=True):
        true = family.truth(history)
        wrong += true is not True and true != naive_cycles.NOTHING
        if true is not None and not family.agree(said, true):
            differing.append((said, true, history))
    return wrong, differing


@click.command()
@click.option("--seconds", type=float, default=60.0, show_default=True)
@click.option("--family", "names", type=click.Choice(list(FAMILIES)), multiple=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("build/brute_force.json"))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--nice", type=click.IntRange(0, 19), default=19, show_default=True)
def main(seconds: float, names: tuple[str, ...], state: Path, seed: int, nice: int) -> None:
    """Compare for some seconds, ten for each family in turn; print the counts of all calls."""
    os.nice(max(0, nice - os.nice(0)))
    counts: dict[str, dict[str, int]] = {}
    if state.is_file():
        counts = msgspec.json.decode(state.read_bytes())
    state.parent.mkdir(parents=True, exist_ok=True)
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        for name in names or FAMILIES:
            mine = counts.setdefault(
                f"{name}, seed {seed}", {"histories": 0, "illegal": 0, "differ": 0}
            )
            until = min(deadline, monotonic() + _TURN_S)
            while monotonic() < until:
                wrong, differing = hold(FAMILIES[name], seed, mine["histories"], _BATCH)
                mine["histories"] += _BATCH
                mine["illegal"] += wrong
                mine["differ"] += len(differing)
                for said, true, history in differing:
                    with (state.parent / f"{state.stem}.differ.jsonl").open("ab") as file:
                        row = {"family": name, "ours": said, "true": true, "history": history}
                        file.write(msgspec.json.encode(row) + b"\n")
                state.write_bytes(msgspec.json.encode(counts))
    for name, mine in counts.items():
        click.echo(f"{name}: {mine}")
    click.echo(f"all: {sum(mine['histories'] for mine in counts.values()):,}")
    sys.exit(any(mine["differ"] for mine in counts.values()))


if __name__ == "__main__":
    main()
