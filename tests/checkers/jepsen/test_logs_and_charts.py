"""Patterns in nodes' logs, and the data of Jepsen's charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError


def judged(model: str, path: Path, **options: Any) -> dict[str, Any]:
    return find(model).judge(HistoryFile(path), Settings(options=options)).details


@pytest.fixture(params=["nodes", "."])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "history.jsonl").write_text("")
    for node, text in (("n1", "started\npanic: index out of range\n"), ("n2", "started\n")):
        (tmp_path / request.param / node).mkdir(parents=True)
        (tmp_path / request.param / node / "stdout.log").write_text(text)
    return tmp_path


def test_a_line_of_a_log_that_matches_is_an_anomaly(folder: Path) -> None:
    report = find("log-file-pattern").judge(
        HistoryFile(folder / "history.jsonl"), Settings(options={"pattern": "panic:|FATAL"})
    )
    assert report.result.valid is False
    (match,) = report.details["matches"]
    assert match == {"node": "n1", "line": "panic: index out of range", "number": 2}
    assert report.result.anomalies[0].explanation.startswith("n1, stdout.log:2: panic")


def test_logs_without_it_are_valid_and_no_logs_prove_nothing(folder: Path) -> None:
    history = folder / "history.jsonl"
    assert judged("log-file-pattern", history, pattern="FATAL")["valid?"] is True
    assert judged("log-file-pattern", history)["valid?"] == "unknown"
    missing = judged("log-file-pattern", history, pattern="x", filename="db.log")
    assert missing["valid?"] == "unknown"
    for wrong in ({"pattern": "("}, {"pattern": "x", "filename": "../../secret"}):
        with pytest.raises(HistoryError):
            judged("log-file-pattern", history, **wrong)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def test_latencies_are_reported_by_window_and_kind(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for number, (second, ms, kind) in enumerate([(1, 5, "ok"), (2, 9, "ok"), (31, 7, "fail")]):
        begin = second * 10**9
        for time, type_ in ((begin, "invoke"), (begin + ms * 10**6, kind)):
            rows.append({"process": number, "type": type_, "f": "read", "value": 1, "time": time})
    path = write(tmp_path / "history.jsonl", rows)
    found = judged("latency", path, quantiles=[0, 1])["latencies"]
    assert found == {
        "read": {
            "ok": {"0": [[15.0, 5.0]], "1": [[15.0, 9.0]]},
            "fail": {"0": [[45.0, 7.0]], "1": [[45.0, 7.0]]},
        }
    }
    rates = judged("rate", path, window=30)["rates"]
    assert rates["read"]["ok"] == [[15.0, 2 / 30], [45.0, 0.0]]
    assert rates["read"]["fail"] == [[15.0, 0.0], [45.0, 1 / 30]]
    assert judged("rate", path, window=0)["valid?"] == "unknown"
    assert judged("latency", path, quantiles=[2])["valid?"] == "unknown"


def test_clock_offsets_come_from_the_nemesis(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"process": "nemesis", "type": "info", "f": "check-offsets", "value": None,
         "time": 10**9, "clock-offsets": {"n1": 0.5, "n2": -2}},
        {"process": 0, "type": "invoke", "f": "read", "value": None, "time": 4 * 10**9},
    ]  # fmt: skip
    found = judged("clock", write(tmp_path / "history.jsonl", rows))
    assert found["offsets"] == {"n1": [[1.0, 0.5], [4.0, 0.5]], "n2": [[1.0, -2.0], [4.0, -2.0]]}
    assert found["furthest"] == {"n1": 0.5, "n2": 2}
    assert judged("clock", write(tmp_path / "none.jsonl", rows[1:]))["valid?"] == "unknown"
    rows[0]["clock-offsets"] = {"n1": "late"}
    with pytest.raises(HistoryError, match="n1"):
        judged("clock", write(tmp_path / "wrong.jsonl", rows))
