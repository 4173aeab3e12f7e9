"""Spark beside a run that is killed: its processes and files go, too."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
CONTROL = """
import os, subprocess, sys, time
worker = [sys.executable, "-m", "kraftwreck.pipeline.worker", "local[2]", "small", str(os.getpid())]
worker.append("0")  # It may be asked for something at once.
subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


def processes_of(temporary: Path) -> list[str]:
    """The processes whose temporary files are there: all that the control process began."""
    found = []
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and f"TMPDIR={temporary}".encode() in (
                path / "environ"
            ).read_bytes().split(b"\0"):
                found.append(path.name)
    return found


@pytest.mark.spark
def test_nothing_stays_of_spark_when_the_control_process_is_killed(tmp_path: Path) -> None:
    control = subprocess.Popen(
        [sys.executable, "-c", CONTROL],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        wait_until(lambda: any(tmp_path.glob("*/*/*")))  # Spark's own folder has something.
    finally:
        control.kill()
        control.wait()
    wait_until(lambda: not any(tmp_path.iterdir()))
    wait_until(lambda: not processes_of(tmp_path))


@pytest.mark.spark
def test_a_worker_whose_parent_is_gone_before_it_begins_does_not_begin(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    worker = subprocess.run(
        [
            sys.executable, "-m", "kraftwreck.pipeline.worker", "local[2]", "small",
            str(gone.pid), "0",
        ],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True,
        stdin=subprocess.PIPE, capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert worker.stdout == b""
    assert not list(tmp_path.iterdir())
    assert not processes_of(tmp_path)
