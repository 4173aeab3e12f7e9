"""Rules of the tree's style that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 600
LONGEST_FUNCTION = 70
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
PUT_OFF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
UNPINNED = "Auto" + "AddPolicy"


def tracked(*patterns: str) -> list[Path]:
    """The files git tracks that match ``patterns`` and still exist."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


SOURCES = tracked("*.py")


def test_source_files_are_short_named_well_and_finished() -> None:
    wrong: list[str] = []
    for path in SOURCES:
        text = path.read_text()
        mistakes = {
            "more than one idea lives here": text.count("\n") > LONGEST_FILE,
            "the name says nothing": path.stem in VAGUE,
            "unfinished": path != Path(__file__) and bool(PUT_OFF.search(text)),
            "host keys are pinned": path != Path(__file__) and UNPINNED in text,
            "a shell": path != Path(__file__) and "shell=True" in text,
        }
        wrong += [f"{path.relative_to(ROOT)}: {what}" for what, is_so in mistakes.items() if is_so]
    assert wrong == []


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """Functions and methods; those inside of another function count as its lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node
        else:
            yield from functions(node)


def too_long(source: str) -> list[str]:
    """Return the names of functions with too many lines, from ``def`` to their end."""
    return [
        f"{each.name} has {lines} lines"
        for each in functions(ast.parse(source))
        if (lines := (each.end_lineno or 0) - each.lineno + 1) > LONGEST_FUNCTION
    ]


def test_functions_are_short() -> None:
    found = {str(p.relative_to(ROOT)): long for p in SOURCES if (long := too_long(p.read_text()))}
    assert found == {}


def test_a_function_counts_with_those_inside_of_it() -> None:
    inner = "    def inner():\n" + "        pass\n" * 40
    assert too_long("def outer():\n" + inner + "    pass\n" * 29) == ["outer has 71 lines"]
    assert too_long("def outer():\n" + inner + "    pass\n" * 28) == []
    method = "class A:\n    @decorated(\n)\n    async def f():\n" + "        pass\n" * 70
    assert too_long(method) == ["f has 71 lines"]


def test_only_marked_tests_measure_seconds_of_the_wall() -> None:
    from tests.wall_clock import places

    assert [str(place) for place in places() if not place.reason] == []


def test_no_large_file_is_tracked() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 400_000]
    assert large == []


def test_every_package_has_a_description() -> None:
    packages = [p for p in SOURCES if p.name == "__init__.py"]
    silent = [str(p.relative_to(ROOT)) for p in packages if not p.read_text().startswith('"""')]
    assert silent == []
