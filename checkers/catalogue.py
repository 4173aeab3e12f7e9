"""All that ``kraftwreck check`` can hold a history against, by name.

A model here judges a whole history file. Those of :mod:`checkers.models` (states and
transitions) are judged by a search for a linearization, Jepsen's other checkers by a pass
over the events (:mod:`checkers.jepsen`), transactions by their dependency graph
(:mod:`checkers.elle`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from checkers.calls import pair
from checkers.jepsen import (
    banks,
    causal,
    counters,
    long_fork,
    monotonic,
    precedence,
    queues,
    sequential,
    set_full,
    sets,
    statistics,
    unique_ids,
)
from checkers.jepsen.judgement import Judgement
from checkers.jepsen.kafka import checker as kafka
from checkers.linearizable import TIME_LIMIT_S, check_keys, merge
from checkers.models import MODELS, Model, Register
from histories.events import Event
from histories.source import HistoryFile, Source
from histories.verdict import Anomaly, CheckerResult, merge_valid

Options = Mapping[str, Any]


class Settings(msgspec.Struct, kw_only=True):
    """How to judge. ``options`` are the model's own."""

    options: dict[str, Any] = {}
    time_limit_s: float = TIME_LIMIT_S
    independent: bool = False
    engine: str = "native"
    elle: str | None = None


class Report(msgspec.Struct, kw_only=True):
    """What came of a history: the verdict, and ``details`` under Jepsen's and Elle's names.

    ``witness`` returns, for a valid history of a model of states, a legal order: the
    indices of invocations, those of one key in their order.
    """

    result: CheckerResult
    details: dict[str, Any] = {}
    witness: Callable[[], list[int]] | None = None


