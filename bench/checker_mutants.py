"""Mutation of the constants and comparisons in ``checkers/``: which of them no test pins.

    python -m bench.checker_mutants [--only PREFIX] [--kind KIND] [--survivors] [--limit SECONDS]
                                    [--near] [--jobs NUMBER]

Three kinds of places are mutated, one at a time, in the syntax tree of one module:

* ``constant``: a number of a module or class is halved and doubled; a power of two from 2**60 on
  stands for "for ever" and is left alone, as any larger number is the same;
* ``bound``: a number in a comparison, a sum or a call of min or max is halved and doubled;
* ``comparison``: ``<`` becomes ``<=``, ``>`` becomes ``>=``, and back.

Each mutant runs in a process forked from this one. Its tests are those of checkers and of the
simulator's rules that import its module. Those of limits and those that name the module come first;
``--near`` leaves out the others. A failing test kills the mutant. Results are collected in
``build/checker-mutants.json``; the page ``bench/results/checker-mutants.md`` is made from them.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "build/checker-mutants.json"
PAGE = ROOT / "bench/results/checker-mutants.md"
KINDS = ("constant", "bound", "comparison")
SECONDS_EACH = 240
"""CPU time, after which a mutant is endless, which is noticed."""
ENDLESS = 1 << 60
WATCHED = "tests.simulation.watched"
"""Tests of the simulator's rules import this module."""
LIMITS = ("test_limits", "test_simulated_limits")
"""The tests of limits come first, then those that name the module."""
PYTEST = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider")
HEAVY = ("numpy", "msgspec", "pyarrow", "pyarrow.compute", "kraftwreck.nodes.node")
"""Imported once, before the forks. None of them imports ``kraftwreck.checkers``."""
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module; ``key`` stays the same when lines move."""

    path: str
    kind: str
    index: int
    scope: str
    text: str
    change: str
    line: int
    number: int

    @property
    def key(self) -> str:
        """Return what names the mutant in the record."""
        parts = (self.path, self.scope, self.kind, self.text, self.change, str(self.number))
        return " :: ".join(parts)


# --- places --------------------------------------------------------------------------------------


def number(node: ast.AST) -> float | None:
    """Return the value of a numeric expression without names (``10``, ``1 << 20``), else None."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(each, allowed) for each in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {})  # type: ignore[arg-type]  # noqa: S307
    except (TypeError, ArithmeticError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def changed(value: float, how: str) -> float:
    """Return ``value`` halved or doubled; whole numbers stay whole."""
    if how == "doubled":
        return value * 2
    return value // 2 if isinstance(value, int) else value / 2


Place = tuple[ast.AST, str, str, str, tuple[ast.AST, str, int | None]]
"""A node, its kind, its scope, its text, and where its parent holds it (field, index)."""


def places(tree: ast.Module) -> Iterator[Place]:
    """Yield everything that can be mutated, in the order of the source."""
    yield from _of_block(tree, "")


def _of_block(block: ast.AST, scope: str) -> Iterator[Place]:
    for node in ast.iter_child_nodes(block):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{scope}.{node.name}" if scope else node.name
            yield from _of_block(node, inner)
            continue
        value = getattr(node, "value", None)
        at_rest = not isinstance(block, ast.FunctionDef)
        if at_rest and isinstance(node, ast.Assign | ast.AnnAssign) and value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = f"{scope}.{ast.unparse(target)}" if scope else ast.unparse(target)
            if number(value) is not None:
                yield value, "constant", name, ast.unparse(value), (node, "value", None)
                continue
            for parent, field, position, inside in _children(value):
                if number(inside) is not None and isinstance(parent, ast.BinOp):
                    held = (parent, field, position)
                    yield inside, "constant", name, ast.unparse(value), held
            continue
        yield from _of_code(node, scope)


def _of_code(code: ast.AST, scope: str) -> Iterator[Place]:
    if isinstance(code, ast.FunctionDef | ast.ClassDef):
        yield from _of_block(code, f"{scope}.{code.name}")
        return
    if isinstance(code, ast.JoinedStr | ast.Raise):
        return  # a message
    if isinstance(code, ast.Compare):
        for place, operator in enumerate(code.ops):
            if type(operator) in FLIPPED:
                text = ast.unparse(code)
                yield operator, "comparison", scope, text, (code, "ops", place)
    for parent, field, position, child in _direct(code):
        if number(child) is not None and _is_bound(parent, field):
            yield child, "bound", scope, ast.unparse(parent), (parent, field, position)
        else:
            yield from _of_code(child, scope)


def _is_bound(parent: ast.AST, field: str) -> bool:
    if isinstance(parent, ast.Compare):
        return any(type(operator) in FLIPPED for operator in parent.ops)
    if isinstance(parent, ast.Call):
        name = parent.func.id if isinstance(parent.func, ast.Name) else ""
        return field == "args" and name in ("min", "max")
    return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)


