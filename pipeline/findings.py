"""The checkers' results (``judging.FINDINGS``) in the driver's memory.

Every selection from a frame of Spark is a job. Of a single run, all results are collected once, and
the tables are selected here, with the rules of :func:`pipeline.gold_frames.of_findings`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kraftwreck.pipeline import judging
from kraftwreck.pipeline.schemas import GOLD, LOSS_CHECKERS, LOSSES

_NEEDED = f"table in ('{judging.REFUSED}', '{judging.COUNTING}', 'verdicts')"


def in_driver(findings: DataFrame) -> list[dict[str, Any]]:
    """Return the rows that the driver needs: refusals, the source of the coverage, verdicts, and
    the first anomaly of each checker. This is one job."""
    rows: list[dict[str, Any]] = (
        findings.where(f"{_NEEDED} or (table = 'anomalies' and number = 0)").toArrow().to_pylist()
    )
    return rows


def needed(findings: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of :func:`in_driver` of collected findings."""
    table = findings.column("table")
    always = pc.is_in(table, pa.array([judging.REFUSED, judging.COUNTING, "verdicts"]))
    first = pc.and_(pc.equal(table, "anomalies"), pc.equal(findings.column("number"), 0))
    rows: list[dict[str, Any]] = findings.filter(pc.or_kleene(always, first)).to_pylist()
    return rows


def collected_tables(findings: pa.Table) -> dict[str, pa.Table]:
    """Return the gold tables of collected findings."""

    def of(table: str) -> pa.Table:
        return findings.filter(pc.equal(findings.column("table"), table))

    anomalies, keys = of("anomalies"), of("keys")
    place = keys.schema.get_field_index("operations")
    keys = keys.set_column(place, "operations", keys.column("count"))
    by_type = pc.is_in(anomalies.column("type"), pa.array(LOSSES))
    by_clients = pc.is_in(anomalies.column("checker"), pa.array(LOSS_CHECKERS))
    lost = anomalies.filter(pc.or_(by_clients, by_type))
    lost = lost.select(["run", "type", "explanation", "operations"])
    return {
        "keys": keys.select(GOLD["keys"].names),
        "verdicts": of("verdicts").select(GOLD["verdicts"].names),
        "anomalies": anomalies.select(GOLD["anomalies"].names),
        "suspicions": of("suspicions").select(GOLD["suspicions"].names),
        "lost_commits": lost.rename_columns(["run", "anomaly", "explanation", "operations"]),
        "coverage": of("coverage").select(GOLD["coverage"].names),
    }
