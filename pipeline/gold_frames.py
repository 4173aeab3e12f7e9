"""Gold tables of single runs, computed by Spark from silver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from kraftwreck.pipeline.schemas import GOLD, LOSS_CHECKERS, LOSSES, SILVER

_QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_TOGETHER = "quantiles"
BY_SECOND = "by second"
_WORDS = {"string": "string", "int64": "long", "double": "double", "bool": "boolean",
          "list<item: string>": "array<string>", "list<item: int64>": "array<long>",
          "timestamp[us, tz=UTC]": "timestamp"}  # fmt: skip


def ddl(table: str) -> str:
    """Return a schema, of silver or of gold, in Spark's notation."""
    layer, _, name = table.rpartition("/")
    schema = SILVER[name] if layer == "silver" else GOLD[name]
    return ", ".join(f"`{field.name}` {_WORDS[str(field.type)]}" for field in schema)


def open_table(spark: SparkSession, table: str, files: Sequence[Path]) -> DataFrame:
    """Return the table in ``files``, which may be empty; its schema is given, not inferred."""
    reader = spark.read.schema(ddl(table))
    if not files:
        return spark.createDataFrame([], ddl(table))
    return reader.parquet(*map(str, files))


def of_operations(operations: DataFrame) -> dict[str, DataFrame]:
    """Return the tables computed from the operations. ``rates`` and ``latency`` share one cached
    pass, under the key :data:`BY_SECOND`, which the caller must release."""
    seconds = by_second(operations).cache()
    return {
        BY_SECOND: seconds,
        "rates": seconds.select(*GOLD["rates"].names),
        "latency": seconds.where("count > 0").select(*GOLD["latency"].names),
        **of_windows(operations),
    }


def by_second(operations: DataFrame) -> DataFrame:
    """Return counts and latencies by run, second and function."""
    return _apart(
        operations.groupBy("run", "second", "f").agg(
            F.count("*").alias("invoked"), *map(_ended, ("ok", "fail", "info")), *_latency()
        )
    )


def latency_by_run(operations: DataFrame) -> DataFrame:
    """Return the latency of each run as a whole."""
    return operations.groupBy("run").agg(
        F.percentile("latency_ms", 0.5).alias("p50_ms"),
        F.percentile("latency_ms", 0.99).alias("p99_ms"),
    )


def of_windows(operations: DataFrame) -> dict[str, DataFrame]:
    """Return the tables by the faults that were in force."""
    return {
        "latency_by_fault": _apart(
            operations.where("latency_ms is not null")
            .groupBy("run", "fault_window", "f")
            .agg(*_latency())
        ).select(*GOLD["latency_by_fault"].names),
        "availability": _availability(operations),
    }


def _ended(how: str) -> Any:
    return F.count_if(F.col("type") == how).alias(how)


def _latency() -> list[Any]:
    # Exact, since approximate quantiles of two runs cannot be compared. One call for all
    # quantiles: separate calls would each collect all values.
    exact = F.percentile("latency_ms", list(_QUANTILES.values())).alias(_TOGETHER)
    return [F.count("latency_ms").alias("count"), exact, F.max("latency_ms").alias("max_ms")]


def _apart(frame: DataFrame) -> DataFrame:
    """Split the quantiles of :func:`_latency` into columns."""
    for place, name in enumerate(_QUANTILES):
        frame = frame.withColumn(name, F.col(_TOGETHER)[place])
    return frame.drop(_TOGETHER)


def _availability(operations: DataFrame) -> DataFrame:
    per_second = operations.groupBy("run", "fault_window", "second").agg(
        F.count("*").alias("invoked"), _ended("ok")
    )
    return (
        per_second.groupBy("run", "fault_window")
        .agg(
            F.count("*").alias("seconds"),
            F.count_if(F.col("ok") > 0).alias("available_s"),
            F.sum("invoked").alias("invoked"),
            F.sum("ok").alias("ok"),
        )
        .withColumn("availability", F.col("available_s") / F.col("seconds"))
        .select(*GOLD["availability"].names)
    )


def leaders(trace: DataFrame) -> DataFrame:
    """Return the leaders of each epoch."""
    seats = (
        trace.where("state = 'leader'")
        .groupBy("run", "epoch", "node")
        .agg(F.min("time_ns").alias("first_ns"), F.max("time_ns").alias("last_ns"))
    )
    return (
        seats.groupBy("run", "epoch")
        .agg(
            F.array_sort(F.collect_list("node")).alias("leaders"),
            F.count("*").alias("count"),
            F.min("first_ns").alias("first_ns"),
            F.max("last_ns").alias("last_ns"),
        )
        .select(*GOLD["leaders"].names)
    )


def of_findings(findings: DataFrame) -> dict[str, DataFrame]:
    """Return the tables computed from the checkers' results (``judging.FINDINGS``)."""
    anomalies = findings.where("table = 'anomalies'")
    keys = findings.where("table = 'keys'").withColumn("operations", F.col("count"))
    return {
        "keys": keys.select(*GOLD["keys"].names),
        "verdicts": findings.where("table = 'verdicts'").select(*GOLD["verdicts"].names),
        "anomalies": anomalies.select(*GOLD["anomalies"].names),
        "suspicions": findings.where("table = 'suspicions'").select(*GOLD["suspicions"].names),
        "lost_commits": anomalies.where(
            F.col("checker").isin(*LOSS_CHECKERS) | F.col("type").isin(*LOSSES)
        ).select("run", F.col("type").alias("anomaly"), "explanation", "operations"),
        "coverage": findings.where("table = 'coverage'").select(*GOLD["coverage"].names),
    }
