"""The constants, bounds, factors and comparisons of a source file, and their mutants.

* ``constant``: a number of a module or class is halved and doubled; a power of two from 2**60 on
  stands for "for ever" and is left alone, as any larger number is the same;
* ``bound``: a number in a comparison, a sum or a call of min or max is halved and doubled. So is
  a positive number in place of an absent setting or key (``setting``, ``get``);
* ``factor``: a number in a product or a whole quotient is halved and doubled;
* ``comparison``: ``<`` becomes ``<=``, ``>`` becomes ``>=``, and back.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("constant", "bound", "factor", "comparison")
ENDLESS = 1 << 60
NO_NAMES: Mapping[str, float] = {}
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module; ``key`` stays the same when lines move.

    ``code`` is the digest of the function around it, without docstrings.
    """

    path: str
    kind: str
    index: int
    scope: str
    text: str
    change: str
    line: int
    last_line: int
    number: int
    code: str = ""

    @property
    def key(self) -> str:
        """Return what names the mutant in the record."""
        parts = (self.path, self.scope, self.kind, self.text, self.change, str(self.number))
        return " :: ".join(parts)


def number(node: ast.AST, names: Mapping[str, float] = NO_NAMES) -> float | None:
    """Return the value of a numeric expression (``10``, ``1 << 20``), else None. It may contain
    ``names`` with their values, and no others."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Load)
    if not all(isinstance(each, allowed) for each in ast.walk(node)):
        return None
    try:
        code = compile(ast.Expression(node), "", "eval")  # type: ignore[arg-type]
        value = eval(code, {}, dict(names))  # noqa: S307
    except (TypeError, ArithmeticError, NameError):
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
        value = number(child)
        kind = "" if value is None else _kind_of_number(parent, field, value)
        if kind:
            yield child, kind, scope, ast.unparse(parent), (parent, field, position)
        else:
            yield from _of_code(child, scope)


def _kind_of_number(parent: ast.AST, field: str, value: float) -> str:
    """Return the kind of a ``value`` in ``field`` of ``parent``; empty if it stays as it is."""
    if isinstance(parent, ast.BinOp):
        if isinstance(parent.op, ast.Mult | ast.FloorDiv):
            return "factor"
        return "bound" if isinstance(parent.op, ast.Add | ast.Sub) else ""
    if isinstance(parent, ast.Compare):
        return "bound" if any(type(operator) in FLIPPED for operator in parent.ops) else ""
    called = parent.func if isinstance(parent, ast.Call) and field == "args" else None
    name = getattr(called, "id", "") or getattr(called, "attr", "")
    if name in ("setting", "get") and value <= 0:
        return ""  # It stands for nothing.
    return "bound" if name in ("min", "max", "setting", "get") else ""


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


def module_name(path: str) -> str:
    """Return the name by which the project imports a file."""
    return f"kraftwreck.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def _codes(block: ast.AST, scope: str = "") -> Iterator[tuple[str, str]]:
    """Yield the scope and the code of each function, and of each class."""
    for node in ast.iter_child_nodes(block):
        inner = scope
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{scope}.{node.name}" if scope else node.name
            yield inner, ast.unparse(node)
        yield from _codes(node, inner)


class _NoDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Put ``...`` in the place of a text."""
        return node if not isinstance(node.value, ast.Constant) else ast.Expr(ast.Constant(...))


def digests(tree: ast.Module) -> dict[str, str]:
    """Return the digest of the code of each scope."""
    codes: dict[str, str] = {}
    for scope, code in _codes(_NoDocstrings().visit(tree)):
        codes[scope] = codes.get(scope, "") + code
    return {scope: sha256(code.encode()).hexdigest()[:8] for scope, code in codes.items()}


def mutants_of(path: Path, root: Path = ROOT) -> list[Mutant]:
    """Return the mutants of one source file below ``root``."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    name = str(path.relative_to(root))
    source = path.read_text()
    codes = digests(ast.parse(source))
    for index, (node, kind, scope, text, (parent, _, _)) in enumerate(places(ast.parse(source))):
        line, last = getattr(parent, "lineno", 0), getattr(parent, "end_lineno", 0)
        if kind == "comparison":
            changes = [f"{type(node).__name__} to {FLIPPED[type(node)].__name__}"]  # type: ignore[index]
        else:
            value = number(node) or 0
            if isinstance(value, int) and value >= ENDLESS and value & (value - 1) == 0:
                continue
            changes = [how for how in ("halved", "doubled") if changed(value, how) != value]
            text = text if kind == "constant" else f"{ast.unparse(node)} in {text}"
        for change in changes:
            seen[key := (scope, kind, text, change)] += 1
            code = codes.get(scope, "constant")
            found.append(
                Mutant(name, kind, index, scope, text, change, line, last, seen[key], code)
            )
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


def value_of(mutant: Mutant) -> float | None:
    """Return the value of a mutated constant, None if it is made from those of other modules."""
    tree = mutate((ROOT / mutant.path).read_text(), mutant)
    values: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            value = number(node.value, values)
            if isinstance(target, ast.Name) and value is not None:
                values[target.id] = value
    return values.get(mutant.scope)
