"""Known bugs of real systems: what a test promises, and the page of its runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import wild
from bench.wild import FILE, FRONT, PAGE, RECORDS, TESTS, as_promised, installed, keep, page
from bench.wild import Test as WildTest
from bench.wild_first_hit import Pair, row_of, summary
from bench.wild_records import merged, write
from kraftwreck.reports.store.verdict_table import BEGIN, END

STALE, FRESH = TESTS[:2]


def record(
    test: WildTest, seed: int, valid: bool | str, wall_s: float | None = 80.0
) -> dict[str, Any]:
    found = "model/register: nonlinearizable: a | b" if valid is False else ""
    return {
        "words": list(test.words),
        "seed": seed,
        "valid": valid,
        "wall_s": wall_s,
        "anomaly": found,
        "system": "etcd",
        "options": ["serializable=true"] if test is STALE else [],
        "workload": "register",
        "faults": ["kill"],
        "kinds": ["nonlinearizable"] if valid is False else [],
        "day": "2026-11-23",
    }


@pytest.mark.parametrize(
    ("valid", "stale", "fresh"),
    [(False, True, False), (True, False, True), ("unknown", False, False)],
)
def test_a_run_is_as_promised(valid: bool | str, stale: bool, fresh: bool) -> None:
    assert as_promised(STALE, [record(STALE, 1, valid)]) == stale
    assert as_promised(FRESH, [record(FRESH, 1, valid)]) == fresh


def test_the_page_counts_runs_and_the_time_to_the_first_anomaly() -> None:
    text = page([record(STALE, 1, True), record(STALE, 2, False, 70.0), record(FRESH, 1, True)])
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


def small_store(folder: Path, valid: bool) -> Path:
    """Make a store with one run of :data:`FRESH`, one that left no folder, and a torn line."""
    run = folder / "runs" / "etcd-register" / "20261124T010203.000Z-7"
    run.mkdir(parents=True)
    test = {"system": "etcd", "workload": "register", "faults": ["kill"], "system_options": []}
    (run / "test.json").write_text(json.dumps(test))
    found = [] if valid else [{"type": "lost", "explanation": "x"}]
    judged = {"valid": valid, "checkers": {"model/set": {"valid": valid, "anomalies": found}}}
    (run / "results.json").write_text(json.dumps(judged))
    line = {
        "number": 1007,
        "cell": {"words": list(FRESH.seeded(7).words)},
        "valid": valid,
        "wall_s": 61.0,
        "anomalies": ["model/set: lost: x"] * (not valid),
        "run": str(run),
    }
    failed = {**line, "number": 1008, "valid": None, "run": None}
    lines = [json.dumps(line), json.dumps(failed), '{"number": 10']
    (folder / FILE).write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("valid", [True, False])
def test_rows_that_others_measured_survive_a_small_store(tmp_path: Path, valid: bool) -> None:
    tree = tmp_path / "tree"
    (tree / "docs").mkdir(parents=True)
    (tree / FRONT).write_text(f"before\n{BEGIN}\n{END}after\n")
    write(tree / RECORDS, [record(STALE, 1, False), record(FRESH, 7, True), record(FRESH, 1, True)])
    keep(small_store(tmp_path / "store", valid), tree)
    fresh = f"| 1, 7 | {int(not valid)} | {1 + valid} | 0 |"
    text = (tree / PAGE).read_text()
    assert "| 1 | 1 | 0 | 0 | 80 s | model/register" in text
    assert fresh in text
    front = (tree / FRONT).read_text()
    assert "| etcd serializable=true | register | kill | 1 | 0 | 1 | 0 |" in front
    assert f"| etcd | register | kill | 2 | {1 + valid} | {int(not valid)} | 0 |" in front
    assert "2026-11-24" in front
    assert front.endswith("after\n")
    before = [(tree / name).read_text() for name in (RECORDS, PAGE, FRONT)]
    keep(tmp_path / "empty", tree)
    assert [(tree / name).read_text() for name in (RECORDS, PAGE, FRONT)] == before


def test_a_run_replaces_the_older_one_of_the_same_command_and_seed() -> None:
    old = [record(STALE, 1, False), record(STALE, 2, False)]
    assert merged(old, [record(STALE, 2, True)]) == [old[0], record(STALE, 2, True)]


def test_seconds_that_nobody_kept_are_not_invented() -> None:
    assert "| 1 | 1 | 0 | 0 | ? |" in page([record(STALE, 1, False, None)])


def test_the_pages_are_those_of_the_records() -> None:
    kept = [json.loads(line) for line in Path(RECORDS).read_text().splitlines()]
    assert Path(PAGE).read_text() == page(kept)


def test_runs_of_the_store_and_kept_ones_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def run(number: int, each: wild.Seeded, cluster: str, store: Path) -> dict[str, Any]:
        made.append(number)
        return {"valid": True, "wall_s": 1.0, "command": ""}

    monkeypatch.setattr(wild, "run", run)
    line = {"cell": {"words": FRESH.seeded(7).words}, "number": 1007, "valid": True}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    kept = [record(FRESH, seed, True) for seed in range(1, 7)]
    wild.run_all(tmp_path, 8, " ".join(FRESH.words), kept)
    assert made == [1008]


def test_the_first_hit_is_compared_by_medians_of_the_row_that_finds_the_bug() -> None:
    assert row_of("3.5.0").least == 7
    pairs = [Pair(160.0, 1, 5.0, 2.0), Pair(400.0, 2, 50.0, 3.0), Pair(150.0, 1, 20.0, 2.0)]
    assert summary(pairs) == "| **median 160.0** | 4 | **20.0** | **8.0** | |"
