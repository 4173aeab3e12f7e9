"""Run the clean build on hosts, over all tests and options: it must never be INVALID.

    sudo .venv/bin/python -m bench.hosts_matrix STORE [--runs 300] [--first 0] [--jobs 2]
        [--cluster netns] [--controllers 5] [--without FAMILY,...] [--busy 0] [--slice] [--retry]

A cell of the matrix is a workload, the fault families, a time limit, the kind of quorum and the
brokers; cell ``k`` is drawn from ``k``, so equal numbers are equal tests. All pairs of a workload
and a family occur once before any occurs twice. Each cell is one ``kraftwreck run``; its outcome is
a line of ``STORE/matrix.jsonl``, and cells with a line are not run again. ``--slice`` runs the ten
cells of continuous integration; ``--busy N`` keeps N processes busy beside the runs;
``--retry`` runs those cells again that were not valid. ``--without`` leaves out families that the
machines cannot have, and ``--controllers`` takes fewer machines (:mod:`tests.vagrant.matrix`).

Exits with 1 if a run was invalid, 2 if one was unknown, 255 if one failed otherwise.
:mod:`bench.hosts_matrix_page` makes the page docs/hosts-matrix.md of such stores.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from kraftwreck.harness.capabilities import MEMBERSHIP
from kraftwreck.harness.clusters.providers import DEFAULT_NODES
from kraftwreck.harness.options import RunOptions
from kraftwreck.nemesis.registry import families
from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.kraft.options import PRODUCE
from kraftwreck.systems.kraft.system import SYSTEM
from kraftwreck.workloads.registry import workloads

NONE, ALL = "none", "all"
METADATA = "metadata"
WITHOUT, BROKERS, COMBINED = "without", "brokers", "combined"
STATIC, DYNAMIC = "static", "dynamic"
_SECONDS = (*(20,) * 14, *(60,) * 5, 300)
"""Most runs are short."""
LIMIT_S = 900.0
"""Timeout of a run."""


class Test(Protocol):
    """A dataclass that names one run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def arguments(self, cluster: str) -> list[str]:
        """Return the words that follow ``kraftwreck``."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One test of the matrix.

    ``faults`` are a family, ``none`` or ``all``: all families but those in ``without``.
    """

    workload: str
    faults: str
    seconds: int
    quorum: str
    nodes: str
    seed: int
    controllers: int = DEFAULT_NODES
    without: tuple[str, ...] = ()

    def arguments(self, cluster: str) -> list[str]:
        """Return the words that follow ``kraftwreck``."""
        chosen = self.faults
        if chosen == ALL:
            names = [n for n in families() if n not in self.without]
            chosen = ",".join(
                n for n in names if possible(n, self.workload, self.quorum, self.nodes)
            )
        words = ["run", "-w", self.workload, "-n", chosen, "-t", str(self.seconds)]
        words += ["-c", cluster, "--quorum", self.quorum, "--seed", str(self.seed)]
        if self.controllers != DEFAULT_NODES:
            words += ["--nodes", str(self.controllers)]
        words += {WITHOUT: [], BROKERS: ["--brokers", "2"], COMBINED: ["--combined"]}[self.nodes]
        return words


Numbered = tuple[int, Cell]
"""A cell with its number."""

SLICE = (
    Cell("metadata", NONE, 20, STATIC, WITHOUT, 1),
    Cell("register", NONE, 120, STATIC, WITHOUT, 2),
    Cell("partitions", NONE, 20, DYNAMIC, BROKERS, 3),
    Cell("requests", NONE, 20, STATIC, COMBINED, 4),
    Cell("leader", "partition", 20, STATIC, WITHOUT, 5),
    Cell("metadata", "kill", 20, DYNAMIC, WITHOUT, 6),
    Cell("register", "network", 20, STATIC, BROKERS, 7),
    Cell("partitions", "power", 20, STATIC, BROKERS, 8),
    Cell("requests", ALL, 20, DYNAMIC, BROKERS, 9),
    Cell("register", "clock", 20, STATIC, COMBINED, 10),
)
"""The runs of continuous integration: runs without faults first, one of them long."""


def possible(family: str, workload: str, quorum: str, nodes: str) -> bool:
    """Return whether ``family`` works with this workload, this quorum and these brokers."""
    known = families()[family]
    options = RunOptions(workload=workload, system_options=(f"quorum={quorum}",))
    if not {need.name for need in known.needs}.isdisjoint(SYSTEM.lacking(options)):
        return False
    return nodes == BROKERS or not all(shape.role for shape in known.shapes.values())


