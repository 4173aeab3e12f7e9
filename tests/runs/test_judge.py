"""The verdict of a run does not depend on its pages."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.store import write_json
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion, Verdict
from kraftwreck.reports import pages
from kraftwreck.runs import judge as judging
from kraftwreck.runs.judge import judge, show_verdict


def test_a_report_that_cannot_be_made_is_one_line_and_the_verdict_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> None:
        raise LookupError("no such\ntemplate")

    monkeypatch.setattr(pages, "write_report", broken)
    said: list[str] = []
    verdict = judge(tmp_path, said.append)
    pages.write_pages(tmp_path, said.append)
    assert verdict.valid == "unknown", "there is no history here"
    assert json.loads((tmp_path / "results.json").read_text())["valid"] == "unknown"
    assert said == ["error: report: LookupError: no such template"]


@pytest.mark.parametrize(
    ("simulated", "status", "valid"),
    [(True, "not checked", False), (True, "checked", True), (False, "not checked", True)],
)
def test_a_folder_without_the_evidence_of_a_rule_does_not_take_its_anomaly_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated: bool, status: str, valid: bool
) -> None:
    """A simulated run was judged from memory before (seed 5802754)."""
    anomaly = Anomaly(type="C19", explanation="n3 lets b1 go.")
    memory = Verdict.of({"invariants": CheckerResult(valid=False, anomalies=[anomaly])})
    write_json(tmp_path / "results.json", memory)
    data: Any = SimpleNamespace(test={"simulated": simulated})
    stats = {"invariants": {"C19": {"status": status, "facts": 0}}}
    folder = Verdict.of({"invariants": CheckerResult(valid=True, stats=stats)})
    monkeypatch.setattr(RunData, "from_folder", lambda path: data)
    monkeypatch.setattr(judging, "check", lambda data, names: folder)
    monkeypatch.setattr(judging, "_reached", lambda data, say: None)
    for _ in range(2):  # Judged once more, it is the same.
        assert judge(tmp_path, print).valid is valid
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["valid"] is valid
    kept = [each["type"] for each in found["checkers"]["invariants"]["anomalies"]]
    assert kept == ([] if valid else ["C19"])


@pytest.mark.parametrize("content", [None, b"{torn", b"[]"])
def test_results_that_cannot_be_read_add_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "results.json").write_bytes(content)
    data: Any = SimpleNamespace(test={"simulated": True})
    monkeypatch.setattr(RunData, "from_folder", lambda path: data)
    verdict = Verdict.of({"stats": CheckerResult(valid=True)})
    monkeypatch.setattr(judging, "check", lambda data, names: verdict)
    monkeypatch.setattr(judging, "_reached", lambda data, say: None)
    assert judge(tmp_path, print).valid is True


def test_suspicions_are_printed_and_named_in_the_last_line(tmp_path: Path) -> None:
    late = Suspicion(type="C16", explanation="n1 did not fence it.", why="A machine stands still.")
    verdict = Verdict.of(
        {
            "stats": CheckerResult(valid=True),
            "invariants": CheckerResult(valid=True, suspicions=[late]),
        }
    )
    said: list[str] = []
    show_verdict(verdict, tmp_path, "kraftwreck run", said.append)
    assert said[:5] == [
        "  stats       valid",
        "  invariants  valid   1 suspicion",
        "                suspected: C16: n1 did not fence it. A machine stands still.",
        "verdict: valid, 1 suspicion: invariants: C16",
        f"run:     {tmp_path}",
    ]


@pytest.mark.parametrize(
    ("told", "unchecked"),
    [
        ({"I1": {"status": "not checked"}, "I2": {"status": "checked"}}, {"I1"}),
        (None, set()),
        (7, set()),
        ({"I1": 7, "I2": {}}, set()),
    ],
)
def test_rules_are_unchecked_by_their_status_whatever_a_checker_counts(
    told: Any, unchecked: set[str]
) -> None:
    assert CheckerResult(valid=True, stats={"invariants": told}).unchecked == unchecked
