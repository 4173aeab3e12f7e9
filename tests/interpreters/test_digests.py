"""One seed is one run: on every CPython, in every process, however strings are hashed.

A run is decided by its arguments alone. Differences between interpreters (the order of
sets and of directory listings, rounding, hashing, the wording of errors) must have no effect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.interpreters.fetch import PYTHONS, ROOT, Python

SEEDS = ("0", "1", "2", "7", "8")
"""All workloads, and all options of the default system."""


pytestmark = pytest.mark.xdist_group("interpreters")  # they share the runs to compare with


@cache
def runs(version: str | None, hash_seed: str) -> dict[str, Any]:
    """Return what the seeds gave in a process of its own; None: this interpreter."""
    if version is None:
        executable = sys.executable
        environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT)}
    else:
        python = next(python for python in PYTHONS if python.version == version)
        executable, environment = str(python.executable), python.environment()
    done = subprocess.run(
        [executable, "-m", "tests.interpreters.runs", *SEEDS],
        cwd=ROOT,
        env={**environment, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_the_runs_are_of_all_workloads_and_long_enough_to_differ() -> None:
    told = runs(None, "0")["runs"]
    assert {workload for workload, *_ in told.values()} >= {"metadata", "partitions", "register"}
    assert len({digest for _, digest, *_ in told.values()}) == len(SEEDS)


def test_a_run_is_the_same_again_however_strings_are_hashed() -> None:
    here, other = runs(None, "0"), runs(None, "4711")
    assert other["order of a set"] != here["order of a set"], "the hash seed makes a difference"
    assert other["runs"] == here["runs"]


@pytest.mark.parametrize("python", PYTHONS, ids=lambda python: python.version)
@pytest.mark.whole_run
def test_a_run_is_the_same_on_another_cpython(python: Python) -> None:
    if not python.ready:
        pytest.skip(
            f"CPython {python.version} is not in {python.folder.relative_to(ROOT)}:"
            " run scripts/setup --test (it needs Maven and the network)"
        )
    other = runs(python.version, "99")
    assert other["implementation"] == "CPython"
    assert other["version"] == [int(part) for part in python.version.split(".")]
    assert other["version"] != list(sys.version_info[:2])
    assert other["runs"] == runs(None, "0")["runs"]
