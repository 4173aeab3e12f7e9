"""List the tests that measure seconds of the wall, each with its reason.

    python -m tests.wall_clock

All others wait for events (``tests/waiting.py``), or measure virtual time or CPU time, so that a
busy machine changes no result. Tests of Vagrant and of the oracle, which ``make test`` leaves
out, and programs that tests start are not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.test_tidy import ROOT, tracked

CLOCKS = {("time", "sleep"), ("time", "monotonic"), ("time", "perf_counter"), ("asyncio", "sleep")}
ELSEWHERE = (
    "tests/vagrant/", "tests/oracle/", "tests/waiting.py", "tests/deploy/line_helpers/",
)  # fmt: skip
PROGRAM = 'if __name__ == "__main__":'


@dataclass(frozen=True)
class Place:
    """A function or class that calls a clock; ``reason`` is None if it has no mark."""

    path: Path
    line: int
    name: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} {self.name}: {self.reason or 'no mark'}"


def places_in(path: Path) -> Iterator[Place]:
    """Yield the places at the top of a module, or the module itself, that call a clock."""
    text = path.read_text()
    if not any(name in text for _, name in CLOCKS):
        return
    for top in ast.parse(text).body:
        calls = [node for node in ast.walk(top) if _is_clock(node)]
        if calls:
            line = getattr(calls[0], "lineno", 0)
            yield Place(path, line, getattr(top, "name", "the module"), _reason(top))


def _is_clock(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name), args=arguments):
            turns = [ast.unparse(argument) for argument in arguments] == ["0"]
            return (module, name) in CLOCKS and not turns
        case ast.ImportFrom(module="time" | "asyncio" as module, names=names):
            return any((module, alias.name) in CLOCKS for alias in names)
    return False


def _reason(top: ast.stmt) -> str | None:
    for decorator in getattr(top, "decorator_list", ()):
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr="wall_clock"), args=[ast.Constant(value=str() as why)]
            ):
                return why
    return None


def places() -> list[Place]:
    """Return all places in the tests that call a clock."""
    return [
        place
        for path in tracked("tests/*.py")
        if not str(path.relative_to(ROOT)).startswith(ELSEWHERE) and PROGRAM not in path.read_text()
        for place in places_in(path)
    ]


def main() -> None:
    """Print the list."""
    for place in places():
        print(place)


if __name__ == "__main__":
    main()
