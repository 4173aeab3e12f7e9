"""``python -m tests.interpreters.fetch``: bring CPython 3.12 and 3.13 into ``build/``.

Debian 12 has 3.11 only. The builds are those of the JavaCPP presets on Maven Central, which
Maven downloads; they must be exactly what :data:`PYTHONS` says. The packages that a simulated run
imports are installed beside them from ``requirements.lock``. Nothing is done if all exists.

Exit status: 0 it is there, 254 a tool or the network is missing, 255 it is not as locked.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "interpreters"
LOCK = ROOT / "requirements.lock"
PACKAGES = ("click", "crc32c", "msgspec", "numpy", "pyarrow", "typing-extensions")
"""Packages that a simulated run imports besides the standard library."""

MISSING, WRONG = 254, 255
TIMEOUT_S = 600
_INSIDE = "org/bytedeco/cpython/linux-x86_64/"


class FetchError(Exception):
    """Something is missing; one line."""


@dataclass(frozen=True, slots=True)
class Python:
    """One CPython: its ``version``, Maven's version of the build, and the jar's SHA-256."""

    version: str
    artefact: str
    sha256: str

    @property
    def folder(self) -> Path:
        """Where it lies, once fetched."""
        return FOLDER / self.version

    @property
    def executable(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / f"python{self.version}"

    @property
    def packages(self) -> Path:
        """The folder of the packages."""
        return self.folder / "packages"

    def environment(self) -> dict[str, str]:
        """Return the environment it needs to find its library, its modules and ours."""
        return {
            "PATH": os.defpath,
            "LD_LIBRARY_PATH": str(self.folder),
            "PYTHONHOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(self.packages), str(ROOT), str(self._metadata())]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _metadata(self) -> Path:
        """Return a folder with the entry points of this project, as they are installed here."""
        source = metadata.distribution("kraftwreck").locate_file("")
        folder = self.folder / "metadata"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for info in Path(str(source)).glob("kraftwreck-*.dist-info"):
            shutil.copytree(info, folder / info.name, dirs_exist_ok=True)
        return folder

    def stamp(self) -> str:
        """Return the stamp that ``ready`` compares; a different one is fetched again."""
        lines = "\n".join(locked(LOCK.read_text("utf-8")))
        return hashlib.sha256(f"{self}\n{lines}".encode()).hexdigest()

    @property
    def ready(self) -> bool:
        """Whether it is there, as it should be."""
        stamp = self.folder / "stamp"
        return stamp.is_file() and stamp.read_text("utf-8") == self.stamp()


PYTHONS = (
    Python(
        "3.12", "3.12.1-1.5.10", "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd"
    ),
    Python(
        "3.13", "3.13.5-1.5.12", "50ad91aa0baa57f0235bb666b87d8bf2a44e215d28c250de1030502906af143b"
    ),
)


def locked(lock: str) -> list[str]:
    """Return the lines of the lock that are about :data:`PACKAGES`, hashes included."""
    found: list[str] = []
    keep = False
    for line in lock.splitlines():
        named = re.match(r"([\w.-]+)==", line)
        if named is not None:
            keep = named[1].lower().replace("_", "-") in PACKAGES
        if keep and line.strip() and not line.startswith("#"):
            found.append(line)
    return found


def fetch(python: Python) -> None:
    """Download, verify and unpack one interpreter and its packages.

    Raises :class:`FetchError`, and ValueError when the jar is not the one that is pinned.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise FetchError(f"no CPython {python.version} is known for {platform.platform()}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        fresh = Path(name) / "python"
        _unpack(_download(python, Path(name)), fresh)
        _install(python, fresh)
        (fresh / "stamp").write_text(python.stamp(), "utf-8")
        if python.folder.exists():
            shutil.rmtree(python.folder)
        fresh.rename(python.folder)


def _download(python: Python, folder: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise FetchError("maven is missing: apt-get install maven")
    artefact = f"org.bytedeco:cpython:{python.artefact}:jar:linux-x86_64"
    _run(
        [
            *(maven, "-B", "-q", "dependency:copy", f"-Dartifact={artefact}"),
            *(f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"),
        ],
        folder,
    )
    jar = folder / f"cpython-{python.artefact}-linux-x86_64.jar"
    if not jar.is_file():
        raise FetchError(f"maven did not bring {jar.name}")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != python.sha256:
        raise ValueError(f"{jar.name} has sha256 {digest}, pinned is {python.sha256}")
    return jar


def _unpack(jar: Path, folder: Path) -> None:
    """Extract interpreter, libraries and standard library; no headers, tests or packages."""
    unwanted = re.compile(r"(include|share|libs)/|lib/python3\.\d+/(test|site-packages|idlelib)/")
    with zipfile.ZipFile(jar) as archive:
        for member in archive.infolist():
            inside = member.filename.removeprefix(_INSIDE)
            if inside == member.filename or not inside or unwanted.match(inside):
                continue
            target = folder / inside
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(member))
            if inside.startswith("bin/"):
                target.chmod(0o755)


def _install(python: Python, folder: Path) -> None:
    wanted = folder / "packages.lock"
    wanted.write_text("\n".join(locked(LOCK.read_text("utf-8"))) + "\n", "utf-8")
    uv = Path(sys.executable).parent / "uv"
    if not uv.exists():
        raise FetchError(f"{uv} is missing: run scripts/setup")
    _run(
        [
            *(str(uv), "pip", "install", "-q", "--python", sys.executable),
            *("--python-version", python.version, "--python-platform", "x86_64-manylinux_2_28"),
            *("--only-binary", ":all:", "--no-deps", "--require-hashes"),
            *("--target", str(folder / "packages"), "-r", str(wanted)),
        ],
        folder,
    )


def _run(command: list[str], folder: Path) -> None:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{name} was not done after {TIMEOUT_S} s: is the network up?") from None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no reason given"]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise FetchError(f"{name}: {errors[0][:300]}")


def main() -> int:
    """Fetch what is not there; return the exit status."""
    os.umask(0o022)
    status = 0
    for python in PYTHONS:
        if python.ready:
            continue
        try:
            print(f"setup: fetching CPython {python.version}", file=sys.stderr)
            fetch(python)
        except FetchError as error:
            print(f"setup: no CPython {python.version}: {error}", file=sys.stderr)
            status = status or MISSING
        except ValueError as error:
            print(f"setup: {error}", file=sys.stderr)
            status = WRONG
    return status


if __name__ == "__main__":
    sys.exit(main())
