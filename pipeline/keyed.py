"""Checkers that judge each key alone, distributed with Spark: same functions, same verdicts.

A task takes the operations of some keys of a history and passes them, as a separate history, to the
model of the catalogue that judges whole files. The operations of a key are never split
(P-compositionality: Horn and Kroening, 2015), so the results only need to be merged.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kraftwreck.checkers.bad_input import BAD_INPUT, reason_of
from kraftwreck.checkers.catalogue import HistoryModel, Settings, find
from kraftwreck.histories.columns import read_table
from kraftwreck.histories.events import Event, of_ops
from kraftwreck.histories.operation import Op
from kraftwreck.histories.source import HistoryFile, Source
from kraftwreck.histories.tables import from_table, to_text
from kraftwreck.histories.verdict import Anomaly, CheckerResult, merge_valid

BY_KEY = frozenset(
    {
        "register", "cas-register", "topic-register", "expiring-register", "set-presence", "lock",
        "fifo-queue", "unordered-queue", "linearizable-set", "linearizable-counter",
        "multi-register", "key-value", "log",
    }
)  # fmt: skip
"""Models that judge each key alone. Others do so with ``independent``, except those of
transactions, which span keys."""
TRANSACTIONS = frozenset({"list-append", "rw-register", "closed-predicate"})

_TASKS = (
    "history string, file string, kind string, shard long, shards long, model string, "
    "settings string"
)
_TOLD = "history string, shard long, keys boolean, result string, error string, bad_input boolean"
_TOLD_ARROW = pa.schema(
    [
        ("history", pa.string()),
        ("shard", pa.int64()),
        ("keys", pa.bool_()),
        ("result", pa.string()),
        ("error", pa.string()),
        ("bad_input", pa.bool_()),
    ]
)
_MERGED = ("keys", "operations", "configurations", "keys_decided_by_sorting")


class KeyedError(Exception):
    """A model does not judge each key alone."""


class Unjudged(msgspec.Struct):
    """The reason, one line, for which a history has no verdict.

    ``bad_input`` says that the history is the cause, and not a checker that raised.
    """

    text: str
    bad_input: bool


class Verdicts(msgspec.Struct):
    """Results by the names of histories; those in ``unjudged`` have none."""

    results: dict[str, CheckerResult]
    unjudged: dict[str, Unjudged]


class Job(msgspec.Struct, kw_only=True):
    """One history to be judged; ``history`` is its name in the results.

    ``shards`` is the number of tasks for its keys; 0 chooses automatically.
    """

    history: str
    file: str
    model: str
    kind: str | None = None
    shards: int = 0
    settings: Settings = msgspec.field(default_factory=Settings)


class Shard(Source):
    """The events of one history that belong to some of its keys."""

    def __init__(self, whole: HistoryFile, shard: int, shards: int) -> None:
        self._whole, self._shard, self._shards = whole, shard, shards

    def events(self) -> Iterator[Event]:
        mine: dict[str | None, bool] = {}
        for event in self._whole.events():
            key = None if event.key is None else to_text(event.key)
            belongs = mine.get(key)
            if belongs is None:
                belongs = mine[key] = self._mine(key)
            if belongs:
                yield event

    def table(self) -> pa.Table:
        table = self._whole.table()
        keys = table.column("key").combine_chunks().dictionary_encode(null_encoding="encode")
        mine = pa.array([self._mine(text) for text in keys.dictionary.to_pylist()], pa.bool_())
        return table.filter(mine.take(keys.indices))

    def _mine(self, text: str | None) -> bool:
        return zlib.crc32((text or "").encode()) % self._shards == self._shard


class Part(Source):
    """One file of a history that is already sharded by key."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def events(self) -> Iterator[Event]:
        return of_ops(from_table(self.table(), Op))

    def table(self) -> pa.Table:
        return read_table(self.file, "parquet")


def can_be_keyed(entry: HistoryModel, settings: Settings) -> bool:
    """Return whether the model judges each key alone."""
    by_key = settings.independent and entry.name not in TRANSACTIONS
    return settings.engine == "native" and (entry.name in BY_KEY or by_key)


