"""Compute all tables of some runs: tasks write silver, Spark computes gold from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows

from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import Validity, merge_valid
from kraftwreck.pipeline import judging, silver
from kraftwreck.pipeline.collected import by_run as collected_by_run
from kraftwreck.pipeline.collected import collect
from kraftwreck.pipeline.findings import collected_tables, in_driver, needed
from kraftwreck.pipeline.gold_frames import (
    BY_SECOND,
    latency_by_run,
    leaders,
    of_findings,
    of_operations,
    open_table,
)
from kraftwreck.pipeline.runs import describe, read_test, run_id
from kraftwreck.pipeline.schemas import GOLD, SILVER
from kraftwreck.pipeline.slugs import slug
from kraftwreck.pipeline.windows import earliest

_VALIDITY: dict[str, Validity] = {"true": True, "false": False, "unknown": "unknown"}
Row = dict[str, Any]
Tests = dict[str, tuple[Path, Row, Row]]
"""The folder of each run, its ``test.json``, and its description."""


@dataclass
class Computed:
    """The results for some runs. ``frames`` are gold tables that Spark must still write, ``tables``
    those in memory. ``refused`` are unreadable runs, with the reason; ``silver`` the files written,
    by table."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    silver: dict[str, list[Path]] = field(default_factory=lambda: {name: [] for name in SILVER})
    cached: list[DataFrame] = field(default_factory=list)

    def release(self) -> None:
        """Release Spark's cache for these tables."""
        for frame in self.cached:
            frame.unpersist()


@dataclass
class Measured:
    """The tables of one run that follow from its records, without its verdict."""

    done: Computed
    tests: Tests
    written: list[Row]


def measure(spark: SparkSession, folder: Path, place: Callable[[str], Path]) -> Measured:
    """Compute the tables of the run in ``folder`` that need no verdict, and collect them.

    ``place`` returns the folder for the silver files of a table, which are not needed afterwards.
    """
    done = Computed()
    tests = _described([folder], done)
    written = _write_silver(spark, [folder for folder, _, _ in tests.values()], place)
    _refuse(done, written)
    done.tables = collect(*_opened(spark, done, written))
    return Measured(done, tests, written)


def complete(run: Measured, findings: pa.Table) -> Computed:
    """Return all tables of one run, given the checkers' results (``judging.FINDINGS``).

    Its description is read once more: since then, the harness may have had an error.
    """
    done = run.done
    tests = _described([folder for folder, _, _ in run.tests.values()], done)
    done.tables |= collected_tables(findings)
    told = needed(findings)
    _refuse(done, [row for row in told if row["table"] == judging.REFUSED])
    good = {name: test for name, test in tests.items() if name not in done.refused}
    told = [row for row in told if row["run"] in good]
    _add_runs(done, run.written, good, told, collected_by_run(done.tables))
    return done


def compute(
    spark: SparkSession,
    folders: Sequence[Path],
    place: Callable[[str], Path],
    watch: Callable[[str], None] = lambda _: None,
) -> Computed:
    """Compute the tables of the runs in ``folders``.

    ``place`` returns the folder for the silver files of a table. Call :meth:`Computed.release`
    when the frames have been written.
    """
    done = Computed()
    tests = _described(folders, done)
    written = _write_silver(spark, [folder for folder, _, _ in tests.values()], place)
    _refuse(done, written)
    watch("silver")
    findings = judge(spark, [t[0] for run, t in tests.items() if run not in done.refused]).cache()
    done.cached.append(findings)
    told = in_driver(findings)
    _refuse(done, [row for row in told if row["table"] == judging.REFUSED])
    operations, trace = _opened(spark, done, written)
    done.frames = of_findings(findings.where(~F.col("run").isin(list(done.refused))))
    done.frames |= {**of_operations(operations), "leaders": leaders(trace)}
    done.cached.append(done.frames[BY_SECOND])
    by_run = _by_run(done.frames.pop(BY_SECOND), operations)
    watch("judged")
    good = {run: test for run, test in tests.items() if run not in done.refused}
    _add_runs(done, written, good, [row for row in told if row["run"] in good], by_run)
    return done


def _described(folders: Sequence[Path], done: Computed) -> Tests:
    """Return the runs that can be read; note the others in ``done``."""
    tests: Tests = {}
    for folder in folders:
        try:
            test = read_test(folder)
            tests[run_id(folder)] = (folder, test, describe(folder, test))
        except HistoryError as error:
            done.refused[run_id(folder)] = str(error)
    return tests


def _refuse(done: Computed, rows: list[Row]) -> None:
    """Refuse the runs that ``rows``, of written files or of judges, have an error for."""
    for row in rows:
        if row["error"] is not None:
            done.refused.setdefault(row["run"], row["error"])


def _opened(spark: SparkSession, done: Computed, written: list[Row]) -> tuple[DataFrame, DataFrame]:
    """Return the operations and the trace of the runs that were not refused."""
    for row in written:
        if row["rows"] and row["run"] not in done.refused:
            done.silver[row["table"]].append(Path(row["file"]))
    operations = open_table(spark, "silver/operations", done.silver["operations"])
    return operations, open_table(spark, "silver/trace", done.silver["trace"])


