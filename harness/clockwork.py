"""The library that gives a node clocks of its own, made from ``clockwork.c`` by gcc.

``python -m harness.clockwork`` makes it, which the set-up does; it is made again when the
source has changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
BUILD = SOURCE.parents[1] / "build"
COMPILER = "gcc"
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC")
_TIMEOUT_S = 60


class ClockworkError(Exception):
    """The library cannot be made; one line says why and what to do."""


def library(build: Path = BUILD) -> bytes:
    """Return the shared library, made in ``build`` if it is not there yet.

    Raises :class:`ClockworkError`.
    """
    digest = hashlib.sha256(SOURCE.read_bytes() + repr(_FLAGS).encode()).hexdigest()[:16]
    path = build / f"clockwork-{digest}-{platform.machine()}.so"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise ClockworkError(
            f"the fault 'clock' needs {COMPILER}, which is not there: apt-get install gcc libc6-dev"
        )
    with tempfile.TemporaryDirectory(prefix="kraftwreck-") as folder:
        made = Path(folder) / path.name
        command = [compiler, *_FLAGS, "-o", str(made), str(SOURCE), "-ldl", "-pthread"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise ClockworkError(f"{COMPILER} cannot make the library of the fault 'clock': {said}")
        content = made.read_bytes()
        try:
            build.mkdir(exist_ok=True)
            part = build / f"{path.name}.{os.getpid()}"
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            pass  # A tree that cannot be written: made anew each time.
        return content


def main() -> int:
    """Make the library; say in one line why that cannot be."""
    try:
        library()
    except ClockworkError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
