"""Tables of a single run that the driver derives from few results of Spark.

Every selection from a frame of Spark is a job, and of so few rows a job costs more than the rows.
Stores derive the same tables by Spark (:func:`pipeline.gold_frames.of_operations`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kraftwreck.pipeline.gold_frames import (
    BY_SECOND,
    by_second,
    latency_by_run,
    leaders,
    of_windows,
)
from kraftwreck.pipeline.schemas import GOLD

BY_RUN = "by run"
_AT_ONCE = 4
"""Tables that Spark computes at the same time: most of their time is waiting."""


def collect(operations: DataFrame, trace: DataFrame) -> dict[str, pa.Table]:
    """Return the gold tables that follow from silver, and those of :data:`BY_SECOND` and
    :data:`BY_RUN`."""
    frames = {
        BY_SECOND: by_second(operations),
        BY_RUN: latency_by_run(operations),
        **of_windows(operations),
        "leaders": leaders(trace),
    }
    with ThreadPoolExecutor(_AT_ONCE, "tables") as pool:
        waiting = {name: pool.submit(frame.toArrow) for name, frame in frames.items()}
        tables = {name: table.result() for name, table in waiting.items()}
    seconds = tables[BY_SECOND]
    tables["rates"] = seconds.select(GOLD["rates"].names)
    some = seconds.filter(pc.greater(seconds.column("count"), 0))
    tables["latency"] = some.select(GOLD["latency"].names)
    return tables


def by_run(tables: Mapping[str, pa.Table]) -> dict[str, dict[str, Any]]:
    """Return availability and latency of each run as a whole."""
    seconds = tables[BY_SECOND].group_by(["run", "second"]).aggregate([("ok", "sum")])
    found = {}
    for row in tables[BY_RUN].to_pylist():
        own = seconds.filter(pc.equal(seconds.column("run"), row["run"]))
        available = pc.mean(pc.greater(own.column("ok_sum"), 0)).as_py()
        found[row["run"]] = {**row, "availability": available}
    return found