def check_keyed(spark: SparkSession, jobs: Sequence[Job]) -> Verdicts:
    """Judge many histories at once; one that cannot be judged does not affect the others.

    A folder whose files are sharded by key, as in a run folder, is read once. Of any other file,
    every task reads everything and judges its keys. ``stats`` has the values that can be added.
    Raises :class:`KeyedError` for a model that does not judge each key alone.
    """
    cores = spark.sparkContext.defaultParallelism
    rows: list[tuple[Any, ...]] = []
    for job in jobs:
        if not can_be_keyed(find(job.model), job.settings):
            raise KeyedError(f"{job.history}: model {job.model} does not judge each key alone")
        settings = msgspec.json.encode(job.settings).decode()
        path = Path(job.file)
        parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else []
        if parts:
            rows += [(job.history, str(p), None, 0, 0, job.model, settings) for p in parts]
            continue
        # With many histories each is one task; a single one is split.
        shards = job.shards or max(1, 2 * cores // len(jobs))
        rows += [
            (job.history, job.file, job.kind, n, shards, job.model, settings) for n in range(shards)
        ]
    tasks = spark.createDataFrame(rows, _TASKS).repartition(min(len(rows), 4 * cores))
    told = tasks.mapInArrow(_judge, _TOLD).toArrow().to_pylist()
    parts_of: dict[str, list[CheckerResult]] = {job.history: [] for job in jobs}
    empty: dict[str, CheckerResult] = {}
    unjudged: dict[str, Unjudged] = {}
    for row in sorted(told, key=lambda row: (row["history"], row["shard"])):
        if row["error"] is not None:
            unjudged.setdefault(row["history"], Unjudged(row["error"], row["bad_input"]))
            continue
        result = msgspec.json.decode(row["result"], type=CheckerResult)
        if row["keys"]:
            parts_of[row["history"]].append(result)
        else:
            empty[row["history"]] = result
    results = {
        name: merge(parts or [empty[name]])
        for name, parts in parts_of.items()
        if name not in unjudged
    }
    return Verdicts(results, unjudged)


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            told = {"history": row["history"], "shard": row["shard"]}
            try:
                settings = msgspec.json.decode(row["settings"], type=Settings)
                source = _source(row, settings)
                report = find(row["model"]).judge(source, settings)
                told["keys"] = _has_any(source)
                told["result"] = msgspec.json.encode(report.result, enc_hook=str).decode()
            except Exception as error:
                told["error"] = reason_of(error)
                told["bad_input"] = isinstance(error, BAD_INPUT)
            yield pa.RecordBatch.from_pylist([told], schema=_TOLD_ARROW)


def _has_any(source: Source) -> bool:
    if isinstance(source, Part):
        return int(pq.read_metadata(source.file).num_rows) > 0
    return next(iter(source.events()), None) is not None


def _source(row: dict[str, Any], settings: Settings) -> Source:
    file, shards = Path(row["file"]), row["shards"]
    if shards == 0:
        return Part(file)
    whole = HistoryFile(file, row["kind"], independent=settings.independent)
    return whole if shards == 1 else Shard(whole, row["shard"], shards)


def merge(parts: Sequence[CheckerResult]) -> CheckerResult:
    """Merge results over different keys of one history; anomalies are in the history's order.

    A part in which no key could be checked (for example because all operations failed) does not
    affect a verdict that another part gives.
    """
    told = [part for part in parts if part.stats.get("keys") != 0] or parts
    anomalies: list[Anomaly] = [anomaly for part in parts for anomaly in part.anomalies]
    anomalies.sort(key=lambda anomaly: (anomaly.operations, anomaly.type, anomaly.explanation))
    stats: dict[str, Any] = {}
    for part in parts:
        for name, value in part.stats.items():
            if name in _MERGED:
                stats[name] = stats.get(name, 0) + value
            elif isinstance(value, list):
                stats[name] = sorted([*stats.get(name, []), *value])
            elif isinstance(value, dict):
                stats[name] = {**stats.get(name, {}), **value}
            else:
                stats[name] = value
    errors = [part.error for part in told if part.error is not None]
    return CheckerResult(
        valid=merge_valid(part.valid for part in told),
        anomalies=anomalies,
        stats=stats,
        error="; ".join(errors) or None,
    )


def serve(spark: SparkSession, request: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer the worker's request ``{"check": [job, …]}``: :class:`Verdicts` as a map."""
    jobs = msgspec.convert(request, list[Job])
    answer: dict[str, Any] = msgspec.to_builtins(check_keyed(spark, jobs), enc_hook=str)
    return answer
