"""Measures load on a foreign system: etcd, three processes on namespace hosts (needs root).

    sudo .venv/bin/python -m bench.wild_load [--seconds 20] [--rounds 3]

Prints Markdown tables:

* load: 100 client threads at 1,000 operations/s, with and without faults, and the CPU time of the
  control process and its children meanwhile: clients, recorder and faults;
* clients: operations/s of 60 client threads without pauses, and of a Go program with 60
  connections to the same members while the harness is nearly idle, one after the other;
* overhead: seconds of a run beyond the test itself, of etcd and of our own nodes, in turn;
* judging: CPU seconds of ``kraftwreck check`` for a history of 500,000 operations.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.checkers.histories import registers
from bench.wild import installed

_PROGRESS = re.compile(r"\s+(\d+) s\s+(\d+) ok")
_MEMBER = re.compile(rb"--listen-client-urls=(http://[\d.]+:\d+)")
_TICKS = os.sysconf("SC_CLK_TCK")
QUIET = ("-n", "none")
UNLIMITED = "1000000"
"""A rate that no system reaches: operations without pauses."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Operations/s that were acknowledged, cores used meanwhile, and the wall seconds of a run."""

    rate: float
    cores: float
    wall_s: float


def run(system: str, seconds: int, *words: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run a test; yield the acknowledged operations at each line of progress.

    Raises RuntimeError if the run was not valid.
    """
    kraftwreck = str(Path(sys.executable).with_name("kraftwreck"))
    with tempfile.TemporaryDirectory() as store:
        fixed = ("-t", str(seconds), "--nodes", "3", "--seed", "1", "--no-tables", "--store", store)
        command = [kraftwreck, "run", system, *words, *fixed]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                shown = _PROGRESS.match(line)
                if shown:
                    yield int(shown[2]), process
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")


def measure(system: str, seconds: int, *words: str) -> Measured:
    """Return what one run reached between its first and its last line of progress."""
    begun = time.monotonic()
    moments = []
    for count, process in run(system, seconds, *words):
        moments.append((time.monotonic(), count, cpu_s(process.pid)))
    (first, few, before), (last, many, after) = moments[0], moments[-1]
    took = last - first
    return Measured((many - few) / took, (after - before) / took, time.monotonic() - begun)


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its living descendants in the same PID namespace: hosts
    have others."""
    own = (Path("/proc") / str(pid) / "ns/pid").readlink()
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
            if (stat.parent / "ns/pid").readlink() != own:
                continue
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        number = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        spent[number] = (int(fields[11]) + int(fields[12])) / _TICKS
    waiting, total = [pid], 0.0
    while waiting:
        number = waiting.pop()
        total += spent.get(number, 0.0)
        waiting += children.get(number, ())
    return total


def go_rate(seconds: int, connections: int) -> float:
    """Return the operations/s of the Go program against the members of a nearly idle run."""
    program = str(_program())
    for _, process in run("etcd", seconds + 8, *QUIET, "--concurrency", "1", "--rate", "1"):
        asked = [program, "load", str(seconds), str(connections), *members()]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert process.stderr is not None
        for _line in process.stderr:
            pass
        return float(answer)
    raise RuntimeError("the run showed no progress")


def members() -> list[str]:
    """Return the addresses of all etcd processes of this machine."""
    found = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.update(_MEMBER.findall(line.read_bytes()))
        except OSError:
            continue
    return sorted(url.decode() for url in found)


def _program() -> Path:
    """Return the client in Go, built if it is not."""
    sys.path[:0] = [os.environ["PYTHONPATH"].split(os.pathsep)[0]]
    from etcd_clients import PROGRAM, module

    from kraftwreck.harness.deploy.cache import ArtefactCache

    built = ArtefactCache(say=lambda _: None).fetch(module())
    return Path(built.tar.with_name("downloads") / PROGRAM)


def judged(count: int) -> tuple[float, str]:
    """Return CPU seconds and the verdict of ``kraftwreck check`` for ``count`` operations."""
    kraftwreck = str(Path(sys.executable).with_name("kraftwreck"))
    with tempfile.TemporaryDirectory() as name:
        history, lines = Path(name) / "history.parquet", Path(name) / "history.jsonl"
        registers(history, count, 100, keys=9)
        subprocess.run(
            [kraftwreck, "convert", str(history), str(lines)], check=True, capture_output=True
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [kraftwreck, "check", str(lines), "--model", "register"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, {0: "valid", 1: "INVALID"}.get(done.returncode, f"exit code {done.returncode}")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    spent, verdict = judged(500_000)
    print(f"500,000 operations: {verdict}, {spent:.1f} CPU s (load {os.getloadavg()[0]:.1f})\n")
    with installed():
        _load(asked.seconds)
        _clients(asked.seconds, asked.rounds)
        _overhead(asked.rounds)


def _load(seconds: int) -> None:
    print("| faults | operations/s | cores of the control node | load average |\n|---|--:|--:|--:|")
    for title, words in (("none", QUIET), ("partition, kill, pause", ())):
        found = measure("etcd", seconds, "--concurrency", "100", "--rate", "1000", *words)
        print(f"| {title} | {found.rate:.0f} | {found.cores:.2f} | {os.getloadavg()[0]:.1f} |")
    sys.stdout.flush()


def _clients(seconds: int, rounds: int) -> None:
    print(
        "\n| harness, operations/s | Go, operations/s | ratio | load average |\n|--:|--:|--:|--:|"
    )
    for _ in range(rounds):
        words = (*QUIET, "--concurrency", "60", "--rate", UNLIMITED)
        ours = measure("etcd", seconds, *words).rate
        theirs = go_rate(seconds, 60)
        load = os.getloadavg()[0]
        print(f"| {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} | {load:.1f} |")
        sys.stdout.flush()


def _overhead(rounds: int) -> None:
    seconds = 10
    beyond: dict[str, list[float]] = {"etcd": [], "kraft": []}
    for _ in range(rounds):
        for system, found in beyond.items():
            found.append(measure(system, seconds, *QUIET).wall_s - seconds)
    foreign, own = (statistics.median(found) for found in beyond.values())
    print("\n| beyond the test, etcd | our own nodes | ratio |\n|--:|--:|--:|")
    print(f"| {foreign:.1f} s | {own:.1f} s | {foreign / own:.2f} |")


if __name__ == "__main__":
    main()
