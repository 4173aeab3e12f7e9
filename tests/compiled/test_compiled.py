"""Compiled modules do what the interpreter does: ``make test-compiled``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.compiled.tree import BUILD, PACKAGES, CompileError, make
from kraftwreck.harness.patched_nodes import importing_from
from tests.compiled.suites import LEFT_OUT, SUITES
from tests.stages import COMPILED

pytestmark = pytest.mark.compiled
SEEDS = "0..49"
PROJECT = BUILD.parents[1]


@pytest.fixture(scope="session")
def copy() -> Path:
    """The copy of the sources as they are."""
    return make(lambda line: print(line, file=sys.stderr))


def python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter with the modules of ``copy``."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=importing_from(copy),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


def campaign(*more: str) -> dict[str, Any]:
    """Return what ``kraftwreck sim`` says of some runs."""
    command = [sys.executable, "-m", "kraftwreck", "sim", "--seeds", SEEDS, "--json", *more]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    told.pop("cpu_s")
    return told


def test_runs_are_the_same(copy: Path) -> None:
    """Digests of all that happened, verdicts, and what was reached."""
    assert campaign("--compiled") == campaign()


def test_it_is_compiled_modules_that_run(copy: Path) -> None:
    show = (
        "import kraftwreck.nodes.node as n, kraftwreck.simulation.world as w;"
        "print(n.__file__, w.__file__)"
    )
    for file in python(copy, "-c", show).stdout.split():
        assert file.startswith(str(copy))
        assert file.endswith(".so")


def test_the_tests_of_nodes_simulator_and_checkers_pass_with_them(copy: Path) -> None:
    """Checkers that are compiled must fail where those that are not do."""
    suites = [f"tests/{name}" for name in SUITES]
    options = ["-q", "-n", "2", "--dist", "loadgroup", "-m", COMPILED, "-p", "no:cacheprovider"]
    left_out = [f"--ignore=tests/{name}" for name in LEFT_OUT]
    done = python(copy, "-m", "pytest", *options, *left_out, *suites)
    assert done.returncode == 0, done.stdout[-5000:]
    assert int(done.stdout.strip().splitlines()[-1].split(" passed")[0].split()[-1]) > 5000


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A tree with all packages, one module to compile and the simulator's fence."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    shutil.copy(PROJECT / "simulation" / "fence.py", tmp_path / "simulation")
    shutil.copytree(PROJECT / "harness" / "compiled", tmp_path / "harness" / "compiled")
    return tmp_path


def test_a_failed_compilation_is_one_line_and_leaves_no_copy(small: Path) -> None:
    module = small / "nodes" / "node.py"
    module.write_text("def number() -> int:\n    return 'text'\n")
    with pytest.raises(CompileError, match=r"node\.py:2: error: Incompatible return value"):
        make(print, small, small / "build")
    module.write_text("def number() -> int:\n    return 7\n")
    copy = make(print, small, small / "build")
    assert (
        python(copy, "-c", "import kraftwreck.nodes.node as n; print(n.number())").stdout == "7\n"
    )
    folders = [path.name for path in (small / "build").iterdir() if path.is_dir()]
    assert folders == [copy.name], "what was left of the failure is gone"


def test_compiled_modules_see_no_real_time_in_a_simulation(small: Path) -> None:
    text = "import time\n\ndef now() -> float:\n    return time.monotonic()\n"
    (small / "nodes" / "node.py").write_text(text)
    copy = make(print, small, small / "build")
    show = (
        "from kraftwreck.nodes.node import now\n"
        "from kraftwreck.simulation.fence import FenceError, fence\n"
        "assert now() > 0\n"
        "with fence():\n"
        "    try: now()\n"
        "    except FenceError: print('fenced')\n"
    )
    assert python(copy, "-c", show).stdout == "fenced\n"
