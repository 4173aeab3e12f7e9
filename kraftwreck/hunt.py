"""Hunt one planted bug: simulated tests, seed after seed, until something notices it.

Runs as a process of its own (``python -m kraftwreck.hunt``) whose import path holds the
node code to be hunted in front of the project's, see :func:`environment`. Prints one JSON
line, a :class:`Hunted`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
import msgspec

import nodes
from harness.archive import PROJECT_TREE
from kraftwreck.campaign import Campaign, run_seed


class Hunted(msgspec.Struct, kw_only=True):
    """How a hunt ended. ``checker``, ``anomaly``, ``explanation``, ``seed`` and ``workload``
    tell of the test that noticed; ``runs`` and ``sim_s`` what it took, ``cpu_s`` without
    the start of the process."""

    found: bool
    cpu_s: float
    runs: int
    sim_s: float
    checker: str | None = None
    anomaly: str | None = None
    explanation: str | None = None
    seed: int | None = None
    workload: str | None = None


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of a process that imports ``nodes`` from the folder ``tree``."""
    path = os.pathsep.join([str(tree.parent), str(PROJECT_TREE.parent)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def hunt(campaign: Campaign, first_seed: int, budget_s: float, runs: int | None) -> Hunted:
    """Run tests from ``first_seed`` upward until one fails, the CPU budget or ``runs`` end."""
    begun = time.process_time()
    sim_s = 0.0
    done = 0
    while time.process_time() - begun < budget_s and (runs is None or done < runs):
        tested = run_seed(campaign, first_seed + done, keep=False, eager=True)
        done += 1
        sim_s += tested.sim_s
        if tested.found:
            checker, anomaly, explanation = tested.found[0]
            return Hunted(
                found=True,
                cpu_s=round(time.process_time() - begun, 3),
                runs=done,
                sim_s=round(sim_s, 3),
                checker=checker,
                anomaly=anomaly,
                explanation=explanation,
                seed=tested.seed,
                workload=tested.workload,
            )
    spent = round(time.process_time() - begun, 3)
    return Hunted(found=False, cpu_s=spent, runs=done, sim_s=round(sim_s, 3))


@click.command()
@click.option("--tree", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--budget", type=float, required=True)
@click.option("--first-seed", type=int, default=0)
@click.option("--runs", type=int)
@click.option("--nodes", "count", type=int, default=0)
@click.option("-t", "--time-limit", type=float, default=30.0)
def cli(
    tree: Path, budget: float, first_seed: int, runs: int | None, count: int, time_limit: float
) -> None:
    """Hunt the bug in the node code below TREE."""
    imported = Path(nodes.__file__ or "").resolve().parent
    if imported != tree.resolve():
        click.echo(f"kraftwreck hunt: nodes comes from {imported}, not from {tree}", err=True)
        sys.exit(255)
    campaign = Campaign(nodes=count, time_limit_s=time_limit)
    hunted = hunt(campaign, first_seed, budget, runs)
    click.echo(msgspec.json.encode(hunted).decode())


if __name__ == "__main__":
    cli()
