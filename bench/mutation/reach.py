"""Which tests execute which lines of checkers: measured once for each version of the files.

The rules that only a simulator can judge have their constants in ``checkers/``, too.

Each test file runs in a forked process of its own, so no cache of another file hides a call.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

import coverage
import msgspec
import pytest
from _pytest import runner

from bench.mutation.places import ROOT

JUDGES = (ROOT / "checkers", ROOT / "systems/kraft/simulated")
"""Folders of code that judges with the constants of checkers."""
_SHARES = re.compile(r"scope=|^@(functools\.)?(lru_)?cache\b", re.MULTILINE)
MARKERS = (
    "cluster spark browser slow oracle campaign vagrant compiled wall_clock many_runs whole_run"
)
ARGUMENTS = (
    "-q", "-s", "-n", "0", "-p", "no:cacheprovider", "-p", "no:rerunfailures",
    "-W", "ignore:overflow encountered:RuntimeWarning",  # of code that numba compiles elsewhere
    "-m", f"not ({MARKERS.replace(' ', ' or ')})",
)  # fmt: skip

Lines = dict[str, set[int]]
"""Lines by file."""


class SameExamples:
    """A plugin of pytest: Hypothesis draws the same examples in every trial.

    Its health checks and deadlines measure wall time: on a busy machine they fail a test, which
    would kill any mutant.
    """

    def pytest_configure(self) -> None:
        """Load the settings with which those of every test begin."""
        import hypothesis  # Pytest has to be there first, to rewrite its assertions.

        hypothesis.settings.register_profile(
            "mutation",
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutation")


class Reached(msgspec.Struct):
    """A test: its CPU seconds, whether it passed, and the lines that it executed by file."""

    seconds: float
    passed: bool
    lines: dict[str, list[int]]


class OfFile(msgspec.Struct):
    """The tests of a file by node id; ``digest`` is that of the file and of all it reached."""

    digest: str
    tests: dict[str, Reached]


def passed(item: pytest.Item, next_item: pytest.Item | None) -> bool:
    """Run a test and return whether it passed or was skipped."""
    reports = runner.runtestprotocol(item, log=False, nextitem=next_item)
    return not any(report.failed for report in reports)


def read_record(record: Path) -> dict[str, OfFile]:
    """Return what was measured before, by file."""
    if not record.exists():
        return {}
    return msgspec.json.decode(record.read_bytes(), type=dict[str, OfFile])


def read_reached(record: Path) -> dict[str, Reached]:
    """Return all tests that were measured, by node id."""
    files = read_record(record).values()
    return {name: test for of_file in files for name, test in of_file.tests.items()}


def _digest(file: Path, of_file: OfFile) -> str:
    paths = {path for test in of_file.tests.values() for path in test.lines}
    found = hashlib.sha256(file.read_bytes())
    for path in sorted(paths):
        found.update((ROOT / path).read_bytes() if (ROOT / path).exists() else b"")
    return found.hexdigest()


def measured(items: Sequence[pytest.Item], record: Path) -> dict[str, Reached]:
    """Return all tests by node id; those of unchanged files come from ``record``."""
    known = read_record(record)
    found: dict[str, OfFile] = {}
    for file, grouped in groupby(items, key=lambda item: item.path):
        name, mine = str(file), list(grouped)
        of_file = known.get(name)
        ids = {item.nodeid for item in mine}
        if of_file is None or ids != set(of_file.tests) or of_file.digest != _digest(file, of_file):
            of_file = OfFile("", _run(mine, record))
            of_file.digest = _digest(file, of_file)
            print(f"{name}: {len(mine)} tests", flush=True)
            known[name] = of_file
            record.parent.mkdir(exist_ok=True)
            record.write_bytes(msgspec.json.encode(known))
        found[name] = of_file
    return {name: test for of_file in found.values() for name, test in of_file.tests.items()}


def _run(items: Sequence[pytest.Item], record: Path) -> dict[str, Reached]:
    part = record.with_suffix(f".{os.getpid()}.part")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            silence()
            part.write_bytes(msgspec.json.encode(dict(_traced(items))))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{items[0].path}: its tests cannot be traced")
    try:
        return msgspec.json.decode(part.read_bytes(), type=dict[str, Reached])
    finally:
        part.unlink()


def _traced(items: Sequence[pytest.Item]) -> Iterator[tuple[str, Reached]]:
    following = [*items[1:], None]
    for item, next_item in zip(items, following, strict=True):
        of_judges = [f"{folder}/*" for folder in JUDGES]
        tracer = coverage.Coverage(
            data_file=None, include=of_judges, config_file=False, messages=False
        )
        tracer.set_option("run:disable_warnings", ["no-data-collected"])
        begun = time.process_time()
        tracer.start()
        try:
            good = passed(item, next_item)
        finally:
            tracer.stop()
        data = tracer.get_data()
        lines = {
            str(Path(file).resolve().relative_to(ROOT)): sorted(data.lines(file) or ())
            for file in data.measured_files()
        }
        yield item.nodeid, Reached(time.process_time() - begun, good, lines)


def silence() -> None:
    """Discard what this process prints."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


