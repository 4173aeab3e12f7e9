"""Timeouts for slow hosts are extended by a factor that the user of the harness gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOW = (
    "from kraftwreck.harness.remote.session import CONNECT_TIMEOUT_S, COMMAND_TIMEOUT_S as each; "
    "print(CONNECT_TIMEOUT_S, each)"
)


def shown(told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "KRAFTWRECK_PATIENCE": told},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "waits"), [("", "5.0 30.0"), ("1", "5.0 30.0"), ("4", "20.0 120.0")]
)
def test_time_outs_are_stretched(told: str, waits: str) -> None:
    assert shown(told).stdout.strip() == waits


@pytest.mark.parametrize("told", ["0.5", "-1", "soon", "nan", "inf", "1001"])
def test_anything_else_is_one_line(told: str) -> None:
    done = shown(told)
    assert done.returncode == 254
    assert done.stderr == f"KRAFTWRECK_PATIENCE={told} is not a number from 1 to 1000\n"
