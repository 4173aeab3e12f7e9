"""Measures the time of ``kraftwreck run`` beyond the test itself, step by step.

Runs the default test on five namespace hosts (needs root) several times with a short time limit. It
takes the time of each line that the command prints, and prints the median of each step in seconds
as Markdown. Steps:

* ``start``: from the command to its first line (imports);
* ``hosts`` and ``ready``: until the cluster serves;
* ``heal``: until the cluster serves again;
* ``read``: the final operations;
* ``collect``: stopping and collecting;
* ``judge``: conversion, checkers, Spark tables and report;
* ``down``: until the exit.

    .venv/bin/python bench/run_overhead.py --runs 3 --seconds 20
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

MARKS = (
    ("start", "kraft-metadata: "),
    ("hosts", "5 hosts are up"),
    ("ready", "kraft is ready"),
    ("test", "healing"),
    ("heal", "recovered: "),
    ("read", "collecting"),
    ("judge", "verdict: "),
)


def once(seconds: float, seed: int, store: str) -> dict[str, float]:
    """Return the seconds of each step of one run; raises RuntimeError unless it was valid."""
    command = [sys.executable, "-m", "kraftwreck.cli.main", "run", "-t", str(seconds)]
    begun = last = time.monotonic()
    steps: dict[str, float] = {}
    with subprocess.Popen(
        [*command, "--seed", str(seed), "--store", store], stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            for name, mark in MARKS:
                if line.startswith(mark):
                    now = time.monotonic()
                    steps[name], last = now - last, now
    if run.returncode != 0:
        raise RuntimeError(f"the run with seed {seed} ended with exit code {run.returncode}")
    ended = time.monotonic()
    steps["down"] = ended - last
    steps["overhead"] = ended - begun - seconds
    return steps


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as store:
        runs = [once(arguments.seconds, seed, store) for seed in range(arguments.runs)]
    names = [*(name for name, _ in MARKS if name != "test"), "down", "overhead"]
    print(f"{arguments.runs} runs of {arguments.seconds:g} s, load average {load:.1f} before\n")
    print(f"| {' | '.join(names)} |")
    print(f"|{'---|' * len(names)}")
    medians = [statistics.median(run[name] for run in runs) for name in names]
    print(f"| {' | '.join(f'{value:.2f}' for value in medians)} |")


if __name__ == "__main__":
    main()
