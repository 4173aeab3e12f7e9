"""Seconds to the first hit of etcd issue 13766: ordinary runs beside a Go program (needs root).

    sudo .venv/bin/python -m bench.wild_first_hit [--pairs 3] [--first SEED] [--version 3.5.0]

The Go program ``bench/wild_systems/etcd_differ`` was written for this bug alone. It kills a member
every second or so, compares the members after each kill, and ends with the first difference. The
harness repeats the test of docs/wild.md (:data:`bench.wild.TESTS`) with one seed after another,
until a checker says INVALID, at the pace of the Go program (:data:`PACE`). Both have 60 clients,
and transactions of up to 128 comparisons.
Seconds are those of the clock, from the start of the first process to the verdict; etcd and the Go
program are built before. The two take turns. Prints a Markdown table with medians and their ratio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.wild import TESTS, Test, installed
from kraftwreck.harness.deploy.artefacts import Artefact
from kraftwreck.harness.deploy.cache import ArtefactCache

CLIENTS, COMPARES = "60", "128"
"""As the test of docs/wild.md."""
LIMIT_S = "600"
"""The Go program gives up after these seconds."""
MOST_RUNS = 20
PACE = ("--interval", "1", "--rate", "100")
"""Storms come one after the other, as the kills of the Go program."""
PROGRAM = "etcd-differ"
FOLDER = "etcd_differ"
INVALID = 1


class Pair(NamedTuple):
    """Seconds to the first hit of both, the harness's runs, and the load average meanwhile."""

    ours_s: float
    runs: int
    theirs_s: float
    load: float


def row_of(version: str) -> Test:
    """Return the row of docs/wild.md that finds the bug in this version."""
    chosen = f"version={version}"
    [found] = [test for test in TESTS if chosen in test.words and test.least]
    return found


def ours(test: Test, first: int) -> tuple[float, int]:
    """Run seeds from ``first`` on until a run is INVALID; return the seconds and how many ran.

    Raises RuntimeError if a run fails without a verdict, or none of :data:`MOST_RUNS` is INVALID.
    """
    kraftwreck = str(Path(sys.executable).with_name("kraftwreck"))
    begun = time.monotonic()
    for count in range(1, MOST_RUNS + 1):
        with tempfile.TemporaryDirectory() as store:
            seeded = test.seeded(first + count - 1).arguments("netns")
            command = [kraftwreck, *seeded, *PACE, "--no-tables", "--store", store]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
        print(
            f"seed {first + count - 1}: exit code {ended.returncode} after"
            f" {time.monotonic() - begun:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if ended.returncode == INVALID:
            return time.monotonic() - begun, count
        if ended.returncode not in (0, 2):
            raise RuntimeError(f"{' '.join(command)}: {ended.stderr[-500:]}")
    raise RuntimeError(f"no run of {MOST_RUNS} was INVALID")


def theirs(program: Path, etcd: Path) -> float:
    """Return the seconds of the Go program. Raises CalledProcessError without a difference."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), str(etcd), folder, CLIENTS, COMPARES, LIMIT_S]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - begun


def built(version: str) -> tuple[Path, Path]:
    """Return the Go program and etcd, built if they are not."""
    sys.path[:0] = [os.environ["PYTHONPATH"].split(os.pathsep)[0]]
    from etcd_clients import SYSTEM, module

    cache = ArtefactCache(say=lambda line: print(line, file=sys.stderr))

    def one(artefact: Artefact, program: str) -> Path:
        return Path(cache.fetch(artefact).tar.with_name("downloads") / program)

    [etcd] = SYSTEM.configured([f"version={version}"]).artefacts()
    return one(module(FOLDER, PROGRAM), PROGRAM), one(etcd, "etcd")


def summary(pairs: Sequence[Pair]) -> str:
    """Return the last line of the table: medians and their ratio."""
    ours_s = statistics.median(pair.ours_s for pair in pairs)
    theirs_s = statistics.median(pair.theirs_s for pair in pairs)
    runs = sum(pair.runs for pair in pairs)
    return (
        f"| **median {ours_s:.1f}** | {runs} | **{theirs_s:.1f}** | **{ours_s / theirs_s:.1f}** | |"
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--version", default="3.5.0")
    asked = parser.parse_args()
    test = row_of(asked.version)
    with installed():
        program, etcd = built(asked.version)
        print("| harness, s | runs | Go, s | ratio | load average |\n|--:|--:|--:|--:|--:|")
        pairs = []
        for place in range(asked.pairs):
            ours_s, runs = ours(test, asked.first + MOST_RUNS * place)
            pair = Pair(ours_s, runs, theirs(program, etcd), os.getloadavg()[0])
            pairs.append(pair)
            ratio = pair.ours_s / pair.theirs_s
            print(
                f"| {pair.ours_s:.1f} | {runs} | {pair.theirs_s:.1f} | {ratio:.1f} |"
                f" {pair.load:.0f} |",
                flush=True,
            )
        print(summary(pairs))


if __name__ == "__main__":
    main()
