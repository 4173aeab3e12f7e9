"""A run that a task cannot read or judge is reported in one line, and the next one is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from kraftwreck.histories.operation import Op
from kraftwreck.pipeline import judging, silver
from kraftwreck.pipeline.runs import run_id
from kraftwreck.runs.judge import judge


def run(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    ops = [
        Op(index=0, process=0, type="invoke", f="read", key=1, time=0),
        Op(index=1, process=0, type="ok", f="read", key=1, time=5_000_000),
    ]
    lines = b"".join(msgspec.json.encode(op) + b"\n" for op in ops)
    (folder / "history.jsonl").write_bytes(lines)
    (folder / "test.json").write_text('{"checkers": ["stats", "linearizable"], "nodes": ["n1"]}')
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"results_json": '{"checkers": {"replay": {"valid": "perhaps"}}}'}, "perhaps"),
        ({"results_json": '{"checkers": {"replay": 3}}'}, "int"),
        ({"results_json": "{"}, "results.json"),
        ({"test_json": "[]"}, "test.json"),
    ],
)
def test_a_run_that_cannot_be_judged_is_refused(
    tmp_path: Path, files: dict[str, str], says: str
) -> None:
    bad, good = run(tmp_path / "a" / "bad", **files), run(tmp_path / "a" / "good")
    rows = [{"run": run_id(f), "folder": str(f), "file": str(f)} for f in (bad, good)]
    found = [r for b in judging.findings([pa.RecordBatch.from_pylist(rows)]) for r in b.to_pylist()]
    (refused,) = [row for row in found if row["table"] == judging.REFUSED]
    assert refused["run"] == "a/bad"
    assert says in refused["error"]
    assert "\n" not in refused["error"]
    verdicts = {r["checker"]: r["valid"] for r in found if r["table"] == "verdicts"}
    assert verdicts["stats"] == "true"


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    bad = run(tmp_path / "a" / "bad", history_jsonl='{"index": 0}\n')
    good = run(tmp_path / "a" / "good")
    rows = [
        {"run": run_id(f), "folder": str(f), "table": table, "file": str(file),
         "out": str(tmp_path / "out" / f"{f.name}-{table}.parquet")}
        for f in (bad, good)
        for table, file in silver.sources(f)
    ]  # fmt: skip
    told = [r for b in silver.write([pa.RecordBatch.from_pylist(rows)]) for r in b.to_pylist()]
    errors = [row for row in told if row["error"] is not None]
    assert {row["run"] for row in errors} == {"a/bad"}
    assert "history.jsonl:1: " in errors[0]["error"]
    (read,) = [r for r in told if r["run"] == "a/good" and r["table"] == "operations"]
    assert read["rows"] == 1
    assert msgspec.json.decode(read["facts"])["ok"] == 1


def test_recorded_verdicts_of_other_checkers_are_kept(tmp_path: Path) -> None:
    late = {"type": "C16", "explanation": "It is late.", "why": "A machine may stand still."}
    told = {
        "valid": False,
        "anomalies": [{"type": "differs", "explanation": "It does."}],
        "suspicions": [late],
    }
    text = msgspec.json.encode({"checkers": {"replay": told, "stats": told}}).decode()
    rows = judging.judged(run(tmp_path / "a" / "run", results_json=text))
    verdicts = {r["checker"]: (r["valid"], r["source"]) for r in rows if r["table"] == "verdicts"}
    assert verdicts["replay"] == ("false", "recorded")
    assert verdicts["stats"] == ("true", "computed"), "what was computed counts"
    (anomaly,) = [r for r in rows if r["table"] == "anomalies"]
    assert (anomaly["checker"], anomaly["type"]) == ("replay", "differs")
    (suspicion,) = [r for r in rows if r["table"] == "suspicions"]
    assert {name: suspicion[name] for name in late} == late
    assert (suspicion["checker"], suspicion["source"]) == ("replay", "recorded")


def test_a_judged_run_gives_the_same_rows_without_being_judged_again(tmp_path: Path) -> None:
    folder = run(tmp_path / "a" / "run")
    judge(folder, print)

    def lines(rows: list[dict[str, Any]]) -> list[bytes]:
        kept = [
            {name: value for name, value in row.items() if value is not None and name != "source"}
            for row in rows
        ]
        return sorted(msgspec.json.encode({"run": "a/run", **row}, order="sorted") for row in kept)

    again = judging.judged(folder)
    assert {row["table"] for row in again} >= {"verdicts", "keys", judging.COUNTING}
    assert lines(judging.recorded(folder).to_pylist()) == lines(again)


def test_a_run_whose_verdict_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = run(tmp_path / "a" / "run", results_json="{")
    [row] = judging.recorded(folder).to_pylist()
    assert row["table"] == judging.REFUSED
    assert "results.json" in row["error"]