def _direct(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield node, field, None, value
        elif isinstance(value, list):
            for position, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield node, field, position, each


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    for found in _direct(node):
        yield found
        yield from _children(found[3])


def mutants_of(path: Path) -> list[Mutant]:
    """Return the mutants of one source file."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    name = str(path.relative_to(ROOT))
    for index, (node, kind, scope, text, (parent, _, _)) in enumerate(
        places(ast.parse(path.read_text()))
    ):
        line = getattr(node, "lineno", getattr(parent, "lineno", 0))
        if kind == "comparison":
            changes = [f"{type(node).__name__} to {FLIPPED[type(node)].__name__}"]  # type: ignore[index]
        else:
            value = number(node) or 0
            if isinstance(value, int) and value >= ENDLESS and value & (value - 1) == 0:
                continue
            changes = [how for how in ("halved", "doubled") if changed(value, how) != value]
            text = f"{ast.unparse(node)} in {text}" if kind == "bound" else text
        for change in changes:
            seen[key := (scope, kind, text, change)] += 1
            found.append(Mutant(name, kind, index, scope, text, change, line, seen[key]))
    return found


def mutate(source: str, mutant: Mutant) -> ast.Module:
    """Return the syntax tree of ``source`` with one change."""
    tree = ast.parse(source)
    node, kind, _, _, (parent, field, position) = list(places(tree))[mutant.index]
    new: ast.AST
    if kind == "comparison":
        new = FLIPPED[type(node)]()  # type: ignore[index]
    else:
        new = ast.copy_location(ast.Constant(changed(number(node) or 0, mutant.change)), node)
    if position is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[position] = new
    return ast.fix_missing_locations(tree)


# --- tests ---------------------------------------------------------------------------------------


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return the names of project modules that a file may import, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in names if module_file(name))


def module_file(name: str) -> Path | None:
    """Return the source of a project module, None if it is none."""
    first, *rest = name.split(".")
    if first not in ("kraftwreck", "tests") or not rest:
        return None
    base = ROOT.joinpath(*([] if first == "kraftwreck" else [first]), *rest)
    found = [p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()]
    return found[0] if found else None


Files = tuple[list[str], list[str]]
"""Tests of limits and those that name a module; the others that reach it."""


def tests_of() -> dict[str, Files]:
    """Return the test files for each checker module, in the order in which they run."""
    closures: dict[Path, tuple[frozenset[str], set[str]]] = {}
    of_rules = [(ROOT / "tests/checkers").rglob("test_*.py"), (ROOT / "tests/simulation").glob("*")]
    for test in sorted(test for tests in of_rules for test in tests if test.suffix == ".py"):
        direct = imports_of(test)
        if test.parent.name == "simulation" and WATCHED not in direct:
            continue  # It simulates whole runs.
        reached, todo = set(direct), list(direct)
        while todo:
            file = module_file(todo.pop())
            more = imports_of(file) - reached if file else set()
            reached |= more
            todo += more
        if test.name not in ("test_checker_mutants.py", "test_check_command.py"):
            closures[test] = (direct, reached)
    tests: dict[str, Files] = {}
    for name in sorted({name for _, reached in closures.values() for name in reached}):
        near: list[str] = []
        far: list[str] = []
        tests[name] = near, far
        for test, (direct, reached) in sorted(closures.items(), key=lambda c: c[0].stat().st_size):
            if name in reached:
                kept = near if test.stem in LIMITS or name in direct else far
                kept.append(str(test.relative_to(ROOT)))
    return tests


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed syntax tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return a spec for the mutated module only."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            self.path,
            loader=self,
            submodule_search_locations=[str(self.path.parent)]
            if self.path.name == "__init__.py"
            else None,
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)  # noqa: S102


def start(mutant: Mutant | None, tests: Sequence[Sequence[str]]) -> int:
    """Run ``tests`` with ``mutant`` (None: unchanged) in a forked process, and return its id."""
    child = os.fork()
    if child == 0:
        # A busy machine makes tests slow, but no mutant endless.
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_EACH, SECONDS_EACH))
        _test(mutant, tests)
    return child


def _test(mutant: Mutant | None, tests: Sequence[Sequence[str]]) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    if mutant is not None:
        path = ROOT / mutant.path
        name = module_name(mutant.path)
        sys.meta_path.insert(0, Mutated(name, path, mutate(path.read_text(), mutant)))
    code = 1
    try:
        code = next((bad for files in tests if files and (bad := _failed(files))), 0)
    finally:
        os._exit(code)


def _failed(files: Sequence[str]) -> int:
    return int(pytest.main([*PYTEST, *files]))


def ended(child: int = -1) -> tuple[int, bool]:
    """Wait for a forked process, -1 for any; return its id, and whether a test failed."""
    child, status = os.waitpid(child, 0)
    return child, os.waitstatus_to_exitcode(status) != 0


def prove_sound(files: Sequence[str]) -> None:
    """Raise SystemExit if tests fail twice without any change."""
    for _ in range(2):
        if not ended(start(None, [files]))[1]:
            return
    raise SystemExit(f"these tests fail without any change: {' '.join(files)}")


def module_name(path: str) -> str:
    """Return the name by which the project imports a file."""
    return f"kraftwreck.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


# --- page ----------------------------------------------------------------------------------------


def page(record: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown page for the collected results."""
    lines = [
        "# Mutated constants and comparisons of the checkers",
        "",
        "`python -m bench.checker_mutants` writes this page; its module docstring says what is",
        "mutated, and which tests run. Folders and kinds that are not listed were not measured.",
        "",
        "| folder | kind | mutants | killed | score |",
        "|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[bool]] = {}
    for key, result in record.items():
        path, _, kind, *_ = key.split(" :: ")
        folder = path if path.count("/") == 1 else str(Path(path).parent) + "/"
        for group in (folder, "**all**"):
            groups.setdefault((group, kind), []).append(result["killed"])
    order = sorted(groups, key=lambda g: (g[0] == "**all**", g[0], KINDS.index(g[1])))
    for group, kind in order:
        killed = groups[group, kind]
        score = f"{100 * sum(killed) / len(killed):.0f} %"
        lines.append(f"| {group} | {kind} | {len(killed)} | {sum(killed)} | {score} |")
    lines += ["", "## Survivors", ""]
    for key, result in sorted(record.items()):
        if not result["killed"]:
            path, scope, kind, text, change, _ = key.split(" :: ")
            lines.append(f"- `{path}` {scope or 'module'}, {kind}: `{text}` {change}")
    return "\n".join(lines) + "\n"


def chosen_of(
    options: argparse.Namespace, record: dict[str, dict[str, Any]]
) -> Iterator[tuple[Mutant, Sequence[Sequence[str]]]]:
    """Yield the mutants to run, with their tests, until the time is over.

    Tests are first run without any change. Mutants without tests survive.
    """
    tests = tests_of()
    chosen = tuple(f"checkers/{each}" for each in options.only or ("",))
    end = time.monotonic() + options.limit
    sound: set[str] = set()
    for path in sorted((ROOT / "checkers").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith(chosen):
            continue
        near, far = tests.get(module_name(name), ([], []))
        files = [near] if options.near else [near, far]
        for mutant in mutants_of(path):
            known = record.get(mutant.key)
            if mutant.kind not in (options.kind or KINDS):
                continue
            if options.survivors and (known is None or known["killed"]):
                continue
            if time.monotonic() > end:
                print("the time is over", flush=True)
                return
            if new := [file for each in files for file in each if file not in sound]:
                sound.update(new)
                prove_sound(new)
            yield mutant, files


def note(running: dict[int, Mutant], record: dict[str, dict[str, Any]]) -> None:
    """Wait for the end of a mutant's tests, and record whether it was killed."""
    child, killed = ended()
    mutant = running.pop(child)
    record[mutant.key] = {"killed": killed}
    print(f"{'killed  ' if killed else 'SURVIVED'} {mutant.path}:{mutant.line} {mutant.key}")
    sys.stdout.flush()
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    """Mutate, test, record and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", help="a path below checkers/; may be repeated")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--survivors", action="store_true", help="only what survived before")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds in all")
    parser.add_argument("--near", action="store_true", help="only tests that name the module")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    for name in HEAVY:
        importlib.import_module(name)
    if any(name.startswith("kraftwreck.checkers") for name in sys.modules):
        raise SystemExit("checkers were imported before the fork: their mutants would not run")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    current = {m.key for path in (ROOT / "checkers").rglob("*.py") for m in mutants_of(path)}
    running: dict[int, Mutant] = {}
    for mutant, files in chosen_of(options, record):
        if len(running) == options.jobs:
            note(running, record)
        running[start(mutant, files)] = mutant
    while running:
        note(running, record)
    record = {key: result for key, result in record.items() if key in current}
    PAGE.write_text(page(record))


if __name__ == "__main__":
    main()
