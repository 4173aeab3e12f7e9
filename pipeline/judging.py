"""The checkers as Spark's Python workers run them: the same functions as in any process.

``findings`` judges whole runs, ``keys`` the keys of a run's history by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from checkers.calls import Call, pair
from checkers.linearizable import check_keys, explain, model_of, operations_of
from checkers.registry import check
from checkers.run_data import RunData
from checkers.stored_events import StoredEvents
from histories.operation import Op
from histories.parquet import read_parquet
from histories.reading import HISTORY_SCHEMA, from_table, read_history
from histories.verdict import Anomaly, Validity
from nemesis.coverage import Coverage, coverage
from pipeline.runs import read_test, recorded_verdict
from pipeline.silver import one_line

Batches = Iterable[pa.RecordBatch]
Row = dict[str, Any]

WORDS: dict[Validity, str] = {True: "true", False: "false", "unknown": "unknown"}
RUNS = "run string, folder string, file string"
FINDINGS = (
    "run string, table string, checker string, valid string, anomalies long, error string, "
    "source string, number long, type string, explanation string, operations array<long>, "
    "counter string, item string"
)
_FINDINGS = pa.schema(
    [
        ("run", pa.string()),
        ("table", pa.string()),
        ("checker", pa.string()),
        ("valid", pa.string()),
        ("anomalies", pa.int64()),
        ("error", pa.string()),
        ("source", pa.string()),
        ("number", pa.int64()),
        ("type", pa.string()),
        ("explanation", pa.string()),
        ("operations", pa.list_(pa.int64())),
        ("counter", pa.string()),
        ("item", pa.string()),
    ]
)
KEYS = (
    "run string, key string, model string, valid string, operations long, explanation string, "
    "error string"
)
_KEYS = pa.schema(
    [
        ("run", pa.string()),
        ("key", pa.string()),
        ("model", pa.string()),
        ("valid", pa.string()),
        ("operations", pa.int64()),
        ("explanation", pa.string()),
        ("error", pa.string()),
    ]
)
_COUNTERS = ("follows", "overlaps", "struck", "cuts", "directed", "steps", "marks")
REFUSED = "refused"
"""Table of a run that its checkers could not even begin to read."""


def findings(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``verdicts``, ``anomalies`` and ``coverage`` of each run."""
    for row in _rows(batches):
        try:
            rows = judged(Path(row["folder"]))
        except Exception as error:
            rows = [{"table": REFUSED, "error": one_line(error, row["folder"])}]
        rows = [{"run": row["run"], **each} for each in rows]
        yield pa.RecordBatch.from_pylist(rows, schema=_FINDINGS)


def judged(folder: Path) -> list[Row]:
    """Return what checkers and counters say of the run in ``folder``.

    A checker of ``results.json`` that only a whole process can run (it runs the nodes again,
    or sat in the simulator) keeps the verdict it had there.
    """
    data = RunData.from_folder(folder)
    verdict = check(data, data.test.get("checkers") or ["stats"])
    rows: list[Row] = []
    for name, result in verdict.checkers.items():
        rows += _told(name, "computed", WORDS[result.valid], result.error, result.anomalies)
    for name, told in recorded_verdict(folder).items():
        if name not in verdict.checkers:
            anomalies = msgspec.convert(told.get("anomalies") or [], list[Anomaly])
            valid = WORDS[told.get("valid", "unknown")]
            rows += _told(name, "recorded", valid, told.get("error"), anomalies)
    reached = _reached(folder, data)
    for counter in _COUNTERS:
        rows += [
            {"table": "coverage", "counter": counter, "item": item}
            for item in sorted(getattr(reached, counter))
        ]
    return rows


def _told(
    checker: str, source: str, valid: str, error: str | None, anomalies: list[Anomaly]
) -> list[Row]:
    head: Row = {"checker": checker, "source": source}
    counted = {"table": "verdicts", "valid": valid, "anomalies": len(anomalies), "error": error}
    return [
        {**head, **counted},
        *(
            {
                **head,
                "table": "anomalies",
                "number": number,
                "type": anomaly.type,
                "explanation": anomaly.explanation,
                "operations": anomaly.operations,
            }
            for number, anomaly in enumerate(anomalies)
        ),
    ]


def _reached(folder: Path, data: RunData) -> Coverage:
    """Return what the run reached, as it was counted, or counted now.

    What is wrong with it costs no verdict: then nothing was reached. A trace that is too long
    to be sorted as objects is not counted.
    """
    path = folder / "coverage.json"
    try:
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=Coverage)
        if isinstance(data.events, StoredEvents):
            return Coverage()
        return coverage(data.events, data.faults, data.test, ordered=False)
    except Exception:
        return Coverage()


def keys(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield one row per key: is its history linearizable, and if not, why.

    A history that cannot be judged by key has one row, with the error.
    """
    for row in _rows(batches):
        folder, file = Path(row["folder"]), Path(row["file"])
        try:
            found = _by_key(folder, file)
        except Exception as error:
            found = [{"error": one_line(error, row["file"])}]
        found = [{"run": row["run"], **each} for each in found]
        yield pa.RecordBatch.from_pylist(found, schema=_KEYS)


def _by_key(folder: Path, file: Path) -> list[Row]:
    model = model_of(read_test(folder))
    return [
        {
            "key": verdict.key,
            "model": model.name,
            "valid": WORDS[verdict.outcome.valid],
            "operations": verdict.count,
            "explanation": explain(verdict.key, verdict.outcome)
            if verdict.outcome.valid is False
            else verdict.outcome.reason,
        }
        for verdict in check_keys(model, operations_of(calls_of(folder, file)))
    ]


def calls_of(folder: Path, file: Path) -> list[Call]:
    """Return the operations in one shard of a history, or in all of it (``folder`` itself)."""
    table = read_history(folder) if file == folder else read_parquet(file, HISTORY_SCHEMA)
    return pair(from_table(table.sort_by("index"), Op))


def _rows(batches: Batches) -> Iterator[dict[str, str]]:
    for batch in batches:
        yield from batch.to_pylist()
