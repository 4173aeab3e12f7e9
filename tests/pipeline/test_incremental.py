"""Only what changed is read, and a store is as if it had been analyzed at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from kraftwreck.histories.store import write_json
from kraftwreck.pipeline.background import Handle
from kraftwreck.pipeline.changes import up_to_date
from kraftwreck.pipeline.gold import files, read
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.manifest import load
from kraftwreck.pipeline.schemas import GOLD, PER_RUN, SILVER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]
ROOT = Path(__file__).resolve().parents[2]
Runs = tuple[Path, dict[str, Path]]
NAMES = (*GOLD, *(f"silver/{name}" for name in SILVER))

DIES = """
import os, signal, sys
from pathlib import Path
from kraftwreck.pipeline.analysis import analyze_store
from kraftwreck.pipeline.session import session
def watch(step):
    if step.startswith(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
with session("local[1]") as spark:
    analyze_store(lambda: spark, Path(sys.argv[1]), watch=watch)
"""


def content(store: Path) -> dict[str, list[str]]:
    """All rows of all tables, whatever files and order they are in."""
    return {name: sorted(map(str, read(store, name).to_pylist())) for name in NAMES}


def by_pattern(store: Path) -> dict[str, int]:
    """How many rows a reader by patterns of file names finds."""
    counts = {}
    for name in NAMES:
        pattern = name if "/" in name else f"gold/{name}"
        paths = (store / "analysis" / pattern).glob("*/*.parquet")
        counts[name] = sum(pq.read_metadata(path).num_rows for path in paths)
    return counts


@pytest.fixture
def analyze(worker: Handle) -> Callable[..., dict[str, Any]]:
    def call(store: Path, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = worker.analyze(store, timeout_s=1800, **options)
        return found

    return call


def place(simulated: Runs, store: Path, *runs: str) -> None:
    """Copy runs, without their tables, into ``store``."""
    for run in runs:
        folder = simulated[1][run]
        target = store / "/".join(folder.parts[-2:])
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("analysis"))


@pytest.fixture(scope="module")
def at_once(
    simulated: Runs, worker: Handle, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a store of some runs, analyzed once for all tests. They change copies of it."""

    @cache
    def call(*runs: str) -> Path:
        store = tmp_path_factory.mktemp("at-once")
        place(simulated, store, *runs)
        assert worker.analyze(store, timeout_s=1800)["read"] == len(runs)
        return store

    return call


def test_the_tables_with_a_verdict_need_those_without(register: Path, worker: Handle) -> None:
    with pytest.raises(PipelineError, match=f"{register} was not measured"):
        worker.ask({"judged": str(register)}, timeout_s=1800)


def test_one_run_is_analyzed_when_it_is_complete(register: Path, complete: dict[str, Any]) -> None:
    """The folder had its working name when Spark was started."""
    assert (complete["valid"], complete["runs"]) == (True, 1)
    assert Path(complete["analysis"]) == register / "analysis"


@pytest.mark.whole_run
def test_batch_by_batch_is_as_all_at_once(
    simulated: Runs, analyze: Any, at_once: Any, tmp_path: Path
) -> None:
    store = shutil.copytree(at_once("register"), tmp_path / "store")
    first = {name: files(store, name) for name in PER_RUN}
    place(simulated, store, "metadata", "bad")
    assert up_to_date(store) == 2
    assert analyze(store)["read"] == 2
    assert all(set(first[name]) <= set(files(store, name)) for name in PER_RUN)
    assert analyze(store)["read"] == 0
    assert content(store) == content(at_once("register", "metadata", "bad"))
    assert by_pattern(store) == {name: len(rows) for name, rows in content(store).items()}


@pytest.mark.whole_run
def test_changed_runs_are_replaced_and_removed_ones_stay_in_gold(
    simulated: Runs, analyze: Any, at_once: Any, tmp_path: Path
) -> None:
    store = shutil.copytree(at_once("register", "metadata", "bad"), tmp_path / "store")
    before = content(store)
    ids = {name: "/".join(run.parts[-2:]) for name, run in simulated[1].items()}
    test = store / ids["register"] / "test.json"
    told = json.loads(test.read_text())
    write_json(test, {**told, "workload": "renamed"})
    shutil.rmtree(store / ids["metadata"])
    (store / ids["bad"] / "history.jsonl").write_text("{\n")
    shutil.rmtree(store / ids["bad"] / "history.parquet", ignore_errors=True)
    summary = analyze(store)
    assert summary["read"] == 2
    rows = {row["run"]: row for row in read(store, "runs").to_pylist()}
    assert set(rows) == {ids["register"], ids["metadata"]}
    assert rows[ids["register"]]["workload"] == "renamed"
    assert read(store, "quarantine").column("run").to_pylist() == [ids["bad"]]
    assert load(store / "analysis").runs[ids["metadata"]].removed is True
    kept = set(read(store, "silver/operations").column("run").to_pylist())
    assert kept == {ids["register"]}, "silver goes with the folder"
    mine = [row for row in before["latency"] if ids["metadata"] in row]
    assert [row for row in content(store)["latency"] if ids["metadata"] in row] == mine
    # One is as it was, one is no longer there to be in quarantine, one is forgotten.
    write_json(test, told)
    (store / ids["bad"]).rename(store / "elsewhere")
    summary = analyze(store, forget_removed=True)
    assert read(store, "runs").column("run").to_pylist() == [ids["register"]]
    assert summary["skipped"] == []
    assert by_pattern(store) == {name: len(rows) for name, rows in content(store).items()}


@pytest.mark.parametrize("step", ["gold latency", "moved gold/keys"])
@pytest.mark.whole_run
def test_an_analysis_that_is_killed_is_finished_by_the_next(
    simulated: Runs, analyze: Any, at_once: Any, tmp_path: Path, step: str
) -> None:
    store = shutil.copytree(at_once("register"), tmp_path / "store")
    place(simulated, store, "bad")
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(store), step],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    committed = step.startswith("moved")
    assert len(read(store, "runs")) == (2 if committed else 1)
    assert analyze(store)["read"] == (0 if committed else 1)
    assert content(store) == content(at_once("register", "bad"))
    assert by_pattern(store) == {name: len(rows) for name, rows in content(store).items()}


