"""Spark beside a run that is killed: its files go, too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
CONTROL = """
import subprocess, sys, time
worker = [sys.executable, "-m", "pipeline.worker", "local[2]", "small"]
subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


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
