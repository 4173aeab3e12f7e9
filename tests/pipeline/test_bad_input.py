"""Without Java, without runs, without Spark: one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.cli.main import status
from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.java import PipelineError


def test_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.json").write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PipelineError, match="no working Java found"):
        start(tmp_path)
    assert status(["analyze", str(tmp_path)]) == 254
    error = capsys.readouterr().err
    assert error.startswith("kraftwreck analyze: no working Java found (PATH): install one")
    assert error.count("\n") == 1


@pytest.mark.parametrize("made", [True, False])
def test_without_runs(tmp_path: Path, made: bool, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    if made:
        (store / "kraft" / "1-1.running").mkdir(parents=True)
        (store / "kraft" / "1-1.running" / "test.json").write_text("{}")
    assert status(["analyze", str(store)]) == 254
    error = capsys.readouterr().err
    assert ("contains no complete run" if made else "not a directory") in error
    assert error.count("\n") == 1


def worker(code: str) -> Handle:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    return Handle(process, Path("nowhere"))


def test_a_dead_worker_is_reported(tmp_path: Path) -> None:
    handle = worker("raise SystemExit(3)")
    with pytest.raises(PipelineError, match="worker ended with 3"):
        handle.finish(tmp_path)
    handle.wait()


def test_an_error_of_a_worker_is_reported(tmp_path: Path) -> None:
    handle = worker('print(\'{"error": "Spark did not start"}\', flush=True); input()')
    with pytest.raises(PipelineError, match="analysis with Spark failed: Spark did not start"):
        handle.finish(tmp_path)
    handle.wait()


def test_a_worker_that_hangs_is_given_up_and_killed(tmp_path: Path) -> None:
    handle = worker("import time; time.sleep(60)")
    with pytest.raises(PipelineError, match="no answer in time"):
        handle.finish(tmp_path, timeout_s=0.2)
    handle.wait(timeout_s=0.2)
