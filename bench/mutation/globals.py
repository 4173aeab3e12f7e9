"""Put another value of a constant into modules that are already imported.

That has the same effect as a new import if functions alone use the constant: no other constant, no
default, no decorator and no parameter of a test is made from it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bench.mutation.places import ROOT, Mutant
from bench.mutation.reach import JUDGES

Bound = dict[Path, set[str]]
"""The names that a constant has, by file."""


@cache
def _trees() -> dict[Path, ast.Module]:
    folders = (*JUDGES, ROOT / "tests/checkers", ROOT / "tests/simulation")
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    return {file: ast.parse(file.read_text()) for file in files}


def bindings(mutant: Mutant) -> Bound | None:
    """Return where a constant is bound; None if code outside of functions uses it."""
    if "." in mutant.scope:
        return None
    found: Bound = {ROOT / mutant.path: {mutant.scope}}
    todo = [(ROOT / mutant.path, mutant.scope)]
    while todo:
        source, name = todo.pop()
        for file, tree in _trees().items():
            for local in _imported(tree, source, name):
                if local not in found.setdefault(file, set()):
                    found[file].add(local)
                    todo.append((file, local))
    for file, names in found.items():
        if any(_outside(_trees()[file], name, file == ROOT / mutant.path) for name in names):
            return None
    return found


def _imported(tree: ast.Module, source: Path, name: str) -> Iterator[str]:
    """Yield the names by which a module imports ``name`` from the file ``source``."""
    module = ".".join(source.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in (module, f"kraftwreck.{module}"):
            yield from (each.asname or each.name for each in node.names if each.name == name)


def _outside(tree: ast.Module, name: str, defines: bool) -> bool:
    """Whether code that runs at the import uses ``name``; its definition does not count."""
    count = sum(_uses(statement, name) for statement in tree.body)
    return count > defines


def _uses(node: ast.AST, name: str) -> int:
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        early: list[ast.AST] = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        early += node.decorator_list if isinstance(node, ast.FunctionDef) else []
        return sum(_uses(each, name) for each in early)
    own = isinstance(node, ast.Name) and node.id == name
    return own + sum(_uses(each, name) for each in ast.iter_child_nodes(node))


def rebind(bound: Bound, value: float) -> int:
    """Give the constant another value in all modules; return how many there were."""
    count = 0
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        for name in bound.get(Path(file).resolve(), ()) if file else ():
            setattr(module, name, value)
            count += 1
    return count
