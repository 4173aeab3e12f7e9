"""Makes patches of small random bugs in the nodes: ``python -m bench.random_bugs FOLDER``.

The places are drawn from all functions of the nodes' state machines and files, so nobody chooses
them by what the rules can see. Each patch changes one place:

* ``<`` becomes ``<=``, ``>`` becomes ``>=``, and back;
* an operand of ``and`` or ``or`` is left out, a call of ``min`` or ``max`` becomes one argument,
  and a conditional expression one branch;
* a call whose result nobody uses, or an assignment to an attribute or an item, is left out;
* ``+ 1`` or ``- 1`` is left out.

Hunt them with ``kraftwreck mutants --patch FILE --budget 30``. Many change no behaviour, such as
those of assertions, caches and pace, so somebody has to read those that are missed.
"""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = (
    "nodes/broker",
    "nodes/consensus",
    "nodes/consensus/kraft",
    "nodes/metadata",
    "nodes/replication",
    "nodes/log",
    "nodes/log/partition",
)
FILES: Final = (
    "nodes/node.py",
    "nodes/server/log_directory.py",
    "nodes/server/partition_files.py",
    "nodes/server/shell.py",
    "nodes/server/storage.py",
)
FLIPPED: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}


class Change(NamedTuple):
    """The bytes from ``start`` to ``end`` of a file, and those that replace them."""

    path: Path
    start: int
    end: int
    new: bytes

    def patch(self, root: Path = ROOT) -> str:
        """Return a patch for ``git apply`` below ``root``."""
        source, name = self.path.read_bytes(), self.path.relative_to(root)
        changed = source[: self.start] + self.new + source[self.end :]
        old, new = (each.decode().splitlines(keepends=True) for each in (source, changed))
        head = f"diff --git a/{name} b/{name}\n"
        return head + "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


class _File:
    """The source of a file, and where its syntax is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_bytes()
        self._lines = [0]
        for line in self.source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> bytes:
        return self.source[self.start(node) : self.end(node)]

    def replaced(self, node: ast.expr | ast.stmt, new: bytes) -> Change:
        return Change(self.path, self.start(node), self.end(node), new)

    def changes(self) -> Iterator[Change]:
        """Yield all changes of the functions in the file."""
        for function in ast.walk(ast.parse(self.source)):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    yield from self._of(node, first=function.name == "__init__")

    def _of(self, node: ast.AST, *, first: bool) -> Iterator[Change]:
        match node:
            case ast.Compare(left, [operator], [right]) if type(operator) in FLIPPED:
                old, new = FLIPPED[type(operator)]
                start, end = self.end(left), self.start(right)
                between = self.source[start:end].replace(old.encode(), new.encode())
                yield Change(self.path, start, end, between)
            case ast.BoolOp(operator, values):
                neutral = b"True" if isinstance(operator, ast.And) else b"False"
                yield from (self.replaced(value, neutral) for value in values)
            case ast.Call(ast.Name("min" | "max"), [_, _] as arguments, []):
                yield from (self.replaced(node, self.text(each)) for each in arguments)
            case ast.IfExp(body=body, orelse=other):
                yield from (self.replaced(node, self.text(each)) for each in (body, other))
            case ast.BinOp(left, ast.Add() | ast.Sub(), ast.Constant(1)):
                yield self.replaced(node, self.text(left))
            case ast.Expr(ast.Call()):
                yield self.replaced(node, b"pass")
            case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.AugAssign(
                ast.Attribute() | ast.Subscript()
            ) if not first:
                yield self.replaced(node, b"pass")


def changes_of(path: Path) -> list[Change]:
    """Return the changes of one source file, each once."""
    return list(dict.fromkeys(_File(path).changes()))


def drawn(seed: int, count: int) -> list[Change]:
    """Return ``count`` changes of the nodes that ``seed`` chooses."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
    files += [ROOT / name for name in FILES]
    every = [change for path in files for change in changes_of(path)]
    return random.Random(seed).sample(every, min(count, len(every)))


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", default=0, show_default=True)
@click.option("--count", default=60, show_default=True, help="Patches to make.")
def main(folder: Path, seed: int, count: int) -> None:
    """Write patches to FOLDER, named by seed and number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, change in enumerate(drawn(seed, count)):
        (folder / f"{seed}-{number:03d}.patch").write_text(change.patch())
    click.echo(f"{count} patches in {folder}; hunt them with kraftwreck mutants --patch")


if __name__ == "__main__":
    main()
