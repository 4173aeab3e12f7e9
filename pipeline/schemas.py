"""The tables of an analyzed store: their columns, types and meanings are a stable interface.

Silver has the recorded data, typed, one row per item; gold is computed from it. Tables in
:data:`PER_RUN` have rows of single runs, which are added and removed with their run. Those in
:data:`FLEET` are computed again from them, and from the nights' lists, by every analysis.
docs/tables.md describes how to read them. Times ``*_ns`` are nanoseconds since the start of the
run's test; verdicts are the words ``true``, ``false`` and ``unknown``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

VERSION = 3
"""Increased when a column is removed or changes its meaning; then everything is analyzed again."""

_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "long": pa.int64(),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "texts": pa.list_(pa.string()),
    "longs": pa.list_(pa.int64()),
}


def _table(about: str, columns: Mapping[str, tuple[str, str]]) -> pa.Schema:
    """Return a schema; every column is (type, meaning)."""
    fields = [
        pa.field(name, _TYPES[kind], metadata={"about": meaning})
        for name, (kind, meaning) in columns.items()
    ]
    return pa.schema(fields, metadata={"about": about})


_RUN = {"run": ("text", "the run: <test>/<UTC time>-<seed>, its folder in the store")}
_WINDOW = {
    "fault_window": (
        "text",
        'kinds of faults in force at the invocation, sorted: "kill+pause"; "none"',
    )
}
_QUANTILES = {
    "count": ("long", "operations that ended ok"),
    "p50_ms": ("real", "median latency, ms, interpolated linearly"),
    "p95_ms": ("real", "95th percentile, ms"),
    "p99_ms": ("real", "99th percentile, ms"),
    "max_ms": ("real", "longest, ms"),
}
_COUNTS = {
    "ok": ("long", "of these, ended ok"),
    "fail": ("long", "certainly did not happen"),
    "info": ("long", "nobody knows"),
}
_VERDICTS = {
    "runs": ("long", "number of runs"),
    "valid": ("long", "of these, valid"),
    "invalid": ("long", "of these, invalid"),
    "unknown": ("long", "of these, unknown"),
}

SILVER: dict[str, pa.Schema] = {
    "operations": _table(
        "One row per operation: an invocation joined with its completion.",
        {
            **_RUN,
            "start": ("long", "index of the invocation in the history"),
            "completion": ("long", "index of the completion; null: none was recorded"),
            "process": ("long", "logical client"),
            "f": ("text", "function: read, write, create, ..."),
            "key": ("text", "key of the operation, JSON text; null: none"),
            "argument": ("text", "value of the invocation, JSON text"),
            "value": ("text", "value of the completion, JSON text"),
            "type": ("text", "result: ok, fail, info (also without a completion)"),
            "node": ("text", "the node that got the request"),
            "error": ("text", "reason if it did not end ok"),
            "final": ("flag", "made after the last heal"),
            "invoked_ns": ("long", "when it began"),
            "completed_ns": ("long", "when it ended; null: no completion was recorded"),
            "second": ("long", "whole second of invoked_ns"),
            "latency_ms": ("real", "duration of an operation that ended ok, otherwise null"),
            **_WINDOW,
        },
    ),
    "trace": _table(
        "One row per transition in a node's trace (docs/trace.md).",
        {
            **_RUN,
            "node": ("text", "which node"),
            "incarnation": ("long", "its process start, from 1"),
            "seq": ("long", "number of the event within the incarnation, from 0"),
            "mono": ("long", "its monotonic clock, us"),
            "wall": ("long", "its wall clock, us"),
            "time_ns": ("long", "mono on the test's clock; null: the clocks' relation is unknown"),
            "kind": ("text", "which transition"),
            "state": ("text", "leader, follower, ... after it"),
            "epoch": ("long", "its epoch after it"),
            "leader": ("long", "the leader it knew after it; -1: none"),
            "voted": ("long", "the node it had voted for; -1: none"),
            "leo": ("long", "its log end offset"),
            "hw": ("long", "its high watermark; -1: unknown"),
            "detail": ("text", "fields of this kind of event, JSON text"),
        },
    ),
    "faults": _table(
        "One row per fault: its start joined with its end.",
        {
            **_RUN,
            "id": (
                "long",
                "number of the fault in the run; -1: retried what another could not undo",
            ),
            "kind": ("text", "family: partition, kill, pause, ..."),
            "shape": ("text", "variant: one, leader, halves, ..."),
            "targets": ("texts", "the nodes it hit"),
            "started_ns": ("long", "when starting it began"),
            "struck_ns": ("long", "when it was in force"),
            "ended_ns": ("long", "when undoing it began; null: it never ended"),
            "healed_ns": ("long", "when it was undone; null: never"),
            "detail": ("text", "choices made when it started, JSON text"),
            "evidence": ("text", "proof that it was in force, JSON text"),
            "end_detail": ("text", "the same for its end, JSON text"),
            "end_evidence": ("text", "the same for its end, JSON text"),
            "error": ("text", "error of the start or else of the end"),
        },
    ),
}

PER_RUN: dict[str, pa.Schema] = {
    "runs": _table(
        "One row per run: its options and results.",
        {
            **_RUN,
            "test": ("text", "name of the test: <system>-<workload>"),
            "system": ("text", "system under test"),
            "workload": ("text", "workload of the clients"),
            "faults": ("texts", "families of faults, sorted"),
            "cluster": ("text", "where it ran: netns, sim, vagrant, hosts:..."),
            "simulated": ("flag", "whether in virtual time"),
            "nodes": ("long", "how many"),
            "system_options": ("texts", "options of the system's own, NAME=VALUE"),
            "seed": ("long", "seed of all random choices"),
            "rate": ("real", "requested operations per second"),
            "concurrency": ("long", "clients"),
            "time_limit_s": ("real", "requested duration"),
            "mutant": ("text", "planted bug; null: none"),
            "patch": ("text", "patch of the nodes' code; null: none"),
            "tree": ("text", "build: clean, mutant:ID, patch:FILE"),
            "code": ("text", "digest of the nodes' code; null: not recorded"),
            "test_key": ("text", "digest of all options: the same for the same test"),
            "started": ("time", "when it began, from the name of its folder; null: unknown"),
            "day": ("text", "UTC date of started: 2026-01-31"),
            "repeat": ("text", "command that runs the same test again"),
            "valid": ("text", "verdict of all checkers together"),
            "class": (
                "text",
                "class of a red run: system (invalid), harness (it failed); otherwise null",
            ),
            "anomalies": ("long", "number found by all checkers"),
            "first_anomaly": ("text", "type of the first one"),
            "operations": ("long", "number invoked"),
            **_COUNTS,
            "trace_events": ("long", "how many"),
            "fault_events": ("long", "faults that started"),
            "seconds": ("real", "from the start of the test to its last operation"),
            "availability": ("real", "seconds with a success / seconds with an invocation"),
            "p50_ms": ("real", "median latency of operations that ended ok"),
            "p99_ms": ("real", "its 99th percentile"),
            "recovered_s": ("real", "how long the healed cluster took to elect a leader"),
            "coverage": (
                "text",
                "where its coverage is from: recorded (coverage.json) or counted (by this "
                "analysis); otherwise why it is unknown",
            ),
            "interrupted": ("flag", "whether Ctrl-C or SIGTERM ended it early"),
            "harness_errors": ("texts", "errors of the harness"),
        },
    ),
    "verdicts": _table(
        "One row per run and checker.",
        {
            **_RUN,
            "checker": ("text", "which"),
            "valid": ("text", "its verdict"),
            "anomalies": ("long", "number found"),
            "error": ("text", "reason if it is unknown"),
            "source": ("text", "computed: by this analysis; recorded: taken from results.json"),
        },
    ),
    "anomalies": _table(
        "One row per anomaly.",
        {
            **_RUN,
            "checker": ("text", "the checker that found it"),
            "number": ("long", "position among those of the checker, from 0"),
            "type": ("text", "standard name, or id of the invariant"),
            "explanation": ("text", "in plain words"),
            "operations": ("longs", "indices of the history that prove it"),
            "source": ("text", "as in verdicts"),
        },
    ),
    "suspicions": _table(
        "One row per suspicion: a finding that depends on a limit in real time, and so proves "
        "nothing on hosts (docs/invariants.md).",
        {
            **_RUN,
            "checker": ("text", "the checker that found it"),
            "number": ("long", "position among those of the checker, from 0"),
            "type": ("text", "standard name, or id of the invariant"),
            "explanation": ("text", "in plain words"),
            "why": ("text", "what else than a bug exceeds the limit"),
            "operations": ("longs", "indices of the history that show it"),
            "source": ("text", "as in verdicts"),
        },
    ),
    "lost_commits": _table(
        "Acknowledged metadata that was lost, or an offset with two values below a high "
        "watermark: anomalies of the checker topics, and of I8 to I11 and I14.",
        {
            **_RUN,
            "anomaly": ("text", "type of the anomaly"),
            "explanation": ("text", "in plain words"),
            "operations": ("longs", "indices of the history that prove it"),
        },
    ),
    "keys": _table(
        "One row per key of a run that is checked for linearizability.",
        {
            **_RUN,
            "key": ("text", "JSON text"),
            "model": ("text", "model it is checked against"),
            "valid": ("text", "its verdict"),
            "operations": ("long", "how many"),
            "explanation": ("text", "reason if it is not valid"),
        },
    ),
    "leaders": _table(
        "One row per run and epoch: its leaders in the traces. More than one is a violation.",
        {
            **_RUN,
            "epoch": ("long", "the epoch"),
            "leaders": ("texts", "names of the nodes in state leader, sorted"),
            "count": ("long", "how many"),
            "first_ns": ("long", "first seen leading; null: clocks are unknown"),
            "last_ns": ("long", "last seen leading"),
        },
    ),
    "rates": _table(
        "Operations per second of the test.",
        {
            **_RUN,
            "second": ("long", "second of the invocation"),
            "f": ("text", "function"),
            "invoked": ("long", "how many"),
            **_COUNTS,
        },
    ),
    "latency": _table(
        "Latency of operations that ended ok, per second of the test.",
        {
            **_RUN,
            "second": ("long", "second of the invocation"),
            "f": ("text", "function"),
            **_QUANTILES,
        },
    ),
    "latency_by_fault": _table(
        "Latency of operations that ended ok, per kinds of faults in force.",
        {**_RUN, **_WINDOW, "f": ("text", "function"), **_QUANTILES},
    ),
    "availability": _table(
        "Seconds in which an operation succeeded, per kinds of faults in force. Seconds without "
        "invocations do not count.",
        {
            **_RUN,
            **_WINDOW,
            "seconds": ("long", "seconds in which an operation was invoked"),
            "available_s": ("long", "of these, seconds in which one ended ok"),
            "availability": ("real", "available_s / seconds"),
            "invoked": ("long", "operations"),
            "ok": ("long", "of these, ended ok"),
        },
    ),
    "recoveries": _table(
        "One row per fault: how long until clients were served. The first response that only a "
        "leader can give counts, to an operation invoked after the moment in question.",
        {
            **_RUN,
            "id": ("long", "number of the fault in the run"),
            "kind": ("text", "family"),
            "shape": ("text", "variant"),
            "started_ns": ("long", "when it was in force"),
            "healed_ns": ("long", "when it was undone; null: never"),
            "failover_s": ("real", "from struck to the first such response; null: none"),
            "recovery_s": ("real", "from healed to the first such response; null: none"),
        },
    ),
    "coverage": _table(
        "Coverage of a run, with the names of docs/simulator.md.",
        {
            **_RUN,
            "counter": ("text", "follows, overlaps, struck, cuts, directed, steps, marks"),
            "item": ("text", "item; for follows and overlaps 'first > second'"),
        },
    ),
}

FLEET: dict[str, pa.Schema] = {
    "recovery_by_fault": _table(
        "Time to recover per kind of fault, over all runs.",
        {
            "system": ("text", "system under test"),
            "kind": ("text", "family of the fault"),
            "shape": ("text", "variant"),
            "simulated": ("flag", "whether in virtual time"),
            "faults": ("long", "number of faults"),
            "healed": ("long", "of these, undone"),
            "recovered": ("long", "of these, followed by service to clients"),
            "failover_p50_s": ("real", "median of failover_s"),
            "failover_p95_s": ("real", "its 95th percentile"),
            "recovery_p50_s": ("real", "median of recovery_s"),
            "recovery_p95_s": ("real", "its 95th percentile"),
            "recovery_max_s": ("real", "its maximum"),
        },
    ),
    "fault_pairs": _table(
        "Ordered pairs of faults in the same run.",
        {
            "system": ("text", "system under test"),
            "first": ("text", "kind/shape"),
            "second": ("text", "kind/shape, started later"),
            "runs": ("long", "runs in which it came after the first"),
            "overlapping": ("long", "of these, runs in which the first was still in force"),
        },
    ),
    "states_struck": _table(
        "States of nodes x faults that hit them.",
        {
            "system": ("text", "system under test"),
            "state": ("text", "state of the target: leader, follower, ..., down, paused"),
            "fault": ("text", "kind/shape"),
            "runs": ("long", "number of runs"),
        },
    ),
    "flakes": _table(
        "Tests that ran at least twice on the same code. Flaky: with differing verdicts.",
        {
            "test_key": ("text", "as in runs; for runs without a folder a digest of their command"),
            "tree": ("text", "build, as in runs"),
            "code": ("text", "digest of it, as in runs; null for runs without a folder"),
            "system": ("text", "system under test"),
            "workload": ("text", "workload of the clients"),
            "cluster": ("text", "where"),
            "seed": ("long", "seed of all random choices"),
            **_VERDICTS,
            "flaky": ("flag", "whether the verdicts differ"),
            "last_run": ("text", "the newest run with a folder"),
            "repeat": ("text", "command that runs it again"),
        },
    ),
    "trend": _table(
        "Verdicts and service per day, build, workload and fault. A run with several families of "
        "faults counts under each, and once under the fault '*'; its availability and latency "
        "are those of the whole run.",
        {
            "day": ("text", "UTC date; null: unknown"),
            "tree": ("text", "build, as in runs"),
            "system": ("text", "system under test"),
            "workload": ("text", "workload of the clients"),
            "cluster": ("text", "where"),
            "fault": ("text", "family of faults; 'none': without faults; '*': all runs"),
            **_VERDICTS,
            "operations": ("long", "number invoked, in runs with a folder"),
            "ok": ("long", "of these, ended ok"),
            "availability": ("real", "mean over the runs; null: unknown for all"),
            "p99_ms": ("real", "median over the runs; null: unknown for all"),
            "recovery_p50_s": ("real", "median recovery_s of this family; or null"),
        },
    ),
    "night_runs": _table(
        "One row per run of a night, with a folder or without: its line in runs.jsonl "
        "(docs/nightly.md).",
        {
            "night": ("text", "id of the night: its folder in <store>/nights"),
            "n": ("long", "position in the night's order, from 0"),
            "run": ("text", "its folder, as in runs; null: none was kept"),
            "kind": ("text", "corpus, again, cell"),
            "cell": ("text", "its cell of the configuration"),
            "system": ("text", "system under test"),
            "workload": ("text", "workload of the clients"),
            "faults": ("texts", "families of faults, sorted"),
            "cluster": ("text", "where"),
            "tree": ("text", "build: clean, mutant:ID, patch:FILE, tree:FOLDER"),
            "planted": ("flag", "whether the build is not the clean one"),
            "seed": ("long", "seed of all random choices"),
            "valid": ("text", "verdict"),
            "class": (
                "text",
                "class of a red run: system, harness, environment, flake; otherwise null",
            ),
            "why": ("text", "the first failure, one line"),
            "started": ("time", "when it began"),
            "day": ("text", "UTC date of started"),
            "seconds": ("real", "wall time it took"),
            "cpu_s": ("real", "processor time"),
            "sim_s": ("real", "virtual time; 0 on hosts"),
            "attempts": ("long", "number of attempts"),
            "repeat": ("text", "command that runs it again"),
            "extra": ("text", "all other fields of the line, JSON text"),
        },
    ),
    "nights": _table(
        "One row per night.",
        {
            "night": ("text", "its id"),
            "name": ("text", "its name"),
            "state": ("text", "running, interrupted, complete; null: no night.json"),
            "began": ("time", "when it began"),
            "ended": ("time", "when it ended; null: not yet"),
            "day": ("text", "UTC date of began"),
            **_VERDICTS,
            "seconds": ("real", "seconds of all its runs"),
            "cpu_s": ("real", "CPU seconds of all its runs"),
            "sim_s": ("real", "virtual seconds of all its runs"),
            "night_json": ("text", "all of night.json, JSON text; null: none"),
        },
    ),
    "quarantine": _table(
        "Unreadable runs and lines of nights. They are read again when they change.",
        {
            "run": ("text", "the run, or nights/<id> of a list"),
            "reason": ("text", "one line: file, position, problem"),
        },
    ),
}

GOLD: dict[str, pa.Schema] = {**PER_RUN, **FLEET}

LOSS_CHECKERS = ("topics", "committed")
"""The checkers whose anomalies are lost commits; the second one is of older results."""
LOSSES = ("I8", "I9", "I10", "I11", "I14")
"""The rules whose anomalies are lost commits, whatever the checker."""


def columns(schema: pa.Schema) -> list[tuple[str, str, str]]:
    """Return (name, type, meaning) of every column of a table."""
    words = {kind: word for word, kind in _TYPES.items()}
    return [(field.name, words[field.type], field.metadata[b"about"].decode()) for field in schema]
