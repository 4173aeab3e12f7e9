"""A small store: two simulated runs, and a third into which violations are planted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_lines
from kraftwreck.histories.store import RUNNING
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.schedule import plan
from kraftwreck.nemesis.scope import Scope
from kraftwreck.pipeline.background import Handle, start
from kraftwreck.systems.kraft.simulated.store import run as simulate_into_folder
from kraftwreck.workloads.registry import find


@dataclass
class Analyzed:
    """The store, the handle that analyzed it, and its summary."""

    store: Path
    runs: dict[str, Path]
    handle: Handle
    summary: dict[str, Any]


def simulate(store: Path, workload: str, seed: int) -> Path:
    options = RunOptions(
        workload=workload, seed=seed, time_limit_s=8, nodes=3, cluster="sim", store=store
    )
    scope = Scope.of("kraft", options.node_names)
    schedule = plan(options.faults, seed, options.time_limit_s, scope)
    return simulate_into_folder(
        options, workload=find(workload), schedule=schedule, injector=Injector
    )


def plant(run: Path) -> None:
    """A read returns a value never written; a second node claims to lead an epoch."""
    ops = read_lines(run / "history.jsonl", Op)
    read = next(op for op in ops if op.type == "ok" and op.f == "read")
    read.value = 987654321
    lines = b"".join(msgspec.json.encode(op) + b"\n" for op in ops)
    (run / "history.jsonl").write_bytes(lines)
    traces = sorted((run / "nodes").glob("*/trace.jsonl"))
    led = {
        path: next((e for e in read_lines(path, TraceEvent) if e.state == "leader"), None)
        for path in traces
    }
    epoch = next(event.epoch for event in led.values() if event is not None)
    other = next(path for path, event in led.items() if event is None or event.epoch != epoch)
    events = read_lines(other, TraceEvent)
    last = events[-1]
    events.append(msgspec.structs.replace(last, seq=last.seq + 1, state="leader", epoch=epoch))
    other.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    # As if the control process had been killed: the pipeline makes the tables itself.
    shutil.rmtree(run / "history.parquet")
    (run / "trace.parquet").unlink()


NIGHT = [
    {"n": 0, "kind": "cell", "run": None, "valid": False, "class": "system", "tree": "mutant:M1"},
    {"n": 1, "kind": "cell", "run": None, "valid": True, "class": None, "tree": "clean"},
    {"n": 2, "kind": "again", "run": None, "valid": "unknown", "class": "flake", "tree": "clean"},
]


def night(store: Path, name: str, lines: list[dict[str, Any]]) -> None:
    folder = store / "nights" / name
    folder.mkdir(parents=True)
    common = {
        "system": "kraft", "workload": "register", "faults": ["partition", "kill"],
        "cluster": "sim", "seed": 9, "seconds": 1.5, "cpu_s": 1.0, "sim_s": 20.0, "attempts": 1,
        "repeat": "kraftwreck sim --seed 9", "started": "2026-01-31T23:00:00Z", "digest": "abc",
    }  # fmt: skip
    text = b"".join(msgspec.json.encode({**common, **line}) + b"\n" for line in lines)
    (folder / "runs.jsonl").write_bytes(text + b'{"torn')
    told = {"id": name, "name": "small", "state": "running", "began": "2026-01-31T22:00:00Z"}
    (folder / "night.json").write_bytes(msgspec.json.encode(told))


KILLER = """
import os, signal
def check(run):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="session")
def killer_checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Offer the checker ``killer``, as a package does, to this process's workers."""
    place = tmp_path_factory.mktemp("killer")
    (place / "killer_checker.py").write_text(KILLER)
    facts = place / "killer_checker-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: killer-checker\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[kraftwreck.checkers]\nkiller = killer_checker:check\n"
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place), *filter(None, [before])])
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def register(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first run of a store."""
    return simulate(tmp_path_factory.mktemp("store"), "register", 22)


@pytest.fixture(scope="session")
def starting_spark(register: Path, killer_checker: None) -> Iterator[Handle]:
    """One Spark session for all tests, which is starting; its run had its working name then.

    It leaves the processors to others until a test asks for its answer.
    """
    handle = start(register.with_name(register.name + RUNNING), spare_s=1.0)
    try:
        yield handle
    finally:
        handle.wait()


@pytest.fixture(scope="session")
def worker(starting_spark: Handle) -> Handle:
    """The same session, for tests that wait for its answers."""
    return starting_spark


@pytest.fixture(scope="session")
def simulated(register: Path) -> tuple[Path, dict[str, Path]]:
    """A store and its runs: two as they were, one with violations; another is broken."""
    store = register.parents[1]
    bad = simulate(store, "register", 12)
    plant(bad)
    runs = {"register": register, "metadata": simulate(store, "metadata", 13), "bad": bad}
    broken = store / "kraft-metadata" / "broken"
    broken.mkdir()
    (broken / "test.json").write_text("{}")
    (broken / "history.jsonl").write_text('{"index": "zero"}\n')
    kept = {**NIGHT[1], "n": 3, "run": "/".join(register.parts[-2:])}
    night(store, "20260131T220000Z-small", [*NIGHT, kept])
    return store, runs


@pytest.fixture(scope="session")
def complete(register: Path, worker: Handle) -> dict[str, Any]:
    """The summary of the first run alone, which is analyzed as ``run`` does it."""
    return worker.finish(timeout_s=1800)


@pytest.fixture(scope="session")
def analyzed(
    simulated: tuple[Path, dict[str, Path]], worker: Handle, complete: dict[str, Any]
) -> Analyzed:
    """The whole store, after one of its runs was analyzed alone."""
    store, runs = simulated
    return Analyzed(store, runs, worker, worker.analyze(store, timeout_s=1800))
