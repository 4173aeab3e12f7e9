"""Measures how long starts take: hosts up to ready, kill to serving, a whole ``kraftwreck run``.

    .venv/bin/python bench/start.py [--runs 5] [--totals 1] [--seconds 60] [--fastest]

Five namespace hosts (needs root). ``ready`` is from the moment the hosts are up until the cluster
serves. ``serving`` is from the start of a killed follower until it names the leader again, the
second time (the first one also starts an agent: ``first``). ``total`` is the time of the whole
command minus the planned seconds of the test. Prints medians as Markdown.

With ``--fastest`` processes have real-time priority (chrt -r 1): close to an idle machine on a busy
one, at the cost of all other processes. Take few runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.capabilities import PROCESSES
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.system import METADATA_VERSION, SYSTEM

_READY_S = 60.0
_ASK_MS = 700
_ROOT = Path(__file__).resolve().parents[1]
_LEADER = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def wait_until_serving(client: KafkaClient) -> None:
    """Send the node requests until it names the active controller."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        answer = client.call("Metadata", METADATA_VERSION, _LEADER, _ASK_MS)
        if answer.status == "ok" and answer.response["controller_id"] >= 0:
            return
        time.sleep(0.002)
    raise TimeoutError("the node does not serve")


def start(seed: int) -> dict[str, float]:
    """Deploy on fresh hosts, kill a follower twice; return the seconds of each step."""
    options = RunOptions(
        system="kraft", workload="metadata", faults=("kill",), time_limit_s=1.0, seed=seed
    )
    cluster = NetnsCluster(options.nodes)
    taken: dict[str, float] = {}
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(SYSTEM.prepare, PROJECT_TREE)
            hosts = cluster.up()
        began = time.monotonic()
        deployed = SYSTEM.deploy(hosts, options, PROJECT_TREE)
        try:
            ready = deployed.ready(_READY_S)
            taken["ready"] = time.monotonic() - began
            leader = ready.split()[1]
            follower = next(host for host in hosts if host.name != leader)
            client = KafkaClient(follower.ip, 9093, "bench")
            for step in ("first", "serving"):
                deployed.env[PROCESSES].kill(follower.name)
                began = time.monotonic()
                deployed.env[PROCESSES].start(follower.name)
                wait_until_serving(client)
                taken[step] = time.monotonic() - began
            client.close()
        finally:
            deployed.close()
    finally:
        cluster.down()
    return taken


def total(seconds: float, seed: int) -> float:
    """Return how much longer than ``seconds`` a run of the default test takes."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "kraftwreck.cli.main", "run", "-t", str(seconds)]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--seed", str(seed), "--store", store],
            cwd=_ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        taken = time.monotonic() - began
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"the run with seed {seed} ended with exit code {done.returncode}")
    return taken - seconds


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--totals", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--fastest", action="store_true")
    arguments = parser.parse_args()
    if arguments.fastest:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    load = os.getloadavg()[0]
    runs = [start(seed) for seed in range(arguments.runs)]
    figures = {step: statistics.median(run[step] for run in runs) for step in runs[0]}
    if arguments.totals:
        totals = [total(arguments.seconds, seed) for seed in range(arguments.totals)]
        figures["total"] = statistics.median(totals)
    print(f"{arguments.runs} starts, load average {load:.1f} before; medians in seconds\n")
    print(f"| {' | '.join(figures)} |")
    print(f"|{'---|' * len(figures)}")
    print(f"| {' | '.join(f'{value:.2f}' for value in figures.values())} |")


if __name__ == "__main__":
    main()
