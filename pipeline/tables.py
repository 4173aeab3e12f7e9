"""The gold tables of a run or of a whole store, computed by Spark.

===================== =================================================================
``verdicts``          run, checker, valid, error, anomalies (how many)
``lost_commits``      run, anomaly, explanation, operations: what ``committed`` found
``keys``              run, key, valid, operations, explanation: linearizability per key
``leaders``           run, epoch, leaders (node names), count
``operations``        run, second, f, invoked, ok, fail, info (by second of invocation)
``latency``           run, second, f, count, p50_ms, p95_ms, p99_ms, max_ms (ok only)
``latency_by_fault``  the same per run, fault_window, f
``availability``      run, fault_window, seconds, available_s, availability, ok, invoked
===================== =================================================================

A second of a run is available when an operation invoked in it ended ok; seconds in which
nothing was invoked do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from histories.parquet import write_table
from pipeline import tasks
from pipeline.runs import RunFiles

ANALYSIS = "analysis"
_QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def compute(spark: SparkSession, runs: Sequence[RunFiles]) -> dict[str, pa.Table]:
    """Return all gold tables over ``runs`` (at least one)."""
    shards = _files(spark, [(run, shard) for run in runs for shard in run.shards])
    traces = _files(spark, [(run, run.trace) for run in runs])
    found = traces.mapInArrow(tasks.findings, tasks.FINDINGS).cache()
    done = shards.mapInArrow(tasks.operations, tasks.OPERATIONS)
    done = done.withColumn("second", F.floor(F.col("invoked") / 1_000_000_000)).cache()
    frames = {
        "verdicts": found.groupBy("run", "checker", "valid", "error").agg(
            F.count("anomaly").alias("anomalies")
        ),
        "lost_commits": found.where("checker = 'committed' and anomaly is not null").select(
            "run", "anomaly", "explanation", "operations"
        ),
        "keys": shards.mapInArrow(tasks.keys, tasks.KEYS),
        "leaders": traces.mapInArrow(tasks.leaders, tasks.LEADERS)
        .groupBy("run", "epoch")
        .agg(
            F.array_sort(F.collect_set("node")).alias("leaders"),
            F.count_distinct("node").alias("count"),
        ),
        "operations": done.groupBy("run", "second", "f").agg(
            F.count("*").alias("invoked"), *(_count(kind) for kind in ("ok", "fail", "info"))
        ),
        "latency": _latency(done, "second"),
        "latency_by_fault": _latency(done, "fault_window"),
        "availability": _availability(done),
    }
    try:
        return {name: _collect(frame) for name, frame in frames.items()}
    finally:
        found.unpersist()
        done.unpersist()


def write(tables: dict[str, pa.Table], folder: Path) -> Path:
    """Write the tables as ``<folder>/analysis/<name>.parquet``; return that folder."""
    target = folder / ANALYSIS
    target.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        write_table(table, target / f"{name}.parquet")
    return target


def _files(spark: SparkSession, files: list[tuple[RunFiles, Path]]) -> DataFrame:
    """One row per file, spread so that each core takes the next when it is done."""
    rows = [(run.id, str(run.folder), str(file)) for run, file in files]
    cores = spark.sparkContext.defaultParallelism
    frame = spark.createDataFrame(rows, tasks.FILES)
    return frame.repartition(max(1, min(len(rows), cores * 4)))


def _count(kind: str) -> Any:
    return F.count_if(F.col("type") == kind).alias(kind)


def _latency(done: DataFrame, *by: str) -> DataFrame:
    quantiles = [
        F.percentile("latency_ms", quantile).alias(name) for name, quantile in _QUANTILES.items()
    ]
    return (
        done.where("latency_ms is not null")
        .groupBy("run", *by, "f")
        .agg(F.count("*").alias("count"), *quantiles, F.max("latency_ms").alias("max_ms"))
    )


def _availability(done: DataFrame) -> DataFrame:
    per_second = done.groupBy("run", "fault_window", "second").agg(
        F.count("*").alias("invoked"), _count("ok")
    )
    return (
        per_second.groupBy("run", "fault_window")
        .agg(
            F.count("*").alias("seconds"),
            F.count_if(F.col("ok") > 0).alias("available_s"),
            F.sum("ok").alias("ok"),
            F.sum("invoked").alias("invoked"),
        )
        .withColumn("availability", F.col("available_s") / F.col("seconds"))
    )


def _collect(frame: DataFrame) -> pa.Table:
    table = frame.toArrow()
    order = [name for name in table.column_names if not pa.types.is_list(table.field(name).type)]
    return table.sort_by([(name, "ascending") for name in order])