def _add_runs(
    done: Computed,
    written: list[Row],
    good: Tests,
    told: list[Row],
    by_run: dict[str, Row],
) -> None:
    """Add the tables of runs and recoveries, with what was ``told`` of the runs."""
    facts = _facts(written)
    rows = _runs(
        good,
        facts,
        by_run,
        [row for row in told if row["table"] == "verdicts"],
        [row for row in told if row["table"] == "anomalies"],
    )
    how = {row["run"]: row["error"] for row in told if row["table"] == judging.COUNTING}
    for each in rows:
        each["coverage"] = how.get(each["run"])
    done.tables |= {
        "runs": pa.Table.from_pylist(rows, schema=GOLD["runs"]),
        "recoveries": pa.Table.from_pylist(_recoveries(good, facts), schema=GOLD["recoveries"]),
    }


def _frame(spark: SparkSession, rows: list[tuple[str, ...]], schema: str) -> DataFrame:
    """Return a frame with one row per task, spread so that cores take rows as they become free."""
    cores = spark.sparkContext.defaultParallelism
    frame = spark.createDataFrame(rows, schema)
    # Many tasks with few rows each: the time to judge a run is not known in advance.
    return frame.repartition(max(1, min(len(rows), cores * 16)))


def _write_silver(
    spark: SparkSession, folders: Iterable[Path], place: Callable[[str], Path]
) -> list[Row]:
    rows: list[tuple[str, ...]] = []
    for folder in folders:
        run = run_id(folder)
        for number, (table, file) in enumerate(silver.sources(folder)):
            out = place(table) / f"{slug(run)}~{number}.parquet"
            rows.append((run, str(folder), table, str(file), str(out)))
    if not rows:
        return []
    frame = _frame(spark, rows, silver.FILES).mapInArrow(silver.write, silver.WRITTEN)
    found: list[Row] = frame.toArrow().to_pylist()
    return found


def judge(spark: SparkSession, folders: list[Path]) -> DataFrame:
    """Return the results (``judging.FINDINGS``) of the checkers for the runs in ``folders``."""
    rows: list[tuple[str, ...]] = [(run_id(f), str(f), str(f)) for f in folders]
    if not rows:
        return spark.createDataFrame([], judging.FINDINGS)
    frame = _frame(spark, rows, judging.RUNS)
    return frame.mapInArrow(judging.findings, judging.FINDINGS)


def _by_run(by_second: DataFrame, operations: DataFrame) -> dict[str, Row]:
    """Return availability and latency of each run as a whole."""
    available = (
        by_second.groupBy("run", "second")
        .agg(F.sum("ok").alias("ok"))
        .groupBy("run")
        .agg((F.count_if(F.col("ok") > 0) / F.count("*")).alias("availability"))
    )
    latency = latency_by_run(operations)
    rows = available.join(latency, "run", "left").toArrow().to_pylist()
    return {row["run"]: row for row in rows}


def _facts(written: list[Row]) -> dict[str, list[Row]]:
    """Return the results of tasks by run: the table, the number of rows, and facts."""
    facts: dict[str, list[Row]] = {}
    for row in written:
        if row["error"] is None:
            told = msgspec.json.decode(row["facts"], type=Row)
            facts.setdefault(row["run"], []).append({**told, **row})
    return facts


def _runs(
    good: dict[str, tuple[Path, Row, Row]],
    facts: dict[str, list[Row]],
    by_run: dict[str, Row],
    verdicts: list[Row],
    first: list[Row],
) -> list[Row]:
    merged: dict[str, list[Validity]] = {}
    counts: dict[str, int] = {}
    for row in verdicts:
        merged.setdefault(row["run"], []).append(_VALIDITY[row["valid"]])
        counts[row["run"]] = counts.get(row["run"], 0) + row["anomalies"]
    firsts = {row["run"]: row["type"] for row in sorted(first, key=lambda r: r["checker"])[::-1]}
    rows = []
    for run, (_, _, described) in good.items():
        parts = facts.get(run, [])
        done = [part for part in parts if part["table"] == "operations"]
        valid = merge_valid(merged.get(run, ["unknown"]))
        whose = "system" if valid is False else "harness" if described["harness_errors"] else None
        last = max((part["last_ns"] for part in done if part["last_ns"] is not None), default=None)
        rows.append(
            {
                **described,
                **by_run.get(run, {}),
                "valid": judging.WORDS[valid],
                "class": whose,
                "anomalies": counts.get(run, 0),
                "first_anomaly": firsts.get(run),
                "operations": sum(part["rows"] for part in done),
                **{how: sum(part[how] for part in done) for how in ("ok", "fail", "info")},
                "trace_events": sum(p["rows"] for p in parts if p["table"] == "trace"),
                "fault_events": sum(p["rows"] for p in parts if p["table"] == "faults"),
                "seconds": None if last is None else last / 1e9,
            }
        )
    return rows


def _recoveries(good: dict[str, tuple[Path, Row, Row]], facts: dict[str, list[Row]]) -> list[Row]:
    rows = []
    for run in good:
        parts = facts.get(run, [])
        faults = [f for part in parts if part["table"] == "faults" for f in part["faults"]]
        done = [part for part in parts if part["table"] == "operations"]
        after_start = earliest((part["after_start"] for part in done), len(faults))
        after_end = earliest((part["after_end"] for part in done), len(faults))
        rows += [
            {
                "run": run,
                "id": fault["id"],
                "kind": fault["kind"],
                "shape": fault["shape"],
                "started_ns": fault["struck_ns"],
                "healed_ns": fault["healed_ns"],
                "failover_s": _seconds(fault["struck_ns"], served),
                "recovery_s": _seconds(fault["healed_ns"], again),
            }
            for fault, served, again in zip(faults, after_start, after_end, strict=True)
        ]
    return rows


def _seconds(since: int | None, until: int | None) -> float | None:
    return None if since is None or until is None else (until - since) / 1e9
