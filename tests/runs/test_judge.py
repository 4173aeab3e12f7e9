"""The verdict of a run does not depend on its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftwreck.reports import pages
from kraftwreck.runs.judge import judge


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
