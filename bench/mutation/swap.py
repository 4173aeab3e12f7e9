"""Put a mutant into a module that is already imported: its functions get other code."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

from bench.mutation.places import ROOT, Mutant, module_name, mutate
from bench.mutation.reach import JUDGES

Key = tuple[str, int, bytes]
"""Where a function is written: its qualified name, its first line, and its table of positions."""


def key_of(code: CodeType) -> Key:
    """Return where ``code`` is written."""
    return code.co_qualname, code.co_firstlineno, code.co_linetable


def flat(code: CodeType) -> list[CodeType]:
    """Return ``code`` and all code inside it, in a fixed order."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(found for each in inner for found in flat(each))]


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what ``code`` does itself, without the functions inside it."""
    constants = [(type(c), c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, repr(constants)


@cache
def _original(path: str) -> tuple[str, list[CodeType]]:
    source = (ROOT / path).read_text()
    return source, flat(compile(source, path, "exec", dont_inherit=True))


def replacements(mutant: Mutant) -> dict[Key, CodeType]:
    """Return the new code of the mutant's functions, by where they are written.

    Empty if the change is outside of functions: it shows in a module that is imported afterwards.
    """
    source, old = _original(mutant.path)
    new = flat(compile(mutate(source, mutant), mutant.path, "exec", dont_inherit=True))
    changed = [one for one, other in zip(old, new, strict=True) if _own(one) != _own(other)]
    if not changed or not all(code.co_flags & inspect.CO_OPTIMIZED for code in changed):
        return {}
    return {key_of(one): other for one, other in zip(old, new, strict=True) if one != other}


def import_judges() -> None:
    """Import every module that judges: some are otherwise imported only when they are used.

    A mutant in such a module would never be put in, as the tests run in forked processes.
    """
    for path in sorted(path for folder in JUDGES for path in folder.rglob("*.py")):
        importlib.import_module(module_name(str(path.relative_to(ROOT))))


def functions() -> dict[str, list[FunctionType]]:
    """Return all functions that judge by file; it thaws frozen objects, which cannot be listed."""
    gc.unfreeze()
    found: dict[str, list[FunctionType]] = {}
    folders = [f"/{folder.relative_to(ROOT)}/" for folder in JUDGES]
    for each in gc.get_objects():
        if not isinstance(each, FunctionType):
            continue
        if any(folder in each.__code__.co_filename for folder in folders):
            path = str(Path(each.__code__.co_filename).resolve().relative_to(ROOT))
            found.setdefault(path, []).append(each)
    return found


def swap(mine: Iterable[FunctionType], new: Mapping[Key, CodeType]) -> int:
    """Give the functions of a module the code ``new``; return how many were changed."""
    count = 0
    for function in mine:
        code = function.__code__
        if other := new.get(key_of(code)):
            function.__code__ = other.replace(co_filename=code.co_filename)
            count += 1
    return count