@cache
def _trees() -> dict[str, ast.Module]:
    files = sorted(file for folder in JUDGES for file in folder.rglob("*.py"))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}


def uses(name: str, seen: frozenset[str] = frozenset()) -> Lines:
    """Return the lines of functions with the constant ``name`` or one that is made from it."""
    found: Lines = {}
    for path, tree in _trees().items():
        for top, node in _mentions(tree, name):
            if isinstance(top, ast.FunctionDef | ast.ClassDef):
                found.setdefault(path, set()).update(_lines_with(top, node))
            if isinstance(top, ast.Assign | ast.AnnAssign):
                target = top.targets[0] if isinstance(top, ast.Assign) else top.target
                made = target.id if isinstance(target, ast.Name) else ""
                if made not in ("", name, *seen):
                    for where, lines in uses(made, seen | {name}).items():
                        found.setdefault(where, set()).update(lines)
    return found


def _lines_with(top: ast.FunctionDef | ast.ClassDef, node: ast.Name | ast.Attribute) -> set[int]:
    """Return the line of ``node``; all lines of ``top`` if its line runs at the import only."""
    functions = [each for each in ast.walk(top) if isinstance(each, ast.FunctionDef)]
    bodies = [statement for function in functions for statement in function.body]
    if any(each is node for statement in bodies for each in ast.walk(statement)):
        return {node.lineno}
    return set(range(top.lineno, (top.end_lineno or top.lineno) + 1))


def _mentions(tree: ast.Module, name: str) -> Iterator[tuple[ast.stmt, ast.Name | ast.Attribute]]:
    for top in tree.body:
        for node in ast.walk(top):
            if name == getattr(node, "id", getattr(node, "attr", "")):
                assert isinstance(node, ast.Name | ast.Attribute)
                yield top, node


def reaching(
    lines: Lines, items: Sequence[pytest.Item], reached: Mapping[str, Reached]
) -> list[pytest.Item]:
    """Return the tests that reach any of these lines, quick ones first.

    A fixture or a cache that all tests of a file use is filled by the first of them. So in a file
    that has one, all tests depend on a line if one reaches it.
    """
    direct, files = set(), set()
    for item in items:
        ran = reached[item.nodeid].lines
        if any(not of.isdisjoint(ran.get(path, ())) for path, of in lines.items()):
            direct.add(item.nodeid)
            files.add(item.path)
    shared = {path for path in files if _SHARES.search(path.read_text())}
    mine = [item for item in items if item.nodeid in direct or item.path in shared]
    mine = [item for item in mine if reached[item.nodeid].passed]
    return sorted(mine, key=lambda i: (i.nodeid not in direct, reached[i.nodeid].seconds))
