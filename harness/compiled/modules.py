"""Compile the modules in the current folder: ``python -m kraftwreck.harness.compiled.modules``.

mypyc (mypyc.readthedocs.io) turns typed modules into C. Compiled modules behave like interpreted
ones, except that annotated types are checked at run time. All modules are one group, so that they
call each other without the interpreter.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

from kraftwreck.harness.compiled.constructors import spelled_out

COMPILED: Final = (
    "checkers/kraft/controller_model",
    "checkers/kraft/conformance.py",
    "checkers/kraft/quorum_model",
    "checkers/kraft/rule.py",
    "checkers/kraft/invariants",
    "checkers/kraft/recorded",
    "checkers/recorded",
    "checkers/findings.py",
    "checkers/kraft/recovery.py",
    "checkers/stats.py",
    "checkers/kraft/topics.py",
    "harness/simulated",
    "harness/triggers.py",
    "systems/kraft/faults/voter_changes.py",
    "nemesis/coverage.py",
    "nemesis/cuts.py",
    "nemesis/generator.py",
    "nemesis/inject.py",
    "nemesis/plan.py",
    "nemesis/possible.py",
    "nemesis/relays.py",
    "nemesis/schedule.py",
    "nemesis/storms.py",
    "nemesis/timed.py",
    "nemesis/triggers.py",
    "nodes/broker",
    "nodes/consensus",
    "nodes/draw.py",
    "nodes/local_quorum.py",
    "nodes/log",
    "nodes/metadata",
    "nodes/node.py",
    "nodes/node_config.py",
    "nodes/protocol",
    "nodes/server/plain.py",
    "nodes/server/quorum_requests.py",
    "nodes/server/quorum_responses.py",
    "nodes/server/shapes.py",
    "nodes/server/storage.py",
    "nodes/server/wire.py",
    "simulation",
    "systems/kraft/simulated",
)
"""Modules and folders that are compiled: those in which a simulated run and its checkers spend
their time."""

INTERPRETED: Final = {
    "checkers/recorded/run_data.py": "a property that is set in a dataclass with weak references",
    "checkers/recorded/stored_events.py": "a Sequence: isinstance would take any list for one",
    "harness/simulated/core.py": "classes that users' own classes derive from",
    "harness/simulated/core_run.py": "runs cores, which are interpreted",
    "simulation/plain.py": "for cores, which are interpreted",
    "systems/kraft/simulated/campaign.py": "a dataclass with slots whose base is not compiled",
    "systems/kraft/simulated/defects.py": "a class derived from list",
    "systems/kraft/simulated/knobs.py": "a msgspec.Struct whose base is a struct of ours",
    "systems/kraft/simulated/simulator.py": "it holds classes that are not compiled",
    "nodes/log/lock.py": "an error derived from one that is built in",
    "simulation/instant_loop.py": "a loop derived from that of asyncio",
    "simulation/fence.py": "an error derived from one that is built in",
}
"""Modules that stay interpreted, and why."""

_MYPY: Final = ("--config-file=", "--follow-imports=silent", "--ignore-missing-imports")
_OPTIMISATION: Final = "1"
"""Level of the C compiler; level 3 compiles half as long again, and the result is no faster."""


def chosen(root: Path) -> Iterator[str]:
    """Yield the modules below ``root`` to compile, as sorted paths relative to it."""
    for where in COMPILED:
        for path in sorted((root / where).rglob("*.py")) or sorted(root.glob(where)):
            name = path.relative_to(root).as_posix()
            if path.name in ("__init__.py", "__main__.py") or name in INTERPRETED:
                continue
            if not _has_struct(path.read_text()):
                yield name


def _has_struct(source: str) -> bool:
    """Return whether ``source`` defines a msgspec.Struct, whose metaclass takes keyword arguments
    that mypyc does not pass on."""
    return any(
        isinstance(node, ast.ClassDef) and any("Struct" in ast.unparse(base) for base in node.bases)
        for node in ast.walk(ast.parse(source))
    )


def main() -> None:
    """Compile the modules below the current folder, which must be a copy, beside their sources."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools._distutils.ccompiler import CCompiler

    one_by_one = CCompiler.compile

    def side_by_side(self: Any, sources: Sequence[str], **options: Any) -> list[str]:
        """Compile the sources of an extension with all processors; distutils takes turns."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = pool.map(lambda source: one_by_one(self, [source], **options), sources)
            return [path for made in objects for path in made]

    setattr(CCompiler, "compile", side_by_side)  # noqa: B010  # mypy refuses to assign a method
    if Path("pyproject.toml").exists():
        sys.exit("this changes sources and works in a copy only; use kraftwreck sim --compiled")
    modules = [f"kraftwreck/{name}" for name in chosen(Path("kraftwreck"))]
    for module in map(Path, modules):
        module.write_text(spelled_out(module.read_text()))
    extensions = mypycify(
        [*_MYPY, *modules],
        opt_level=_OPTIMISATION,
        multi_file=True,
        group_name="kraftwreck",
    )
    setup(
        name="kraftwreck-compiled",
        packages=[],
        py_modules=[],
        ext_modules=cast(Any, extensions),
        script_args=["build_ext", "--inplace"],
    )


if __name__ == "__main__":
    main()
