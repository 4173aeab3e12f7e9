"""Hosts that are lost during a run: it continues, or ends with one line and its history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.harness import run as harness_run
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.clusters.state import State
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run import Outcome, TestRun
from kraftwreck.histories.exit_codes import FAILED
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.reading import read_faults, read_history
from kraftwreck.nemesis.inject import Injector
from kraftwreck.runs.judge import judge
from kraftwreck.runs.whole import JudgedRun
from kraftwreck.systems.kraft.system import SYSTEM
from kraftwreck.workloads import registry as workloads

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECOND = 1_000_000_000
SILENT = """
add table inet away
add chain inet away in { type filter hook input priority -400; }
add rule inet away in tcp dport 22 drop
"""


def pids(cluster: NetnsCluster) -> list[int]:
    """PID 1 of each host, as this machine sees them."""
    assert cluster.directory is not None
    state = State.read(cluster.directory)
    assert state is not None
    inner = str(state.supervisor[1].pid)
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", inner], capture_output=True, text=True)
    return sorted(map(int, listed.stdout.split()))


def cut(pid: int, seconds: int) -> None:
    """Let a host say nothing more to SSH for some seconds."""
    within = ["nsenter", "-t", str(pid), "-n"]
    subprocess.run([*within, "nft", "-f", "-"], input=SILENT, text=True, check=True)
    threading.Event().wait(seconds)
    subprocess.run([*within, "nft", "delete", "table", "inet", "away"], check=True)


def end_sessions(pid: int) -> None:
    """kill -9 every SSH session of a host."""
    within = ["nsenter", "-t", str(pid), "-p", "-m"]
    # Some end with those before them: one that could be killed is enough.
    subprocess.run([*within, "pkill", "-9", "-f", "^sshd(-session)?: root"], check=True)


def run(store: Path, strike: Callable[[NetnsCluster], None]) -> tuple[Outcome, list[str], bool]:
    """Run a test in which ``strike`` begins two seconds after the hosts are ready; return also
    what was said and whether the hosts are gone."""
    planned = [(0.5, "partition", 2), (1.2, "pause", 3), (3, "network", 4), (5, "kill", 2)]
    cluster, said = NetnsCluster(3), []
    strikes: list[threading.Timer] = []
    failures: list[Exception] = []
    directories = []

    def struck() -> None:
        try:
            strike(cluster)
        except Exception as failure:
            failures.append(failure)

    def say(line: str) -> None:
        said.append(line)
        if " is ready after " in line and not strikes:
            directories.append(cluster.directory)
            strikes.append(threading.Timer(2.0, struck))
            strikes[0].start()

    outcome = TestRun(
        RunOptions(
            faults=tuple(kind for _, kind, _ in planned), time_limit_s=10, nodes=3, seed=1,
            store=store,
        ),
        system=SYSTEM,
        workload=workloads.find("metadata"),
        schedule=[
            Fault(at=int(at * SECOND), kind=kind, shape="slow" if kind == "network" else "one",
                  duration=long * SECOND, draw=number)
            for number, (at, kind, long) in enumerate(planned)
        ],
        injector=Injector,
        cluster=cluster,
        say=say,
    ).go()  # fmt: skip
    for each in strikes:
        each.join()
    assert not failures
    (directory,) = directories
    assert directory is not None
    return outcome, said, not directory.exists()


def test_a_run_outlives_its_sessions_and_a_link_that_is_away_for_a_while(
    netns_possible: None, tmp_path: Path
) -> None:
    def strike(cluster: NetnsCluster) -> None:
        hosts = pids(cluster)
        for pid in hosts:
            end_sessions(pid)
        cut(hosts[0], 4)

    outcome, _, gone = run(tmp_path, strike)
    assert gone
    assert outcome.judgeable
    assert len(outcome.errors) <= 1, "what a host was doing when its session ended"
    assert judge(outcome.folder, print).valid is True
    phases = [event.phase for event in read_faults(outcome.folder)]
    assert phases.count("start") <= phases.count("stop"), "whatever began was ended"


@pytest.mark.whole_run
def test_a_host_that_is_lost_is_one_line_and_no_alarm_and_the_history_is_kept(
    netns_possible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = harness_run.READY_S

    def strike(cluster: NetnsCluster) -> None:
        monkeypatch.setattr(harness_run, "READY_S", min(ready, 5.0))  # It will not recover.
        os.kill(pids(cluster)[0], signal.SIGKILL)

    outcome, said, gone = run(tmp_path, strike)
    assert gone
    (line,) = [error for error in outcome.errors if "SSH to" in error]
    assert line.startswith("n1: SSH to root@10.77.")
    assert "Connection refused" in line or "no answer" in line
    assert read_history(outcome.folder).num_rows > 10
    verdict = judge(outcome.folder, print)
    assert verdict.valid == "unknown", "what is missing is proof of nothing"
    assert JudgedRun(outcome, verdict, None).exit_code == FAILED
    test = json.loads((outcome.folder / "test.json").read_text())
    assert test["uncollected"] == ["n1"]
    assert (outcome.folder / "nodes/n2/trace.jsonl").exists()
    assert not [line for line in said if "Traceback" in line]