@pytest.mark.whole_run
def test_a_checker_whose_process_is_killed_stops_no_analysis(
    simulated: Runs, analyze: Any, tmp_path: Path
) -> None:
    store = tmp_path / "deadly"
    place(simulated, store, "register", "bad")
    deadly = store / "/".join(simulated[1]["register"].parts[-2:])
    test = json.loads((deadly / "test.json").read_text())
    write_json(deadly / "test.json", {**test, "checkers": ["stats", "killer", "topics"]})
    (deadly / "coverage.json").write_text("{torn")
    summary = analyze(store)
    assert (summary["runs"], summary["skipped"]) == (2, [])
    runs = {row["run"]: row for row in read(store, "runs").to_pylist()}
    assert all(row["operations"] > 0 for row in runs.values())
    dead = runs["/".join(deadly.parts[-2:])]
    assert dead["coverage"].startswith("not counted: coverage.json: ")
    verdicts = [row for row in read(store, "verdicts").to_pylist() if row["run"] == dead["run"]]
    told = {row["checker"]: (row["valid"], row["error"]) for row in verdicts}
    assert told["killer"] == ("unknown", "killed (SIGKILL: out of memory?) while it ran")
    assert told["stats"][0] == "true"


def test_duckdb_opens_all_tables(analyzed: Any) -> None:
    folder = analyzed.store / "analysis"
    with duckdb.connect() as db:
        for name in NAMES:
            pattern = folder / (name if "/" in name else f"gold/{name}")
            counted = db.sql(f"SELECT count(*) FROM '{pattern}/*/*.parquet'").fetchall()  # noqa: S608  # our own path
            assert counted == [(analyzed.summary["tables"][name],)], name
        gold = folder / "gold"
        answer = db.sql(
            f"""
            SELECT test, valid, len(faults), sum(invoked) = any_value(operations)
            FROM '{gold}/runs/*/*.parquet' AS runs JOIN '{gold}/rates/*/*.parquet' USING (run)
            GROUP BY ALL ORDER BY ALL
            """  # noqa: S608  # our own path
        ).fetchall()
    assert [row[:2] for row in answer] == [
        ("kraft-metadata", "true"), ("kraft-register", "false"), ("kraft-register", "true"),
    ]  # fmt: skip
    assert all(row[3] for row in answer)
