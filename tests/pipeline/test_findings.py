"""The tables of a single run are selected from its collected results, without jobs of Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kraftwreck.pipeline import judging
from kraftwreck.pipeline.findings import collected_tables, needed
from kraftwreck.pipeline.schemas import GOLD

ROWS: list[dict[str, Any]] = [
    {"table": "verdicts", "checker": "topics", "valid": "false", "anomalies": 2},
    {"table": "anomalies", "checker": "topics", "number": 0, "type": "lost", "operations": [4]},
    {"table": "anomalies", "checker": "topics", "number": 1, "type": "lost", "operations": [7]},
    {"table": "anomalies", "checker": "invariants", "number": 0, "type": "I1"},
    {"table": "suspicions", "checker": "invariants", "number": 0, "type": "I18", "why": "A pause."},
    {"table": "keys", "key": "k", "model": "register", "valid": "true", "count": 9},
    {"table": "coverage", "counter": "steps", "item": "vote"},
    {"table": judging.COUNTING, "error": judging.RECORDED},
]


def findings() -> pa.Table:
    names = [part.split()[0] for part in judging.FINDINGS.split(", ")]
    rows = [{name: {"run": "a/b", **row}.get(name) for name in names} for row in ROWS]
    return pa.Table.from_pylist(rows, schema=judging._FINDINGS)


def test_every_table_has_the_columns_of_its_schema() -> None:
    tables = collected_tables(findings())
    for name, table in tables.items():
        assert table.column_names == GOLD[name].names
    assert {name: len(table) for name, table in tables.items()} == {
        "keys": 1, "verdicts": 1, "anomalies": 3, "suspicions": 1, "lost_commits": 2,
        "coverage": 1,
    }  # fmt: skip
    assert tables["keys"].column("operations").to_pylist() == [9]
    assert tables["suspicions"].column("why").to_pylist() == ["A pause."]
    assert tables["lost_commits"].column("operations").to_pylist() == [[4], [7]]


def test_the_driver_needs_verdicts_and_the_first_anomaly_of_each_checker() -> None:
    told = [(row["table"], row["checker"], row["number"]) for row in needed(findings())]
    assert told == [
        ("verdicts", "topics", None),
        ("anomalies", "topics", 0),
        ("anomalies", "invariants", 0),
        (judging.COUNTING, None, None),
    ]
