"""A kill of the process that judges a run costs only the verdict of one checker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from kraftwreck.checkers import registry
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.pipeline import judging, silver
from kraftwreck.pipeline.apart import Died, apart
from kraftwreck.pipeline.runs import run_id


def test_results_and_errors_of_a_child_are_passed_on() -> None:
    assert apart(lambda tell: {"pid": os.getpid()})["pid"] != os.getpid()

    def refuse(_: Any) -> None:
        raise HistoryError("a file: no")

    def fail(_: Any) -> None:
        raise ValueError

    with pytest.raises(HistoryError, match="a file: no"):
        apart(refuse)
    with pytest.raises(RuntimeError, match="ValueError"):
        apart(fail)


def test_a_large_answer_comes_whole() -> None:
    assert apart(lambda tell: ["x" * 1000] * 5000) == ["x" * 1000] * 5000


@pytest.mark.parametrize(
    ("number", "says"),
    [(signal.SIGKILL, "SIGKILL: out of memory"), (signal.SIGTERM, "killed by SIGTERM")],
)
def test_a_killed_child_is_reported_with_its_position(number: signal.Signals, says: str) -> None:
    def die(tell: Any) -> None:
        tell("begun")
        tell("amid")
        os.kill(os.getpid(), number)
        signal.pause()

    with pytest.raises(Died, match=says) as died:
        apart(die)
    assert died.value.at == "amid"


def test_a_child_that_just_ends_is_reported() -> None:
    with pytest.raises(Died, match="ended with exit code 7"):
        apart(lambda tell: os._exit(7))


def make_run(folder: Path, checkers: list[str], **files: str) -> Path:
    folder.mkdir(parents=True)
    ops = [
        Op(index=0, process=0, type="invoke", f="read", key=1, time=0),
        Op(index=1, process=0, type="ok", f="read", key=1, time=5_000_000),
    ]
    lines = b"".join(msgspec.json.encode(op) + b"\n" for op in ops)
    (folder / "history.jsonl").write_bytes(lines)
    test = {"checkers": checkers, "nodes": ["n1"]}
    (folder / "test.json").write_bytes(msgspec.json.encode(test))
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def killer(_: RunData) -> CheckerResult:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def found(*folders: Path) -> list[dict[str, Any]]:
    rows = [{"run": run_id(f), "folder": str(f), "file": str(f)} for f in folders]
    batches = judging.findings([pa.RecordBatch.from_pylist(rows)])
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_checker_whose_process_is_killed_is_unknown_and_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.CHECKERS, "killer", killer)
    told = '{"checkers": {"killer": {"valid": true}}}'
    bad = make_run(tmp_path / "a" / "bad", ["stats", "killer", "linearizable"], results_json=told)
    good = make_run(tmp_path / "a" / "good", ["stats"])
    rows = found(bad, good)
    verdicts = {(r["run"], r["checker"]): r for r in rows if r["table"] == "verdicts"}
    assert {key: row["valid"] for key, row in verdicts.items()} == {
        ("a/bad", "stats"): "true",
        ("a/bad", "killer"): "unknown",
        ("a/bad", "linearizable"): "true",
        ("a/good", "stats"): "true",
    }
    error = verdicts["a/bad", "killer"]["error"]
    assert error == "killed (SIGKILL: out of memory?) while it ran"
    assert not [row for row in rows if row["table"] == judging.REFUSED]


def test_a_run_that_kills_whatever_judges_it_is_given_up_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["killer", "again", "and-again", "stats"]
    for name in names[:3]:
        monkeypatch.setitem(registry.CHECKERS, name, killer)
    rows = found(make_run(tmp_path / "a" / "bad", names))
    verdicts = {r["checker"]: (r["valid"], r["error"]) for r in rows if r["table"] == "verdicts"}
    assert {valid for valid, _ in verdicts.values()} == {"unknown"}
    assert verdicts["stats"][1] == "not run: judging this run was killed 3 times"
    (counting,) = [row["error"] for row in rows if row["table"] == judging.COUNTING]
    assert counting.startswith("not counted: not run: judging")


def test_a_run_whose_reading_kills_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunData, "from_folder", killer)
    rows = found(make_run(tmp_path / "a" / "bad", ["stats"]))
    assert [(row["table"], "killed" in row["error"]) for row in rows] == [(judging.REFUSED, True)]


@pytest.mark.parametrize("large", [True, False])
def test_silver_of_a_large_file_is_written_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(silver, "APART", 1 if large else 1 << 30)
    written: list[int] = []

    def write(*_: Any) -> tuple[int, dict[str, Any]]:
        written.append(1)
        return 3, {"ok": 1}

    monkeypatch.setitem(silver._WRITERS, "operations", write)
    row = {"run": "a/b", "folder": "x", "table": "operations", "file": str(tmp_path), "out": "y"}
    make_run(tmp_path / "a", ["stats"])
    (tmp_path / "history.jsonl").write_text("{}")
    [batch] = silver.write([pa.RecordBatch.from_pylist([row])])
    assert (batch.to_pylist()[0]["rows"], bool(written)) == (3, not large)


# --- how it is known what a run reached ---------------------------------------------------------


def counting(folder: Path) -> str:
    [row] = [row for row in judging.judged(folder) if row["table"] == judging.COUNTING]
    return str(row["error"])


def test_the_source_of_coverage_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counting(make_run(tmp_path / "a" / "1", ["stats"])) == "counted"
    recorded = {"coverage_json": '{"runs": 1, "follows": {"a/b > c/d": 1}}'}
    assert counting(make_run(tmp_path / "a" / "2", ["stats"], **recorded)) == "recorded"
    torn = make_run(tmp_path / "a" / "3", ["stats"], coverage_json='{"runs": ')
    assert counting(torn).startswith("not counted: coverage.json: ")
    assert [r["table"] for r in judging.judged(torn)] == ["verdicts", judging.COUNTING]

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("n7")

    monkeypatch.setattr(judging, "coverage", fail)
    assert "'n7'" in counting(make_run(tmp_path / "a" / "4", ["stats"]))