def cell(number: int) -> Cell:
    """Return the cell with this number."""
    pairs = [(w, f) for f in (NONE, *families(), ALL) for w in sorted(workloads())]
    turn, place = divmod(number, len(pairs))
    # A prime step spreads the families of one turn.
    workload, faults = pairs[(place * 37 + turn) % len(pairs)]

    def one(values: tuple[Any, ...], purpose: str) -> Any:
        return values[draw_below(len(values), 7, "matrix", purpose, number)]

    quorum = one((STATIC, DYNAMIC), "quorum")
    nodes = one((WITHOUT, BROKERS, COMBINED), "nodes")
    if workload == PRODUCE:
        nodes = BROKERS
        if faults in families() and not possible(faults, workload, DYNAMIC, nodes):
            workload = METADATA
    if faults in families():
        if MEMBERSHIP in families()[faults].needs:
            quorum = DYNAMIC
        if not possible(faults, workload, quorum, nodes):
            nodes = BROKERS
    return Cell(workload, faults, one(_SECONDS, "seconds"), quorum, nodes, 1000 + number)


def cells(first: int, count: int, controllers: int, without: tuple[str, ...]) -> list[Numbered]:
    """Return ``count`` numbered cells from ``first`` on, but for families ``without``."""
    numbered = ((number, cell(number)) for number in itertools.count(first))
    wanted = ((n, each) for n, each in numbered if each.faults not in without)
    chosen = itertools.islice(wanted, count)
    return [(n, replace(each, controllers=controllers, without=without)) for n, each in chosen]


def run(number: int, each: Test, cluster: str, store: Path) -> dict[str, Any]:
    """Run one test on hosts; return its record."""
    arguments = each.arguments(cluster)
    command = [str(Path(sys.executable).with_name("kraftwreck")), *arguments]
    command += ["--store", str(store), "--no-tables", "--json"]
    begun, load = time.monotonic(), os.getloadavg()[0]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        code, printed, said = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, printed, said = 255, "", f"not over after {LIMIT_S:.0f} s"
    try:
        result = json.loads(printed)
    except json.JSONDecodeError:
        result, code = {}, code if code > 2 else 255  # A program that died is no verdict.
    found = _checkers(result.get("run"))
    return {
        "number": number,
        "cell": asdict(each),
        "cluster": cluster,
        "command": shlex.join(["kraftwreck", *arguments]),
        "exit": code,
        "valid": result.get("valid"),
        "strength": result.get("strength"),
        "anomalies": [
            f"{name}: {anomaly['type']}: {anomaly['explanation']}"
            for name, checked in found.items()
            for anomaly in checked.get("anomalies", ())
        ],
        "errors": [f"{name}: {c['error']}" for name, c in found.items() if c.get("error")],
        "said": result["errors"] if result else said.strip().splitlines()[-3:],
        "run": result.get("run"),
        "wall_s": round(time.monotonic() - begun, 1),
        "load": round(load, 1),
    }


def _checkers(folder: str | None) -> dict[str, Any]:
    """Return each checker's result of the run in ``folder``; none if the run left none."""
    try:
        results = json.loads((Path(folder or "") / "results.json").read_bytes())
    except (OSError, ValueError):
        return {}
    checkers: dict[str, Any] = results["checkers"]
    return checkers


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep ``processes`` processes busy during the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def records(path: Path) -> list[dict[str, Any]]:
    """Return the records of runs in the lines of a file, without a torn last line."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def run_all(
    cells: Iterable[tuple[int, Cell]], cluster: str, store: Path, jobs: int, retry: bool = False
) -> int:
    """Run ``cells`` that are not in ``store`` yet; return the worst exit code."""
    store.mkdir(parents=True, exist_ok=True)
    known = {record["number"]: record["exit"] for record in records(store / "matrix.jsonl")}
    if retry:
        known = {number: code for number, code in known.items() if code == 0}
    codes = list(known.values())
    guard = threading.Lock()

    def one(number: int, each: Cell) -> None:
        record = run(number, each, cluster, store / "runs")
        with guard, (store / "matrix.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
            codes.append(record["exit"])
            words = record["anomalies"] or record["errors"] or record["said"]
            verdict = {0: "valid", 1: "INVALID", 2: "unknown"}.get(record["exit"], "failed")
            print(f"{number:4} {record['wall_s']:6.1f} s  {verdict:8}{record['command']}")
            for line in words[:3]:
                print(f"       {line}")
            sys.stdout.flush()

    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(one, n, each) for n, each in cells if n not in known]:
            future.result()
    for code in (255, 254, 1, 2):
        if code in codes:
            return code
    return 0


def main() -> None:
    """Run the cells of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store", type=Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cluster", default="netns")
    parser.add_argument("--controllers", type=int, default=DEFAULT_NODES)
    parser.add_argument("--without", default="")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--slice", action="store_true")
    parser.add_argument("--retry", action="store_true")
    asked = parser.parse_args()
    without = tuple(name for name in asked.without.split(",") if name)
    if wrong := set(without) - families().keys():
        sys.exit(f"--without: no such fault family: {', '.join(sorted(wrong))}")
    chosen = (
        list(enumerate(SLICE))
        if asked.slice
        else cells(asked.first, asked.runs, asked.controllers, without)
    )
    with busy(asked.busy):
        code = run_all(chosen, asked.cluster, asked.store, asked.jobs, asked.retry)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(chosen)} cells, {used.ru_utime + used.ru_stime:.0f} CPU s")
    sys.exit(code)


if __name__ == "__main__":
    main()
