"""Read the tables of an analyzed store, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.manifest import load, locate
from kraftwreck.pipeline.schemas import GOLD, SILVER

ANALYSIS = "analysis"


def read(store: Path, table: str) -> pa.Table:
    """Return a table of gold, or of silver (``"silver/operations"``), as last committed.

    A table without rows is empty. Raises :class:`~pipeline.java.PipelineError` if ``store`` was
    never analyzed, :class:`KeyError` for an unknown table.
    """
    schema = _schema(table)
    found = [conform(pq.read_table(path), schema) for path in files(store, table)]
    return pa.concat_tables([schema.empty_table(), *found])


def files(store: Path, table: str) -> list[Path]:
    """Return the Parquet files of a table, as last committed; see :func:`read`."""
    _schema(table)
    analysis = store / ANALYSIS
    if not (analysis / "manifest.json").exists():
        raise PipelineError(f"{store}: was never analyzed; run: kraftwreck analyze {store}")
    name = table if "/" in table else f"gold/{table}"
    return [locate(analysis, file) for file in load(analysis).tables.get(name, ())]


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table`` with the columns and types of ``schema``; missing columns are null."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(len(table), field.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def _schema(table: str) -> pa.Schema:
    layer, _, name = table.rpartition("/")
    return SILVER[name] if layer == "silver" else GOLD[name]
