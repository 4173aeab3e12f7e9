"""A copy of the project with compiled modules, for long campaigns: ``kraftwreck sim --compiled``.

A copy is named after the sources it was made of, its interpreter and its compiler, and used for
no others: whoever changes a line, by a planted bug too, gets another one or none. The interpreter
finds it first (``PYTHONPATH``); the sources beside the compiled modules are read by nobody.
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

import nodes
from harness.options import OptionError
from histories.exit_codes import CommandError
from kraftwreck import compiled_constructors, compiled_modules

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "compiled"
PACKAGES: Final = (
    "checkers", "harness", "histories", "nemesis", "nodes", "simulation", "systems", "workloads"
)  # fmt: skip
"""What is copied: packages with compiled modules, and those they import. The command line and
reports are those of the project."""

_DONE: Final = "compiled-from"
"""A file of a copy that is whole; it holds the digest of its sources."""

_HOW: Final = "as root, scripts/setup --compile"


class CompileError(CommandError):
    """The modules could not be compiled; one line says why and where more is said."""


def in_use() -> bool:
    """Say whether this process takes its modules from a copy."""
    return (Path(nodes.__file__ or "").resolve().parents[1] / _DONE).is_file()


def sources(root: Path = ROOT) -> str:
    """Return the digest of all that a copy is made of: sources, interpreter and compiler."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        for path in sorted((root / name).rglob("*.py")):
            digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    for how in (compiled_constructors, compiled_modules):
        digest.update(Path(how.__file__ or "").read_bytes())
    digest.update(f"{sys.implementation.cache_tag} {_version_of('mypy')}".encode())
    return digest.hexdigest()


def made(root: Path = ROOT, build: Path = BUILD) -> Path | None:
    """Return the copy that was made of the sources as they are now, None if there is none."""
    folder = build / sources(root)[:16]
    return folder if (folder / _DONE).is_file() else None


def make(tell: Callable[[str], None], root: Path = ROOT, build: Path = BUILD) -> Path:
    """Return the copy made of the sources as they are now, making it if need be: minutes.

    Older copies that nobody runs are removed. Raises :class:`OptionError` if a tool is missing and
    :class:`CompileError` if the modules cannot be compiled.
    """
    found = made(root, build)
    if found is not None:
        return found
    _check_tools()
    with _alone(build):
        found = made(root, build)  # By another process, meanwhile.
        if found is not None:
            return found
        fresh = build / "making"
        shutil.rmtree(fresh, ignore_errors=True)
        for name in PACKAGES:
            shutil.copytree(root / name, fresh / name, ignore=shutil.ignore_patterns("__pycache__"))
        digest = sources(fresh)  # Somebody may be writing in the project.
        count = sum(1 for _ in compiled_modules.chosen(fresh))
        tell(f"compiling {count} modules, once for these sources: some minutes")
        began = time.monotonic()
        _compile(fresh, build / "log")
        for left in ("build", ".mypy_cache"):
            shutil.rmtree(fresh / left, ignore_errors=True)
        (fresh / _DONE).write_text(digest)
        _remove_unused(build, fresh)
        tell(f"compiled in {time.monotonic() - began:.0f} s")
        return fresh.rename(build / digest[:16])


def _remove_unused(build: Path, fresh: Path) -> None:
    for old in build.iterdir():
        if old == fresh or not old.is_dir():
            continue
        with (old / _DONE).open("a") as mark, suppress(BlockingIOError):
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which an interpreter takes the modules of the copy ``folder``."""
    return os.environ | {"PYTHONPATH": f"{folder}:{ROOT}", "PYTHONSAFEPATH": "1"}


def go_on(module: str, arguments: Sequence[str], tell: Callable[[str], None]) -> None:
    """Return in a process with compiled modules: in this one, or else in ``python -m module
    arguments``, which replaces it and comes here again. Raises as :func:`make`.
    """
    if in_use():
        _hold()
        return
    folder = make(tell)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(  # noqa: S606  (there is no shell to ask)
        sys.executable, [sys.executable, "-m", module, *arguments], environment(folder)
    )


def _hold() -> None:
    """Keep the copy that this process runs from being removed, until the process ends.

    Raises :class:`CompileError` if it imports nodes that are not compiled.
    """
    file = import_module("nodes.node").__file__ or ""
    if file.endswith(".py"):
        raise CompileError(f"{file}: not compiled; remove {BUILD} and try again")
    _held.append((Path(file).parents[1] / _DONE).open())
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
    command = [sys.executable, "-m", "kraftwreck.compiled_modules"]
    with log.open("wb") as output:
        status = subprocess.run(
            command, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, check=False,
        ).returncode  # fmt: skip
    if status != 0:
        said = [line for line in log.read_text(errors="replace").splitlines() if "rror" in line]
        raise CompileError(f"mypyc failed: {(said or ['no message'])[0][:200]} (all of it: {log})")


@contextmanager
def _alone(build: Path) -> Iterator[None]:
    """Let one process at a time make a copy; another waits, and finds it made."""
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Make the copy of the sources as they are: ``make compiled``."""
    try:
        folder = make(lambda line: print(line, file=sys.stderr))
    except CommandError as error:
        print(f"kraftwreck: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(folder)


if __name__ == "__main__":
    main()
