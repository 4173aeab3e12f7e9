"""The summary of an analysis, one JSON line: verdicts, invalid runs, sizes of tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kraftwreck.histories.verdict import Validity, merge_valid
from kraftwreck.pipeline.gold import files, read
from kraftwreck.pipeline.schemas import GOLD, SILVER

_VALIDITY: dict[str, Validity] = {"true": True, "false": False, "unknown": "unknown"}


def of_tables(tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Return the summary of tables in memory."""
    return {
        **_verdicts(tables["runs"]),
        "invalid_keys": _count(tables["keys"], "valid", "false"),
        "epochs_with_two_leaders": _above(tables["leaders"]),
        "lost_commits": len(tables["lost_commits"]),
        "tables": {name: len(table) for name, table in tables.items()},
    }


def of_store(store: Path) -> dict[str, Any]:
    """Return the summary of an analyzed store."""
    names = [*(f"silver/{name}" for name in SILVER), *GOLD]
    sizes = {
        name: sum(pq.read_metadata(path).num_rows for path in files(store, name)) for name in names
    }
    refused = read(store, "quarantine").column("reason").to_pylist()
    keys = (pq.read_table(path, columns=["valid"]) for path in files(store, "keys"))
    leaders = (pq.read_table(path, columns=["count"]) for path in files(store, "leaders"))
    return {
        **_verdicts(read(store, "runs")),
        "invalid_keys": sum(_count(part, "valid", "false") for part in keys),
        "epochs_with_two_leaders": sum(map(_above, leaders)),
        "lost_commits": sizes["lost_commits"],
        "skipped": refused,
        "tables": sizes,
    }


def _verdicts(runs: pa.Table) -> dict[str, Any]:
    rows = runs.select(["run", "valid"]).to_pylist()
    return {
        "valid": merge_valid(_VALIDITY[row["valid"]] for row in rows),
        "runs": len(rows),
        "invalid": sorted(row["run"] for row in rows if row["valid"] == "false"),
        "unknown": sorted(row["run"] for row in rows if row["valid"] == "unknown"),
    }


def _count(table: pa.Table, column: str, word: str) -> int:
    return int(pc.sum(pc.equal(table.column(column), word)).as_py() or 0)


def _above(table: pa.Table) -> int:
    return int(pc.sum(pc.greater(table.column("count"), 1)).as_py() or 0)
