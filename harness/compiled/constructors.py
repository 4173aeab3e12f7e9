"""Write out the constructors of dataclasses, so that mypyc compiles them.

mypyc leaves generated constructors to the standard library, which makes interpreted functions. A
simulated second creates thousands of messages and effects, so this is worth it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

_DECORATORS: Final = {"dataclass(slots=True)", "dataclass(slots=True, eq=False)"}
"""Frozen dataclasses are skipped: a constructor compiled by mypyc cannot set their fields."""


class _NotPlainError(Exception):
    """A dataclass uses a feature that is not supported here."""


def spelled_out(source: str) -> str:
    """Return the module ``source`` with the constructors of its plain dataclasses written out."""
    lines = source.splitlines()
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    for node in sorted(classes, key=lambda each: -each.lineno):
        try:
            constructor = _constructor(node)
        except _NotPlainError:
            continue
        lines[node.end_lineno : node.end_lineno] = constructor
        at = node.decorator_list[0].lineno - 1
        lines[at] = lines[at].replace("slots=True", "slots=True, init=False")
    return "\n".join(lines) + "\n"


def _constructor(node: ast.ClassDef) -> list[str]:
    """Return the lines of a constructor of ``node``. Raises _NotPlainError."""
    methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    plain = (
        [ast.unparse(each) for each in node.decorator_list] == [d] and not node.bases
        for d in _DECORATORS
    )
    if not any(plain) or methods & {"__init__", "__post_init__"}:
        raise _NotPlainError
    parameters, settings = ["self"], []
    for parameter, value in _fields(node):
        name = parameter.partition(":")[0]
        parameters.append(parameter)
        settings.append(f"        self.{name} = {value}")
    if not settings:
        raise _NotPlainError
    return ["", f"    def __init__({', '.join(parameters)}) -> None:", *settings]


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield each field of ``node`` as a parameter, and the value it is set to."""
    for each in node.body:
        if not isinstance(each, ast.AnnAssign):
            continue
        if not isinstance(each.target, ast.Name) or "ClassVar" in ast.unparse(each.annotation):
            raise _NotPlainError
        name, kind = each.target.id, ast.unparse(each.annotation)
        if each.value is None:
            yield f"{name}: {kind}", name
        elif not (isinstance(each.value, ast.Call) and ast.unparse(each.value.func) == "field"):
            yield f"{name}: {kind} = {ast.unparse(each.value)}", name
        else:
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in each.value.keywords}
            if options.keys() - {"repr"} != {"default_factory"}:
                raise _NotPlainError
            made = f"({options['default_factory']})()"
            yield f"{name}: ({kind}) | None = None", f"{made} if {name} is None else {name}"
