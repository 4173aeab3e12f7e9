"""Count how often the statements that a patch changes are executed.

A hunt that misses a bug has two quite different causes: no test reached the changed statements, or
no checker saw the effect. Executions show which. A process that hunts calls :func:`count`
before it imports any node code: the changed modules are then compiled with a counter in front of
each changed statement. Line numbers in tracebacks stay as they are.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_COUNTERS = "__kraftwreck_executed__"

Executed = dict[str, int]
"""Executions by place, such as ``nodes/consensus/log.py:57``."""

_counts: Executed = {}


def count(tree: Path, original: Path) -> None:
    """Count executions of the statements in which ``tree`` differs from ``original``.

    Both are ``nodes`` folders. Modules of ``tree`` must not have been imported yet.
    """
    changed = {str(tree / name): lines for name, lines in changed_lines(tree, original).items()}
    sys.meta_path.insert(0, _Finder(tree, changed))


def executed() -> Executed:
    """Return how often each changed statement of the imported modules has been executed."""
    return dict(_counts)


def added(counts: Iterable[Executed]) -> Executed:
    """Return the sums of several counts."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def changed_lines(tree: Path, original: Path) -> dict[str, set[int]]:
    """Return the numbers of changed lines by module; for a deletion, that of the line before it."""
    found = {}
    for path in sorted(tree.rglob("*.py")):
        name = str(path.relative_to(tree))
        before = original / name
        new = path.read_text().splitlines()
        old = before.read_text().splitlines() if before.is_file() else []
        if new != old:
            found[name] = _changed(old, new)
    return found


def _changed(old: Sequence[str], new: Sequence[str]) -> set[int]:
    lines: set[int] = set()
    for tag, _, _, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "delete":
            lines.add(max(1, begin))
        elif tag != "equal":
            lines.update(at + 1 for at in range(begin, end) if new[at].strip())
    return lines


class _Finder(MetaPathFinder):
    """Finds the changed modules, for a loader that adds counters."""

    def __init__(self, tree: Path, changed: Mapping[str, set[int]]) -> None:
        self._tree = tree
        self._changed = changed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or spec.origin not in self._changed:
            return None
        lines = self._changed[spec.origin]
        name = f"nodes/{Path(spec.origin).relative_to(self._tree)}"
        spec.loader = _Loader(fullname, spec.origin, name, lines)
        return spec


class _Loader(SourceFileLoader):
    """Compiles a module with counters, and caches no bytecode that contains them."""

    def __init__(self, fullname: str, path: str, name: str, lines: set[int]) -> None:
        super().__init__(fullname, path)
        self._name = name
        self._lines = lines

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the module with its counters."""
        source = self.get_data(self.path)
        module = _Counting(self._name, self._lines).visit(ast.parse(source, self.path))
        code: CodeType = compile(ast.fix_missing_locations(module), self.path, "exec")
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which can see the counters."""
        module.__dict__[_COUNTERS] = _add
        super().exec_module(module)


def _add(place: str) -> None:
    _counts[place] += 1


class _Counting(ast.NodeTransformer):
    """Puts a call in front of each statement that begins or lies in a changed line."""

    def __init__(self, name: str, lines: set[int]) -> None:
        self._name = name
        self._lines = lines

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the statements of all blocks of ``node``."""
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                # The header of a function or branch is changed: its body counts.
                first = self._header(node, block) if field == "body" else None
                setattr(node, field, list(self._counted(block, first)))
        return node

    def _header(self, node: ast.AST, block: list[ast.stmt]) -> int | None:
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler | ast.match_case
        ):
            return None
        begin = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        return next((at for at in range(begin, block[0].lineno) if at in self._lines), None)

    def _counted(self, block: list[ast.stmt], header: int | None) -> Iterable[ast.stmt]:
        documented = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        rest = block
        if documented:
            yield block[0]
            rest = block[1:]
        if header is not None:
            yield self._call(header, block[0])
        for statement in rest:
            line = self._own_line(statement)
            if line is not None:
                yield self._call(line, statement)
            yield statement

    def _own_line(self, statement: ast.stmt) -> int | None:
        """Return the first changed line of a statement, without the blocks inside it."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return None
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return None
        inside: Any = getattr(statement, "body", None)
        if isinstance(statement, ast.Match):
            last = statement.subject.end_lineno or statement.lineno
        elif isinstance(inside, list) and inside:
            last = max(statement.lineno, inside[0].lineno - 1)
        else:
            last = statement.end_lineno or statement.lineno
        return next((at for at in range(statement.lineno, last + 1) if at in self._lines), None)

    def _call(self, line: int, statement: ast.stmt) -> ast.stmt:
        place = f"{self._name}:{line}"
        _counts.setdefault(place, 0)
        function = ast.Name(_COUNTERS, ast.Load())
        call = ast.Expr(ast.Call(function, [ast.Constant(place)], []))
        return ast.copy_location(call, statement)
