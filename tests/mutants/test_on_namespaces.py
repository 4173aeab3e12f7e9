"""Planted bugs are found by real processes on real hosts too, not only in virtual time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.cluster
@pytest.mark.whole_run
@pytest.mark.parametrize(
    ("mutant", "type_"),
    [
        ("R25", "I16"),  # a pre-vote raises the epoch
        ("R19", "I25"),  # the controller claims before its epoch's start is applied
        ("R38", "I25"),  # records are applied when appended, not when committed
    ],
)
def test_a_planted_bug_is_found_on_namespace_hosts(
    mutant: str, type_: str, tmp_path: Path, netns_possible: None
) -> None:
    command = [sys.executable, "-m", "kraftwreck", "run", "--mutant", mutant, "-n", "kill"]
    command += ["-t", "10", "--seed", "5", "--store", str(tmp_path), "--no-tables", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    said = json.loads(ended.stdout)
    assert said["valid"] is False
    results = json.loads((Path(said["run"]) / "results.json").read_text())
    found = {
        anomaly["type"]
        for checker in results["checkers"].values()
        for anomaly in checker["anomalies"]
    }
    assert type_ in found
