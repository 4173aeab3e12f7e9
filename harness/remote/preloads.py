"""The libraries that give a process its own clocks and disks, compiled from C sources by gcc.

``clockwork.c`` is for the fault ``clock``, ``diskwork.c`` for ``disk``. The set-up compiles them
with ``python -m kraftwreck.harness.remote.preloads``; each is compiled again when its source has
changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftwreck.histories.exit_codes import BadInputError

SOURCES = Path(__file__).resolve().parent
BUILD = SOURCES.parents[1] / "build"
FAULTS = {"clockwork": "clock", "diskwork": "disk"}
"""The libraries, and the fault that needs each."""
CLOCKWORK = "/opt/kraftwreck/clockwork.so"
CLOCK = "/opt/kraftwreck/clock"
DISKWORK = "/opt/kraftwreck/diskwork.so"
DISK = "/opt/kraftwreck/disk"
"""The libraries on a host, and the files that say what they do."""
COMPILER = "gcc"
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC")
_TIMEOUT_S = 60


class ClockworkError(BadInputError):
    """The library cannot be compiled; one line with the reason and what to do."""


def library(build: Path = BUILD, name: str = "clockwork") -> bytes:
    """Return the shared library ``name``, compiling it in ``build`` if necessary.

    Raises :class:`ClockworkError`.
    """
    source = SOURCES / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + repr(_FLAGS).encode()).hexdigest()[:16]
    path = build / f"{name}-{digest}-{platform.machine()}.so"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise ClockworkError(
            f"the fault {FAULTS[name]!r} needs {COMPILER}, which is missing: "
            "apt-get install gcc libc6-dev"
        )
    with tempfile.TemporaryDirectory(prefix="kraftwreck-") as folder:
        made = Path(folder) / path.name
        command = [compiler, *_FLAGS, "-o", str(made), str(source), "-ldl", "-pthread"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise ClockworkError(
                f"{COMPILER} cannot compile the library of the fault {FAULTS[name]!r}: {said}"
            )
        content = made.read_bytes()
        try:
            build.mkdir(exist_ok=True)
            part = build / f"{path.name}.{os.getpid()}"
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            pass  # A read-only tree: compile it every time.
        return content


def libraries(*, clocks: bool, disks: bool) -> dict[str, bytes]:
    """Return the libraries for clocks and disks of their own, by their path on a host."""
    chosen = {}
    if clocks:
        chosen[CLOCKWORK] = library()
    if disks:
        chosen[DISKWORK] = library(name="diskwork")
    return chosen


def preloading(
    environment: Mapping[str, str], folders: Sequence[str], *, clocks: bool, disks: bool
) -> dict[str, Any]:
    """Return the fields of a service with this ``environment`` whose clocks, or files below the
    first one of ``folders``, faults can change."""
    preloaded = [*([CLOCKWORK] if clocks else []), *([DISKWORK] if disks else [])]
    if not preloaded:
        return {}
    own = environment.get("LD_PRELOAD", "")
    env = {**environment, "LD_PRELOAD": " ".join([*preloaded, own]).strip()}
    fields: dict[str, Any] = {"env": env}
    if clocks:
        fields["clock"] = env["KRAFTWRECK_CLOCK"] = CLOCK
    if disks:
        fields["disk"] = env["KRAFTWRECK_DISK"] = DISK
        env["KRAFTWRECK_DISK_FILES"] = folders[0]
    return fields


def main() -> int:
    """Compile the libraries; on failure print the reason in one line."""
    try:
        for name in FAULTS:
            library(name=name)
    except ClockworkError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
