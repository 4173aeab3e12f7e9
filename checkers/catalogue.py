"""The models that ``kraftwreck check`` can judge a history by, by name.

A model here judges a whole history file. Models of states and transitions
(:mod:`checkers.linearizability.models`) are judged by a search for a linearization, Jepsen's other
checkers by a pass over the events (:mod:`checkers.jepsen`), transactions by their dependency graph
(:mod:`checkers.elle`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.checkers.jepsen import (
    banks,
    causal,
    counters,
    log_files,
    long_fork,
    monotonic,
    precedence,
    queues,
    sequential,
    set_full,
    sets,
    statistics,
    timing,
    unique_ids,
)
from kraftwreck.checkers.jepsen.kafka import checker as kafka
from kraftwreck.checkers.judging import (
    HistoryModel,
    Report,
    Settings,
    judge_clock,
    judge_jepsen,
    judge_log,
    judge_log_files,
    judge_machine,
    judge_register,
    judge_searched,
    judge_transactions,
)
from kraftwreck.checkers.linearizability.models import MODELS

__all__ = ["CATALOGUE", "HistoryModel", "Report", "Settings", "find", "options_of"]

_INITIAL = {"initial": "the value before any write [default: null]"}
_ELLE = {
    "consistency-models": 'a list [default: ["strict-serializable"]]',
    "anomalies": "a list of additional anomalies to forbid",
    "cycle-search-seconds": "how long to search each component for cycles",
}
_ENTRIES = [
    HistoryModel(
        name="set",
        about="all added elements are in the last read, and no others",
        judge=judge_jepsen(sets.check),
        by_the_end=True,
    ),
    HistoryModel(
        name="set-full",
        about="an element that was read or acknowledged stays in all later reads",
        judge=judge_jepsen(set_full.check),
        by_the_end=True,
        options={"linearizable?": "true: reads after an acknowledged add must have the element"},
    ),
    HistoryModel(
        name="queue",
        about="every dequeued element was enqueued",
        judge=judge_jepsen(queues.check_queue),
        options={"order": "fifo: elements leave in the order of the invocations of enqueue"},
    ),
    HistoryModel(
        name="total-queue",
        about="every enqueued element is dequeued, in a history that drains the queue",
        judge=judge_jepsen(queues.check_total_queue),
        by_the_end=True,
    ),
    HistoryModel(
        name="unique-ids",
        about="no id is handed out twice",
        judge=judge_jepsen(unique_ids.check),
    ),
    HistoryModel(
        name="counter",
        about="reads lie between the certain and the possible sum of the adds",
        judge=judge_jepsen(counters.check),
    ),
    HistoryModel(
        name="bank",
        about="every read of the balances has the same total",
        judge=judge_jepsen(banks.check),
        options={
            "accounts": "a list [default: those of the first read]",
            "total-amount": "a number [default: that of the first read]",
            "negative-balances?": "true: balances may be below zero",
        },
    ),
    HistoryModel(
        name="long-fork",
        about="no two reads see two writes in opposite orders",
        judge=judge_jepsen(long_fork.check),
        options={"group-size": "how many keys every read has [default: any]"},
    ),
    HistoryModel(
        name="monotonic",
        about="values never decrease",
        judge=judge_jepsen(monotonic.check),
        options={
            "global?": "false: values grow per process only",
            "linearizable?": "true: reads of one number never return less than an earlier read",
        },
    ),
    HistoryModel(
        name="sequential",
        about="the writes of one client are seen in their order",
        judge=judge_jepsen(sequential.check),
        options={"key-count": "how many parts a key has, to count complete reads"},
    ),
    HistoryModel(
        name="causal",
        about="a causal order of reads and writes of a register",
        judge=judge_jepsen(causal.check),
        aliases=("causal-register",),
    ),
    HistoryModel(
        name="causal-reverse",
        about="a read that sees a write also sees all writes that ended before it began",
        judge=judge_jepsen(precedence.check),
        aliases=("comments",),
    ),
    HistoryModel(
        name="kafka",
        about="sends and polls of a log: lost, reordered, duplicate and aborted records",
        judge=judge_jepsen(kafka.check),
        by_the_end=True,
        options={
            "sub-via": '["subscribe"]: consumers may be rebalanced between operations',
            "ww-deps": "true: the order of the log also orders transactions",
        },
    ),
    HistoryModel(
        name="stats",
        about="every kind of operation succeeds at least once",
        judge=judge_jepsen(statistics.check_stats),
        by_the_end=True,
    ),
    HistoryModel(
        name="unhandled-exceptions",
        about="the exceptions that ended operations (never invalid)",
        judge=judge_jepsen(statistics.check_exceptions),
    ),
    HistoryModel(
        name="log-file-pattern",
        about="no line of the nodes' logs matches a pattern",
        judge=judge_log_files,
        options={
            "pattern": "a regular expression",
            "filename": f"the log in every node's folder [default: {log_files.FILE}]",
        },
    ),
    HistoryModel(
        name="latency",
        about="quantiles of latencies per window (never invalid)",
        judge=judge_jepsen(timing.check_latency),
        aliases=("latency-graph", "perf"),
        options={
            "window": f"seconds [default: {timing.LATENCY_WINDOW_S:g}]",
            "quantiles": "a list [default: [0.5, 0.95, 0.99, 1.0]]",
        },
    ),
    HistoryModel(
        name="rate",
        about="completions per second per window (never invalid)",
        judge=judge_jepsen(timing.check_rate),
        aliases=("rate-graph",),
        options={"window": f"seconds [default: {timing.RATE_WINDOW_S:g}]"},
    ),
    HistoryModel(
        name="clock",
        about="the offset of each node's clock, from the nemesis' events (never invalid)",
        judge=judge_clock,
        aliases=("clock-plot",),
    ),
    HistoryModel(
        name="register",
        about="a linearizable register of reads and writes",
        judge=judge_register("register", cas=False),
        options=_INITIAL,
    ),
    HistoryModel(
        name="cas-register",
        about="a linearizable register of reads, writes and compare-and-set",
        judge=judge_register("cas-register", cas=True),
        options=_INITIAL,
    ),
    HistoryModel(
        name="list-append",
        about="transactions that append to lists and read them, by Elle's rules",
        judge=judge_transactions("list-append"),
        options=_ELLE
        | {"indeterminate-reads": "true: trust the reads of info operations, as Elle does"},
    ),
    HistoryModel(
        name="rw-register",
        about="transactions that write registers and read them, by Elle's rules",
        judge=judge_transactions("rw-register"),
        options=_ELLE
        | {
            "sequential-keys": "true: each key is sequentially consistent",
            "linearizable-keys": "true: each key is linearizable",
            "wfr-keys": "true: a transaction's write of a key follows its read of it",
            "transaction-order": '{"7": 1, ...}: the position of the transaction ending there',
        },
    ),
    HistoryModel(
        name="closed-predicate",
        about="transactions with predicate reads over objects that an init operation creates",
        judge=judge_transactions("closed-predicate"),
        options=_ELLE,
    ),
    HistoryModel(
        name="lock",
        about="a linearizable lock: acquire and release",
        judge=judge_machine("lock"),
        aliases=("mutex",),
        options={"owned": "true: only the process that holds it may release it"},
    ),
    HistoryModel(
        name="fifo-queue",
        about="a linearizable FIFO queue",
        judge=judge_machine("fifo-queue"),
    ),
    HistoryModel(
        name="unordered-queue",
        about="a linearizable queue without order",
        judge=judge_machine("unordered-queue"),
    ),
    HistoryModel(
        name="linearizable-set",
        about="a linearizable set: add, remove, contains, read",
        judge=judge_machine("linearizable-set"),
    ),
    HistoryModel(
        name="linearizable-counter",
        about="a linearizable counter: add, read",
        judge=judge_machine("linearizable-counter"),
    ),
    HistoryModel(
        name="key-value",
        about="a linearizable store of strings: get, put, append",
        judge=judge_machine("key-value"),
        aliases=("kv",),
    ),
    HistoryModel(
        name="multi-register",
        about="linearizable transactions over registers",
        judge=judge_machine("multi-register"),
        options={"initial": "a map of names to values [default: none]"},
    ),
    HistoryModel(
        name="log",
        about="a linearizable append-only log: append, read, fetch, size",
        judge=judge_log,
    ),
    HistoryModel(
        name="topic-register",
        about="a linearizable register that is written only while it exists",
        judge=judge_searched(lambda options: MODELS["topic-register"]),
    ),
    HistoryModel(
        name="expiring-register",
        about="a linearizable register whose value may expire: a read of null deletes it",
        judge=judge_searched(lambda options: MODELS["expiring-register"]),
    ),
    HistoryModel(
        name="set-presence",
        about="one element of a set: created only while absent, deleted only while present",
        judge=judge_searched(lambda options: MODELS["set-presence"]),
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
    raise KeyError(f"no model {name!r}; models: {', '.join(sorted(CATALOGUE))}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def options_of(entry: HistoryModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``given`` under the model's own option names (a trailing ``?`` may be missing).

    Raises :class:`KeyError` for an option that the model does not have.
    """
    known = {name.rstrip("?"): name for name in entry.options}
    options = {}
    for name, value in given.items():
        if name.rstrip("?") not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise KeyError(f"model {entry.name} has no option {name!r}; options: {takes}")
        options[known[name.rstrip("?")]] = value
    return options
