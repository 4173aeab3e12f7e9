"""Try a mutant outside of functions: a forked process imports its module and the tests again.

The tests are those of files that reach a line with the constant's name, or with that of another
constant made from it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import os
import resource
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.mutation.places import ROOT, Mutant, module_name, mutate
from bench.mutation.reach import ARGUMENTS, Reached, SameExamples, uses
from bench.mutation.trial import fails

HEAVY = (
    "numpy", "msgspec", "pyarrow", "pyarrow.compute", "numba",
    "kraftwreck.nodes.node",
)  # fmt: skip
"""Imported once, before the forks. None of them imports ``kraftwreck.checkers``."""
GRACE_S = 60
TIMES_SLOWER = 5
"""Tests are endless after their own CPU time, this many times, and the grace."""


def prepare() -> None:
    """Import what no mutant changes. Raises SystemExit if checkers were imported before.

    Numba compiles nothing: compiled functions have no code that another could replace.
    """
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in HEAVY:
        importlib.import_module(name)
    if any(name.startswith("kraftwreck.checkers") for name in sys.modules):
        raise SystemExit("checkers were imported before the fork: their mutants would not run")


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed syntax tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return a spec for the mutated module only."""
        if fullname != self.name:
            return None
        packages = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=packages
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)  # noqa: S102


def files_of(mutant: Mutant, reached: dict[str, Reached]) -> dict[str, float]:
    """Return the test files for a mutant with their CPU seconds, the quickest first."""
    lines = uses(mutant.scope.rpartition(".")[2])
    seconds: dict[str, float] = {}
    found = set()
    for test, what in reached.items():
        file = test.partition("::")[0]
        seconds[file] = seconds.get(file, 0.0) + what.seconds
        if any(not lines.get(path, set()).isdisjoint(ran) for path, ran in what.lines.items()):
            found.add(file)
    return {file: seconds[file] for file in sorted(found, key=lambda file: seconds[file])}


def killed(mutant: Mutant, reached: dict[str, Reached]) -> bool:
    """Return whether a test fails with the mutant."""
    files = files_of(mutant, reached)
    if not files:
        return False

    def trial() -> int:
        limit = int(GRACE_S + TIMES_SLOWER * sum(files.values()))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        path = ROOT / mutant.path
        tree = mutate(path.read_text(), mutant)
        sys.meta_path.insert(0, Mutated(module_name(mutant.path), path, tree))
        for file in files:
            if code := pytest.main([*ARGUMENTS, "-x", file], plugins=[SameExamples()]):
                return int(code)
        return 0

    return fails(trial, raised=1)
