"""From gold tables to a summary that fits into one JSON line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from histories.reading import HistoryError
from histories.verdict import Validity, merge_valid
from pipeline.java import PipelineError
from pipeline.runs import RunFiles, prepare
from pipeline.tables import compute, write

_VALIDITY: dict[str, Validity] = {"true": True, "false": False, "unknown": "unknown"}


def analyze(spark: SparkSession, folders: Sequence[Path], target: Path) -> dict[str, Any]:
    """Compute and write the tables over the runs in ``folders``; return the summary.

    Runs that cannot be read are left out and named under ``skipped``. Raises
    :class:`~pipeline.java.PipelineError` when none is left.
    """
    begun = monotonic()
    runs: list[RunFiles] = []
    skipped: list[str] = []
    for folder in folders:
        try:
            runs.append(prepare(folder))
        except HistoryError as error:
            skipped.append(str(error))
    if not runs:
        raise PipelineError(f"no run can be read: {skipped[0]}")
    tables = compute(spark, runs)
    written = write(tables, target)
    return {**summary(tables), "analysis": str(written), "skipped": skipped,
            "seconds": round(monotonic() - begun, 3)}  # fmt: skip


def summary(tables: dict[str, pa.Table]) -> dict[str, Any]:
    """Return the verdict over all runs, what is invalid, and the sizes of the tables."""
    rows = tables["verdicts"].to_pylist()
    by_run: dict[str, list[Validity]] = {}
    for row in rows:
        by_run.setdefault(row["run"], []).append(_VALIDITY[row["valid"]])
    merged = {run: merge_valid(values) for run, values in by_run.items()}
    return {
        "valid": merge_valid(merged.values()),
        "runs": len(merged),
        "invalid": sorted(run for run, valid in merged.items() if valid is False),
        "unknown": sorted(run for run, valid in merged.items() if valid == "unknown"),
        "invalid_keys": sum(row["valid"] == "false" for row in tables["keys"].to_pylist()),
        "epochs_with_two_leaders": sum(row["count"] > 1 for row in tables["leaders"].to_pylist()),
        "lost_commits": tables["lost_commits"].num_rows,
        "tables": {name: table.num_rows for name, table in tables.items()},
    }
