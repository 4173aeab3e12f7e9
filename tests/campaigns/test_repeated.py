"""Runs without a simulator shrink by being repeated, and become a bug report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.campaigns.bug_report import report
from kraftwreck.campaigns.repeated import COUNTED, Repeated, Shrunk, failures_of, shrink_repeated
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import FaultEvent

FAILURE = "members:members-differ"
FIRST = RunOptions(
    system="etcd", seed=7, faults=("partition", "kill", "pause"), time_limit_s=120, concurrency=8
)


class Machine:
    """Runs that fail with every second seed, if they kill for long enough."""

    def __init__(self, needs_s: float = 60.0, other: str = "") -> None:
        self.ran: list[RunOptions] = []
        self.needs_s, self.other = needs_s, other

    def __call__(self, options: RunOptions) -> Repeated:
        self.ran.append(options)
        fails = "kill" in options.faults and options.time_limit_s >= self.needs_s
        shown = {FAILURE} if fails and options.seed % 2 == 0 else {self.other} - {""}
        return Repeated(Path(f"run-{len(self.ran)}"), frozenset(shown))


def shrunk(machine: Machine, budget_s: float = 1e9) -> Shrunk:
    clock = lambda: float(len(machine.ran) * 100)  # noqa: E731
    return shrink_repeated(FIRST, Path("first"), FAILURE, machine, budget_s, print, clock)


def test_families_time_and_threads_that_are_not_needed_go() -> None:
    machine = Machine()
    found = shrunk(machine)
    assert found.options.faults == ("kill",)
    assert (found.options.time_limit_s, found.options.concurrency) == (60, 1)
    assert found.runs == COUNTED
    assert 0 < found.hits < COUNTED, "every second seed fails"
    assert found.failing.name in {f"run-{n}" for n, _ in enumerate(machine.ran, start=1)}
    assert "kill, 30 s, 1 thread: 0 of 3 runs" in found.tried


def test_another_failure_is_not_the_one_to_keep() -> None:
    found = shrunk(Machine(needs_s=1e6, other="stats:never"))
    assert (found.options, found.failing, found.hits) == (FIRST, Path("first"), 0)


def test_no_run_begins_once_the_time_is_over() -> None:
    machine = Machine()
    found = shrunk(machine, budget_s=250)
    assert len(machine.ran) == 3
    assert found.options.faults == ("kill", "pause")


@pytest.mark.parametrize("budget_s", [0.0, 100.0])
def test_without_time_the_run_stays_as_it_is(budget_s: float) -> None:
    assert shrunk(Machine(needs_s=1e6), budget_s).options == FIRST


def folder(path: Path) -> Path:
    test: dict[str, Any] = {"seed": 8, "versions": {"etcd": ["go", "etcd 3.5.0"], "kernel": "6.1"}}
    anomaly = {"type": "members-differ", "explanation": "n1 and n2 differ"}
    results = {"valid": False, "checkers": {"members": {"valid": False, "anomalies": [anomaly]}}}
    fault: dict[str, Any] = {"id": 0, "kind": "kill", "shape": "one", "targets": ["n2"]}
    events = [
        FaultEvent(**fault, phase="start", time=1_500_000_000, done=1_510_000_000),
        FaultEvent(**fault, phase="stop", time=4_000_000_000, done=4_010_000_000),
    ]
    (path / "test.json").write_bytes(msgspec.json.encode(test))
    (path / "results.json").write_bytes(msgspec.json.encode(results))
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    (path / "faults.jsonl").write_bytes(lines)
    return path


def test_the_report_has_what_a_tracker_needs(tmp_path: Path) -> None:
    failing = folder(tmp_path)
    text = report(
        Shrunk(FIRST, failing, hits=2, runs=5, tried=["kill, 30 s: 0 of 3 runs"]), FAILURE
    )
    for part in (
        "# etcd: members-differ under partition, kill, pause",
        "> n1 and n2 differ",
        "Runs that failed so: 2 of 5.",
        "$ kraftwreck run etcd -w metadata -n partition,kill,pause -t 120",
        "--seed 8",
        "- etcd: go, etcd 3.5.0",
        "| 1.5 | 4.0 | kill one | n2 |",
        "- kill, 30 s: 0 of 3 runs",
    ):
        assert part in text
    assert str(tmp_path) not in text


def test_failures_are_read_from_the_verdict(tmp_path: Path) -> None:
    assert failures_of(folder(tmp_path)) == {FAILURE}
    assert failures_of(tmp_path / "nothing") == frozenset()
