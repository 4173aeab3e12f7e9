"""Look for the planted bugs of the protocol's core with ``kraftwreck run`` on hosts.

    sudo .venv/bin/python -m bench.hosts_mutants STORE [--seeds 3] [--jobs 2] [--seconds 120]
        [--cluster netns] [ID ...]
    .venv/bin/python -m bench.hosts_mutants STORE --page

Each starred bug of the catalogue is run with default options, but for the workload and the time
limit. A record of each run is a line of ``STORE/mutants.jsonl``; runs with a line are not repeated.
``--page`` prints the table of docs/mutants.md instead: found or missed, by which checker, and the
share of the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.hosts_matrix import records, run
from kraftwreck.mutants import catalogue

FILE = "mutants.jsonl"
WORKLOADS = {"C": "partitions", "M": "register", "S03": "partitions", "S16": "partitions"}
"""The workload for a bug or a class of bugs; the default one otherwise.

Configurations (S03) and changes of several records (S16) are in the workload ``partitions``."""


def workload_for(bug: str) -> str:
    """Return the workload with which ``bug`` is hunted."""
    return WORKLOADS.get(bug) or WORKLOADS.get(bug[0], "metadata")


@dataclass(frozen=True, slots=True)
class Planted:
    """One run with a planted bug."""

    mutant: str
    workload: str
    seconds: int
    seed: int

    def arguments(self, cluster: str) -> list[str]:
        """Return the words that follow ``kraftwreck``."""
        words = ["run", "--mutant", self.mutant, "-w", self.workload, "-t", str(self.seconds)]
        return [*words, "-c", cluster, "--seed", str(self.seed)]


def hunt(store: Path, asked: argparse.Namespace) -> None:
    """Run every starred bug with every seed that has no record yet."""
    store.mkdir(parents=True, exist_ok=True)
    known = {(each["cell"]["mutant"], each["cell"]["seed"]) for each in records(store / FILE)}
    bugs = asked.ids or [name for name, bug in catalogue().items() if bug.core]
    guard = threading.Lock()

    def one(planted: Planted) -> None:
        record = run(planted.seed, planted, asked.cluster, store / "runs")
        with guard, (store / FILE).open("a") as file:
            file.write(json.dumps(record) + "\n")
            verdict = {0: "missed", 1: "found", 2: "unknown"}.get(record["exit"], "failed")
            words = [*record["anomalies"], *record["errors"], *record["said"], ""][0]
            print(f"{record['wall_s']:6.1f} s  {verdict:8}{record['command']}  {words[:150]}")
            sys.stdout.flush()

    runs = [
        Planted(bug, workload_for(bug), asked.seconds, seed)
        for seed in range(1, asked.seeds + 1)
        for bug in bugs
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        wanted = [each for each in runs if (each.mutant, each.seed) not in known]
        for future in [pool.submit(one, each) for each in wanted]:
            future.result()


def page(store: Path) -> None:
    """Print the table of what was found on hosts."""
    by_bug: dict[str, list[dict[str, Any]]] = {}
    for each in records(store / FILE):
        by_bug.setdefault(each["cell"]["mutant"], []).append(each)
    print("| id | workload | found | first anomaly |\n|---|---|---|---|")
    for name in catalogue():
        if runs := by_bug.get(name):
            found = [each for each in runs if each["exit"] == 1]
            first = found[0]["anomalies"][0].split(": ") if found else ["", ""]
            by = f"{first[0]}: {first[1]}" if found else ""
            workload = ", ".join(sorted({each["cell"]["workload"] for each in runs}))
            print(f"| {name} | {workload} | {len(found)} of {len(runs)} | {by} |")


def main() -> None:
    """Run the hunts, or print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store", type=Path)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--cluster", default="netns")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        page(asked.store)
    else:
        hunt(asked.store, asked)


if __name__ == "__main__":
    main()
