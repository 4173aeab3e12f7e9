"""Whether a change of the checkers changes a finding: runs judged from their folders, twice.

``simulate`` keeps clean runs and runs of every planted bug of the catalogue: of a bug the first
few that fail, or the last one tried. ``judge`` writes all findings in a store into one file, by
the checkers of the tree that it runs in. ``compare`` shows how two such files differ::

    python -m bench.findings simulate STORE --clean 200 --planted 2
    python -m bench.findings judge STORE before.json
    python -m bench.findings compare before.json after.json
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.campaigns.campaign import run_schedule
from kraftwreck.campaigns.loop_guard import loop_guard
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import check
from kraftwreck.harness.patched_nodes import MUTANTS, environment, patched_tree
from kraftwreck.systems.registry import simulated_workload, systems
from kraftwreck.systems.simulators import everything, save

MOST_TRIES = 6
"""Runs of a planted bug, of which the failing ones are kept."""

Part = tuple[Path, Path | None, int, int, int]
"""A folder, the patch of a bug, the first seed, the runs to try, and those to keep."""

Found = dict[str, list[str]]
"""Findings by run folder."""


@click.group()
def cli() -> None:
    """Compare the findings of two versions of the checkers."""


@cli.command()
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--clean", default=200, help="Runs without a planted bug.")
@click.option("--planted", default=2, help="Runs of each planted bug.")
@click.option("--jobs", default=2)
def simulate(store: Path, clean: int, planted: int, jobs: int) -> None:
    """Keep run folders in STORE."""
    bugs = sorted(MUTANTS.glob("*.patch")) if planted else []
    with ThreadPoolExecutor(jobs) as pool:
        each = 20
        parts: list[Part] = [
            (store / "clean", None, first, each, each) for first in range(0, clean, each)
        ]
        parts += [(store / bug.stem, bug, 0, MOST_TRIES, planted) for bug in bugs]
        for line in pool.map(_in_process, parts):
            print(line, flush=True)


def _in_process(part: Part) -> str:
    store, bug, first, tries, wanted = part

    def run(env: dict[str, str] | None) -> str:
        numbers = [str(number) for number in (first, tries, wanted)]
        clean = ["--clean"] if bug is None else []
        command = [sys.executable, "-m", "bench.findings", "keep", str(store), *numbers, *clean]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return f"{store.name} {first}: {done.stdout.strip() or done.stderr[-200:]}"

    if bug is None:
        return run(None)
    with patched_tree(bug) as tree:
        return run(environment(tree))


@cli.command()
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("first", type=int)
@click.argument("tries", type=int)
@click.argument("wanted", type=int)
@click.option("--clean", is_flag=True, help="Keep runs that do not fail, too.")
def keep(store: Path, first: int, tries: int, wanted: int, clean: bool) -> None:
    """Simulate with the node code of this process, and keep the runs that fail."""
    campaign = replace(everything(), time_limit_s=20.0, store=store)
    kept = 0
    for seed in range(first, first + tries):
        options, knobs = campaign.options(seed), campaign.knobs(seed)
        workload = simulated_workload(options.system, options.workload)
        try:
            with loop_guard():
                judged = run_schedule(options, workload, knobs, campaign.schedule(seed))
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}", end=" ")
            continue
        last = seed == first + tries - 1 and not kept
        if clean or last or judged.tested.found:
            save(options, workload, judged.result, verdict=judged.verdict)
            kept += 1
        if kept == wanted:
            break
    print(f"{kept} kept")


@cli.command()
@click.argument("store", type=click.Path(path_type=Path, exists=True))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--jobs", default=2)
def judge(store: Path, out: Path, jobs: int) -> None:
    """Judge all runs in STORE and write their findings to OUT."""
    folders = sorted(path.parent for path in store.rglob("test.json"))
    with ProcessPoolExecutor(jobs) as pool:
        found: Found = {
            str(folder.relative_to(store)): lines
            for folder, lines in zip(folders, pool.map(_judged, folders), strict=True)
        }
    out.write_bytes(msgspec.json.encode(found))
    print(f"{len(found)} runs, {sum(map(len, found.values()))} findings")


def _judged(folder: Path) -> list[str]:
    run = RunData.from_folder(folder)
    system = systems()[str(run.test["system"])]
    verdict = check(run, [*dict.fromkeys([*run.test["checkers"], *system.checkers])])
    return sorted(_lines(msgspec.to_builtins(verdict)["checkers"]))


def _lines(checkers: dict[str, Any]) -> Iterator[str]:
    """Yield every finding, every error and every invariant's status as one line."""
    for name, result in checkers.items():
        for kind in ("anomalies", "suspicions"):
            for finding in result[kind]:
                operations = finding["operations"]
                yield f"{name} {kind} {finding['type']}: {finding['explanation']} {operations}"
        if result["error"]:
            yield f"{name} error: {result['error']}"
        for rule, of in result["stats"].get("invariants", {}).items():
            yield f"{name} {rule} {of['status']} {of['facts']}"


@cli.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True))
@click.argument("after", type=click.Path(path_type=Path, exists=True))
def compare(before: Path, after: Path) -> None:
    """Show every line that only one of two files of findings has."""
    old, new = (msgspec.json.decode(path.read_bytes(), type=Found) for path in (before, after))
    differ = 0
    for folder in sorted(old.keys() | new.keys()):
        mine, theirs = set(old.get(folder, ())), set(new.get(folder, ()))
        differ += mine != theirs
        for line in sorted(mine - theirs):
            print(f"- {folder}: {line}")
        for line in sorted(theirs - mine):
            print(f"+ {folder}: {line}")
    print(f"{len(old)} and {len(new)} runs, {differ} differ")


if __name__ == "__main__":
    cli()
