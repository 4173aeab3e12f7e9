"""Known bugs of real systems: what a test promises, and the page of its runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.wild import FILE, TESTS, as_promised, installed, page

STALE, FRESH = TESTS[:2]


def record(number: int, valid: bool | str, wall_s: float = 80.0) -> dict[str, Any]:
    found = ["model/register: nonlinearizable: a | b"] if valid is False else []
    return {"number": number, "valid": valid, "wall_s": wall_s, "anomalies": found}


@pytest.mark.parametrize(
    ("valid", "stale", "fresh"),
    [(False, True, False), (True, False, True), ("unknown", False, False)],
)
def test_a_run_is_as_promised(valid: bool | str, stale: bool, fresh: bool) -> None:
    assert as_promised(STALE, [record(1, valid)]) == stale
    assert as_promised(FRESH, [record(1001, valid)]) == fresh


def test_the_page_counts_runs_and_the_time_to_the_first_anomaly() -> None:
    text = page([record(1, True), record(2, False, 70.0), record(1001, True)])
    (stale,) = [line for line in text.splitlines() if "serializable=true" in line]
    assert "| 1, 2 | 1 | 1 | 0 | 150 s | model/register: nonlinearizable: a \\| b |" in stale
    (fresh,) = [line for line in text.splitlines() if "linearizable reads" in line]
    assert "| 1 | 0 | 1 | 0 | – | – |" in fresh


def test_systems_of_the_page_can_be_named() -> None:
    with installed():
        command = [sys.executable, "-m", "kraftwreck", "list"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}
    assert {"etcd", "pysyncobj", "redis-sentinel", "zookeeper"} <= names


def test_the_page_is_made_from_a_store(tmp_path: Path) -> None:
    lines = [json.dumps(record(1, False)), json.dumps(record(1001, True)), '{"number": 10']
    (tmp_path / FILE).write_text("\n".join(lines))
    command = [sys.executable, "-m", "bench.wild", str(tmp_path), "--page"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == page([record(1, False), record(1001, True)])
