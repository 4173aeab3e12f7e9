"""A copy of the project with compiled modules, for long campaigns: ``kraftwreck sim --compiled``.

A copy is named after the digest of its sources, interpreter and compiler. After any change, also
by a planted bug, it is not used, and another one is made. ``PYTHONPATH`` puts the copy first, and
the interpreter prefers compiled modules to the sources beside them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, TextIO

from kraftwreck import nodes
from kraftwreck.harness.archive import IMPORT_ROOT, PACKAGE
from kraftwreck.harness.compiled import constructors, modules
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import importing_from, overlay
from kraftwreck.histories.exit_codes import CommandError

BUILD: Final = IMPORT_ROOT / "build" / "compiled"
PACKAGES: Final = (
    "checkers", "harness", "histories", "nemesis", "nodes", "simulation", "systems", "workloads"
)  # fmt: skip
"""The folders to copy: packages with compiled modules, and those they import. The command line and
the reports are imported from the project."""

_DONE: Final = "compiled-from"
"""A file that marks a complete copy; it holds the digest of its sources."""

_HOW: Final = "as root, scripts/setup --compile"


class CompileError(CommandError):
    """The modules could not be compiled; one line gives the reason and the log file."""


def in_use() -> bool:
    """Return whether this process imports its modules from a copy."""
    return (Path(nodes.__file__ or "").resolve().parents[2] / _DONE).is_file()


def sources(root: Path = PACKAGE) -> str:
    """Return the digest of everything a copy is made from: sources, interpreter and compiler."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        for path in sorted((root / name).rglob("*.py")):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    for how in (constructors, modules):
        digest.update(Path(how.__file__ or "").read_bytes())
    digest.update(f"{sys.implementation.cache_tag} {_version_of('mypy')}".encode())
    return digest.hexdigest()


def made(root: Path = PACKAGE, build: Path = BUILD) -> Path | None:
    """Return the copy made from the current sources, None if there is none."""
    folder = build / sources(root)[:16]
    return folder if (folder / _DONE).is_file() else None


def make(say: Callable[[str], None], root: Path = PACKAGE, build: Path = BUILD) -> Path:
    """Return the copy made from the current sources; if it is missing, make it (takes minutes).

    Older copies that no process uses are removed. Raises :class:`OptionError` if a tool is missing
    and :class:`CompileError` if the modules cannot be compiled.
    """
    found = made(root, build)
    if found is not None:
        return found
    _check_tools()
    with _alone(build):
        found = made(root, build)  # Another process made it meanwhile.
        if found is not None:
            return found
        fresh = build / "making"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        copy = overlay(fresh)
        for name in PACKAGES:
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        digest = sources(copy)  # The project may have changed meanwhile.
        count = sum(1 for _ in modules.chosen(copy))
        say(f"compiling {count} modules; takes some minutes, once for these sources")
        began = time.monotonic()
        _compile(fresh, build / "log")
        for left in ("build", ".mypy_cache"):
            shutil.rmtree(fresh / left, ignore_errors=True)
        (fresh / _DONE).write_text(digest)
        _remove_unused(build, fresh)
        say(f"compiled in {time.monotonic() - began:.0f} s")
        return fresh.rename(build / digest[:16])


def _remove_unused(build: Path, fresh: Path) -> None:
    for old in build.iterdir():
        if old == fresh or not old.is_dir():
            continue
        with (old / _DONE).open("a") as mark, suppress(BlockingIOError):
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old)


def go_on(module: str, arguments: Sequence[str], say: Callable[[str], None]) -> None:
    """Make sure that this process runs compiled modules; replace it if it does not.

    The new process is ``python -m module arguments`` and comes here again. Raises as :func:`make`,
    and OptionError for shells, which observe their nodes: compiled classes do not allow that.
    """
    if "--shells" in arguments:
        raise OptionError("--shells and --compiled cannot be combined")
    if in_use():
        _hold()
        return
    folder = make(say)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(  # noqa: S606  (there is no shell to ask)
        sys.executable, [sys.executable, "-m", module, *arguments], importing_from(folder)
    )


def _hold() -> None:
    """Lock the copy that this process uses until the process ends, so that it is not removed.

    Raises :class:`CompileError` if it imports nodes that are not compiled.
    """
    file = import_module("kraftwreck.nodes.node").__file__ or ""
    folder = Path(file).parents[2]
    if file.endswith(".py"):
        raise CompileError(f"{file}: not compiled; remove {folder} and try again")
    _held.append((folder / _DONE).open())
    fcntl.flock(_held[-1], fcntl.LOCK_SH)


_held: list[TextIO] = []


def _check_tools() -> None:
    for package in ("mypy", "setuptools"):
        if not _version_of(package):
            raise OptionError(f"--compiled needs {package}: pip install {package}")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise OptionError(f"--compiled needs the C compiler {compiler}: {_HOW}")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise OptionError(f"--compiled needs {header}: {_HOW} (apt-get install python3-dev)")


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _compile(folder: Path, log: Path) -> None:
    command = [sys.executable, "-m", "kraftwreck.harness.compiled.modules"]
    with log.open("wb") as output:
        status = subprocess.run(
            command, cwd=folder, env=importing_from(folder), stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, check=False,
        ).returncode  # fmt: skip
    if status != 0:
        said = [line for line in log.read_text(errors="replace").splitlines() if "rror" in line]
        raise CompileError(f"mypyc failed: {(said or ['no message'])[0][:200]} (full log: {log})")


@contextmanager
def _alone(build: Path) -> Iterator[None]:
    """Let one process at a time make a copy; the others wait and then use it."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Compile the current sources: ``make compiled``."""
    try:
        folder = make(lambda line: print(line, file=sys.stderr))
    except CommandError as error:
        print(f"kraftwreck: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(folder)


if __name__ == "__main__":
    main()
