"""Which stages of continuous integration run a test: the ``make`` commands in ``.ci/run``.

A stage is read from the Makefile: each of its commands with pytest has an expression of markers
and, sometimes, paths. ``tests/conftest.py`` refuses a test that no stage runs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests.compiled.suites import LEFT_OUT, SUITES

ROOT = Path(__file__).resolve().parents[1]

LONG = ("campaign", "vagrant")
"""Markers of tests that continuous integration leaves out, for they take hours, or run on one
provider of Vagrant only."""

COMPILED = "not interpreted and not oracle and not campaign and not vagrant and not compiled"
"""The markers of the tests that ``make test-compiled`` runs with compiled modules."""


@dataclass(frozen=True)
class Selection:
    """The tests that one command of pytest selects, in folders of ``tests`` or in all."""

    stage: str
    markers: str
    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def has(self, path: str, markers: frozenset[str]) -> bool:
        """Return whether a test in the file ``path``, relative to the root, is selected."""
        if self.paths and not any(_below(path, each) for each in self.paths):
            return False
        if any(_below(path, each) for each in self.left_out):
            return False
        return _compiled(self.markers).evaluate(lambda name, /, **_: name in markers)


_compiled = cache(Expression.compile)


def _below(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def default_markers() -> str:
    """Return the expression of pytest without ``-m``."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    options: list[str] = settings["tool"]["pytest"]["ini_options"]["addopts"]
    return options[options.index("-m") + 1]


def targets() -> list[str]:
    """Return the targets that ``.ci/run`` makes."""
    return re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, with those of targets that they make."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    rule = re.search(rf"^{target}:.*\n((?:\t.*\n)*)", text, re.MULTILINE)
    assert rule is not None, f"the Makefile has no target {target}"
    commands: list[str] = []
    for command in rule[1].splitlines():
        if "$(MAKE)" in command:
            inner = command.split("-j 2 ")[1].split()
            commands += [each for name in inner for each in recipe(name)]
        else:
            commands.append(command.strip())
    return commands


def selections() -> list[Selection]:
    """Return what the stages of ``.ci/run`` select."""
    suites, left_out = (tuple(f"tests/{name}" for name in names) for names in (SUITES, LEFT_OUT))
    found = [Selection("test-compiled", COMPILED, suites, left_out)]
    for target in targets():
        for command in recipe(target):
            if "/pytest " in command and "--collect-only" not in command:
                found.append(selection(target, command))
    return found


def selection(stage: str, command: str) -> Selection:
    """Return what one command with pytest selects."""
    marker = re.search(r'-m (?:"([^"]+)"|(\w+))', command)
    markers = default_markers() if marker is None else marker[1] or marker[2]
    paths = re.findall(r"\btests/\S+", command.replace("$(PROVIDER)", "docker"))
    return Selection(stage, markers, tuple(paths))


def stages_of(path: str, markers: frozenset[str]) -> list[str]:
    """Return the stages that run a test with ``markers`` in the file ``path``."""
    return [each.stage for each in _selections() if each.has(path, markers)]


_selections = cache(selections)


def run_nowhere(items: Iterable[pytest.Item]) -> list[str]:
    """Return the node ids of tests that no stage runs, apart from those marked as ``LONG``."""
    known: dict[tuple[str, frozenset[str]], bool] = {}
    nowhere = []
    for item in items:
        markers = frozenset(mark.name for mark in item.iter_markers())
        place = (item.nodeid.partition("::")[0], markers)
        if place not in known:
            known[place] = bool(markers.intersection(LONG) or stages_of(*place))
        if not known[place]:
            nowhere.append(item.nodeid)
    return nowhere
