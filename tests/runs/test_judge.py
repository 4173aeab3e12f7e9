"""The verdict of a run does not depend on its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftwreck.histories.verdict import CheckerResult, Suspicion, Verdict
from kraftwreck.reports import pages
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
