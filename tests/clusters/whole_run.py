"""Whole runs on namespace hosts, with the faults a test has chosen."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run import TestRun
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.runs.judge import judge
from kraftwreck.runs.replay import replay_nodes
from kraftwreck.systems.kraft.system import SYSTEM, Kraft
from kraftwreck.workloads import registry as workloads

SECOND = 1_000_000_000


def another_version(folder: Path) -> Path:
    """Return node code that is other code and does the same."""
    tree = folder / "nodes"
    shutil.copytree(PROJECT_TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    with (tree / "draw.py").open("a") as file:
        file.write("\nVERSION = 2\n")
    return tree


def fault(
    at_s: float, kind: str, shape: str, duration_s: float, *targets: str, draw: int | None = None
) -> Fault:
    """A fault of the plan; where nothing else is asked for, its second is what it draws by."""
    return Fault(
        at=round(at_s * SECOND),
        kind=kind,
        shape=shape,
        duration=round(duration_s * SECOND),
        draw=int(at_s) if draw is None else draw,
        targets=targets,
    )


def carry_out(
    options: RunOptions, schedule: Sequence[Fault], *, disks: bool = False, system: Kraft = SYSTEM
) -> Path:
    """Return the folder of a run in which the harness itself had no trouble.

    It has no floor: faults that leave a leader no time are the test's own wish.
    """
    outcome = TestRun(
        dataclasses.replace(options, floor="none"),
        system=system,
        workload=workloads.find(options.workload),
        schedule=list(schedule),
        injector=Injector,
        cluster=NetnsCluster(len(system.layout(options).roles), disks=disks),
        say=print,
    ).go()
    assert outcome.errors == []
    return outcome.folder


def assert_valid_and_replayed(folder: Path, nodes: int) -> None:
    """Every checker says valid, and each node does the same again from its input log."""
    verdict = judge(folder, print)
    found = {name: each for name, each in verdict.checkers.items() if each.valid is not True}
    assert not found, f"not valid: {found}"
    assert [r["same"] for r in replay_nodes(folder, None)] == [True] * nodes