class HistoryModel(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. ``options`` are the names it takes, with what they mean."""

    name: str
    about: str
    judge: Callable[[Source, Settings], Report]
    aliases: tuple[str, ...] = ()
    options: Mapping[str, str] = {}


def _jepsen(check: Callable[[Iterable[Event], Options], Judgement]) -> Any:
    def judge(source: Source, settings: Settings) -> Report:
        if not settings.independent:
            return _report(check(source.events(), settings.options))
        groups: dict[str, list[Event]] = {}
        for event in source.events():
            key = msgspec.json.encode(event.key, order="deterministic").decode()
            groups.setdefault(key, []).append(event)
        return _merged({k: check(group, settings.options) for k, group in groups.items()})

    return judge


def _report(found: Judgement) -> Report:
    result = CheckerResult(valid=found.valid, anomalies=found.anomalies, error=found.error)
    return Report(result=result, details=found.result)


def _merged(found: dict[str, Judgement]) -> Report:
    """Merge the verdicts of independent keys, as jepsen.independent does."""
    valid = merge_valid(judgement.valid for judgement in found.values())
    anomalies = [
        Anomaly(
            type=anomaly.type,
            explanation=f"Key {key}: {anomaly.explanation}",
            operations=anomaly.operations,
        )
        for key, judgement in found.items()
        for anomaly in judgement.anomalies
    ]
    undecided = [(key, j.error) for key, j in found.items() if j.valid == "unknown"]
    error = f"key {undecided[0][0]}: {undecided[0][1]}" if undecided else None
    details = {
        "valid?": valid,
        "results": {key: judgement.result for key, judgement in found.items()},
        "failures": [key for key, judgement in found.items() if judgement.valid is False],
    }
    return Report(
        result=CheckerResult(valid=valid, anomalies=anomalies, error=error), details=details
    )


def _searched(make: Callable[[Options], Model]) -> Any:
    """Judge by a search for an order."""

    def judge(source: Source, settings: Settings) -> Report:
        model = make(settings.options)
        verdicts = check_keys(model, pair(source.ops()), settings.time_limit_s)
        found = merge(model, verdicts)

        def witness() -> list[int]:
            return [start for verdict in verdicts for start in verdict.outcome.order]

        return _ordered(found, witness)

    return judge


def _ordered(found: CheckerResult, witness: Callable[[], list[int]]) -> Report:
    details = {"valid?": found.valid, **found.stats}
    return Report(result=found, details=details, witness=witness if found.valid is True else None)


def _register(name: str, cas: bool) -> Any:
    """Judge a register: by sorting where values are distinct, else by a search."""

    def judge(source: Source, settings: Settings) -> Report:
        from checkers.zones.registers import decide

        initial = settings.options.get("initial")
        model = Register(name, cas=cas, initial=initial)
        decision = decide(
            source.table(),
            model,
            initial=initial,
            cas=cas,
            time_limit_s=settings.time_limit_s,
        )
        found = merge(model, decision.verdicts, keys=decision.keys, operations=decision.operations)
        found.stats["keys_decided_by_sorting"] = decision.sorted_keys
        return _ordered(found, decision.order)

    return judge


def _machine(name: str) -> Any:
    """Judge a machine, each key (and each element that is independent) by itself."""

    def judge(source: Source, settings: Settings) -> Report:
        from checkers.machines.linearizable import check_calls

        verdicts = check_calls(name, settings.options, pair(source.ops()), settings.time_limit_s)
        found = merge(name, verdicts)

        def witness() -> list[int]:
            return [start for verdict in verdicts for start in verdict.outcome.order]

        return _ordered(found, witness)

    return judge


def _log(source: Source, settings: Settings) -> Report:
    from checkers.logs.linearizable import check_log

    judged = check_log(source, settings.time_limit_s)
    found = merge("log", [verdict for verdict, _ in judged])

    def witness() -> list[int]:
        return [start for _, order in judged for start in order()]

    return _ordered(found, witness)


def _transactions(name: str) -> Any:
    def judge(source: Source, settings: Settings) -> Report:
        from checkers.elle import check_transactions
        from checkers.elle.files import read_history_file

        options = {key.replace("-", "_"): value for key, value in settings.options.items()}
        if settings.engine == "elle":
            from checkers.elle.binding import Limits, check_with_elle
            from checkers.elle.check import Options as Asked

            limits = Limits(seconds=settings.time_limit_s)
            asked = Asked(**options)
            asked.forbidden()
            ops = list(source.ops())
            found = check_with_elle(ops, name, asked, command=settings.elle, limits=limits)
            return Report(result=found, details=dict(found.stats.get("elle", {})))
        history = (
            read_history_file(source.path, source.kind)
            if isinstance(source, HistoryFile)
            else list(source.ops())
        )
        found = check_transactions(history, name, **options)
        return Report(result=found, details=dict(found.stats["elle"]))

    return judge


_INITIAL = {"initial": "the value before any write [default: null]"}
_ELLE = {
    "consistency-models": 'a list [default: ["strict-serializable"]]',
    "anomalies": "a list of anomalies that must not be either",
    "cycle-search-seconds": "how long to search each component for cycles",
}
_ENTRIES = [
    HistoryModel(
        name="set",
        about="what was added is in the last read, and nothing else",
        judge=_jepsen(sets.check),
    ),
    HistoryModel(
        name="set-full",
        about="every element stays in all reads once it was there",
        judge=_jepsen(set_full.check),
        options={"linearizable?": "true: an element may not be missing at first either"},
    ),
    HistoryModel(
        name="queue",
        about="what is dequeued was enqueued",
        judge=_jepsen(queues.check_queue),
        options={"order": "fifo: elements leave in the order of the invocations of enqueue"},
    ),
    HistoryModel(
        name="total-queue",
        about="what was enqueued comes out, in a history that drains the queue",
        judge=_jepsen(queues.check_total_queue),
    ),
    HistoryModel(
        name="unique-ids",
        about="no id is handed out twice",
        judge=_jepsen(unique_ids.check),
    ),
    HistoryModel(
        name="counter",
        about="reads lie between what was and what may have been added",
        judge=_jepsen(counters.check),
    ),
    HistoryModel(
        name="bank",
        about="every read sees all the money",
        judge=_jepsen(banks.check),
        options={
            "accounts": "a list [default: those of the first read]",
            "total-amount": "a number [default: that of the first read]",
            "negative-balances?": "true: balances may be below zero",
        },
    ),
    HistoryModel(
        name="long-fork",
        about="no two reads see two writes in opposite order",
        judge=_jepsen(long_fork.check),
        options={"group-size": "how many keys every read has [default: any]"},
    ),
    HistoryModel(
        name="monotonic",
        about="values only grow",
        judge=_jepsen(monotonic.check),
        options={
            "global?": "false: values grow per process only",
            "linearizable?": "true: reads of one number never return less than an earlier read",
        },
    ),
    HistoryModel(
        name="sequential",
        about="what one client wrote in order is seen in order",
        judge=_jepsen(sequential.check),
        options={"key-count": "how many parts a key has, to count complete reads"},
    ),
    HistoryModel(
        name="causal",
        about="a causal order of reads and writes of a register",
        judge=_jepsen(causal.check),
        aliases=("causal-register",),
    ),
    HistoryModel(
        name="causal-reverse",
        about="who sees a write sees all that were done before it began",
        judge=_jepsen(precedence.check),
        aliases=("comments",),
    ),
    HistoryModel(
        name="kafka",
        about="what a log that is sent to and polled must not do",
        judge=_jepsen(kafka.check),
        options={
            "sub-via": '["subscribe"]: consumers may be rebalanced between operations',
            "ww-deps": "true: the order of the log counts as order of transactions",
        },
    ),
    HistoryModel(
        name="stats",
        about="every kind of operation succeeds at least once",
        judge=_jepsen(statistics.check_stats),
    ),
    HistoryModel(
        name="unhandled-exceptions",
        about="which exceptions ended operations (never invalid)",
        judge=_jepsen(statistics.check_exceptions),
    ),
    HistoryModel(
        name="register",
        about="a linearizable register of reads and writes",
        judge=_register("register", cas=False),
        options=_INITIAL,
    ),
    HistoryModel(
        name="cas-register",
        about="a linearizable register of reads, writes and compare-and-set",
        judge=_register("cas-register", cas=True),
        options=_INITIAL,
    ),
    HistoryModel(
        name="list-append",
        about="transactions that append to lists and read them, by Elle's rules",
        judge=_transactions("list-append"),
        options=_ELLE,
    ),
    HistoryModel(
        name="rw-register",
        about="transactions that write registers and read them, by Elle's rules",
        judge=_transactions("rw-register"),
        options=_ELLE
        | {
            "sequential-keys": "true: each key is sequentially consistent",
            "linearizable-keys": "true: each key is linearizable",
            "wfr-keys": "true: a transaction's write of a key follows its read of it",
            "transaction-order": '{"7": 1, ...}: where the transaction with that end stands',
        },
    ),
    HistoryModel(
        name="closed-predicate",
        about="transactions with predicate reads over objects that an init operation makes",
        judge=_transactions("closed-predicate"),
        options=_ELLE,
    ),
    HistoryModel(
        name="lock",
        about="a linearizable lock: acquire and release",
        judge=_machine("lock"),
        aliases=("mutex",),
        options={"owned": "true: only the process that holds it may release it"},
    ),
    HistoryModel(
        name="fifo-queue",
        about="a linearizable queue that keeps its order",
        judge=_machine("fifo-queue"),
    ),
    HistoryModel(
        name="unordered-queue",
        about="a linearizable queue that need not keep its order",
        judge=_machine("unordered-queue"),
    ),
    HistoryModel(
        name="linearizable-set",
        about="a linearizable set: add, remove, contains, read",
        judge=_machine("linearizable-set"),
    ),
    HistoryModel(
        name="linearizable-counter",
        about="a linearizable counter: add, read",
        judge=_machine("linearizable-counter"),
    ),
    HistoryModel(
        name="multi-register",
        about="linearizable transactions over registers",
        judge=_machine("multi-register"),
        options={"initial": "a map of names to values [default: none]"},
    ),
    HistoryModel(
        name="log",
        about="a linearizable append-only log: append, read, fetch, size",
        judge=_log,
    ),
    HistoryModel(
        name="topic-register",
        about="a linearizable register that is written only while it is there",
        judge=_searched(lambda options: MODELS["topic-register"]),
    ),
    HistoryModel(
        name="set-presence",
        about="one element of a set: created only while absent, deleted only while present",
        judge=_searched(lambda options: MODELS["set-presence"]),
    ),
]
CATALOGUE: dict[str, HistoryModel] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> HistoryModel:
    """Return a model by its name, an alias, or Jepsen's class name (``SetFull``).

    Raises :class:`KeyError` with the names there are.
    """
    wanted = _folded(name)
    for entry in CATALOGUE.values():
        if wanted in map(_folded, (entry.name, *entry.aliases)):
            return entry
    raise KeyError(f"model {name!r} is not there; models: {', '.join(sorted(CATALOGUE))}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def options_of(entry: HistoryModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` under the model's own option names (a trailing ``?`` may lack).

    Raises :class:`KeyError` for a name that the model does not take.
    """
    known = {name.rstrip("?"): name for name in entry.options}
    options = {}
    for name, value in given.items():
        if name.rstrip("?") not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise KeyError(f"model {entry.name} takes no option {name!r}; it takes: {takes}")
        options[known[name.rstrip("?")]] = value
    return options
