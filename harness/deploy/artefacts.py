"""The files that a server consists of: pinned by version and SHA-256, fetched by ordinary tools.

Each kind knows how to download its files and how to lay them out below one folder, its prefix.
Addresses of registries come from the configuration of the tools (apt, pip, Maven, Go); none is
written here. :class:`kraftwreck.harness.deploy.cache.ArtefactCache` keeps what was fetched.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from kraftwreck.histories.exit_codes import BadInputError, CommandError

TOOL_TIMEOUT_S = 900.0
"""How long one tool may download or build."""


class ArtefactError(CommandError):
    """An artefact cannot be fetched, or is not what was pinned; one line."""


class MissingToolError(BadInputError):
    """A tool that fetches an artefact is not installed; one line with what to install."""


class Artefact(Protocol):
    """One part of a server. On hosts its files are below ``/opt/kraftwreck/artefacts/<name>``."""

    @property
    def name(self) -> str:
        """The name of its folder on hosts: letters, digits, ``.``, ``_`` and ``-``."""
        ...

    def identity(self) -> Sequence[str]:
        """Return all that decides its content, as lines; equal lines are the same artefact."""
        ...

    def download(self, folder: Path, scratch: Path) -> None:
        """Write its files into the empty ``folder``; tools may keep state in ``scratch``.

        Raises :class:`ArtefactError` or :class:`MissingToolError`.
        """
        ...

    def check(self, folder: Path) -> None:
        """Raise :class:`ArtefactError` if a downloaded file is not the pinned one."""
        ...

    def lay_out(self, folder: Path, prefix: Path) -> None:
        """Lay the downloaded files out in the empty ``prefix``, as hosts will have them."""
        ...


@dataclass(frozen=True, kw_only=True)
class DebianPackages:
    """Debian packages, extracted with ``dpkg-deb -x`` and never installed.

    ``packages`` maps ``name=version`` to the SHA-256 of the ``.deb``. Needed libraries that hosts
    may lack are in the list, too. Downloaded by ``apt-get download``: from the machine's own lists,
    or, if these do not have a version, from new ones in the cache.
    """

    name: str
    packages: Mapping[str, str]

    def identity(self) -> Sequence[str]:
        return ["debian", *_pairs(self.packages)]

    def download(self, folder: Path, scratch: Path) -> None:
        wanted = list(self.packages)
        require("apt-get", "apt")
        require("dpkg-deb", "dpkg")
        command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *wanted]
        try:
            run_tool(command, self.name, folder)
            return
        except ArtefactError:
            _empty(folder)
        own = scratch / "apt"
        options = []
        for option, path in (("State::lists", own / "lists"), ("Cache", own / "cache")):
            (path / "partial").mkdir(parents=True, exist_ok=True)
            (path / "archives" / "partial").mkdir(parents=True, exist_ok=True)
            options += ["-o", f"Dir::{option}={path}"]
        options += ["-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"]
        run_tool(["apt-get", "-qq", *options, "update"], self.name, folder)
        run_tool(["apt-get", "-qq", *options, "download", *wanted], self.name, folder)

    def check(self, folder: Path) -> None:
        check_digests(self.name, folder, self.packages)

    def lay_out(self, folder: Path, prefix: Path) -> None:
        for package in sorted(folder.glob("*.deb")):
            run_tool(["dpkg-deb", "-x", str(package), str(prefix)], self.name, folder)


@dataclass(frozen=True, kw_only=True)
class Jars:
    """Java archives from Maven repositories, all in one folder.

    ``jars`` maps ``group:artifact:version`` to the SHA-256 of the jar. Dependencies are not
    followed: the list is complete.
    """

    name: str
    jars: Mapping[str, str]

    def identity(self) -> Sequence[str]:
        return ["jars", *_pairs(self.jars)]

    def download(self, folder: Path, scratch: Path) -> None:
        require("mvn", "maven")
        for coordinates in self.jars:
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
            options = [f"-Dartifact={coordinates}:jar", f"-DoutputDirectory={folder}"]
            run_tool(["mvn", "-q", "-B", goal, *options], self.name, scratch)

    def check(self, folder: Path) -> None:
        check_digests(self.name, folder, self.jars)

    def lay_out(self, folder: Path, prefix: Path) -> None:
        shutil.copytree(folder, prefix, dirs_exist_ok=True)


@dataclass(frozen=True, kw_only=True)
class Wheels:
    """Python packages, installed by pip into the prefix, to be put on ``PYTHONPATH``.

    ``packages`` maps ``name==version`` to the SHA-256 of the wheel or source distribution.
    Dependencies are not followed: the list is complete.
    """

    name: str
    packages: Mapping[str, str]

    def identity(self) -> Sequence[str]:
        return ["wheels", *_pairs(self.packages)]

    def download(self, folder: Path, scratch: Path) -> None:
        self._pip("download", "--no-deps", "-d", str(folder), *self.packages, cwd=scratch)

    def check(self, folder: Path) -> None:
        check_digests(self.name, folder, self.packages)

    def lay_out(self, folder: Path, prefix: Path) -> None:
        files = [str(path) for path in sorted(folder.iterdir())]
        offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
        self._pip("install", *offline, "--target", str(prefix), *files, cwd=folder.parent)

    def _pip(self, command: str, *arguments: str, cwd: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        probe = subprocess.run([*pip, "--version"], capture_output=True, check=False)
        if probe.returncode != 0:
            raise MissingToolError(f"pip is missing: {sys.executable} -m ensurepip")
        run_tool([*pip, command, *arguments], self.name, cwd)


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A program built from Go modules; the prefix has the executable ``program``.

    ``files`` are the sources of a main module: ``go.mod``, ``go.sum``, which pins all modules it
    needs by version and hash, and Go files. ``command`` builds it; ``-o`` and the path are added.
    Without ``go.sum`` among the files, ``go mod tidy`` writes it: ``go_sum`` is its SHA-256.
    """

    name: str
    program: str
    files: Mapping[str, str]
    command: tuple[str, ...] = ("go", "build", "-trimpath")
    go_sum: str = ""

    def identity(self) -> Sequence[str]:
        texts = [f"{path} {sha256(text.encode())}" for path, text in sorted(self.files.items())]
        pinned = [f"go.sum {self.go_sum}"] if self.go_sum else []
        return ["go", self.program, *self.command, platform.machine(), *texts, *pinned]

    def download(self, folder: Path, scratch: Path) -> None:
        require(self.command[0], "golang-go")
        source = scratch / "source"
        source.mkdir(parents=True, exist_ok=True)
        for path, text in self.files.items():
            target = source / inside(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        if self.go_sum:
            run_tool([self.command[0], "mod", "tidy"], self.name, source)
            listed = source / "go.sum"
            found = file_sha256(listed) if listed.exists() else "of no file, as nothing is needed"
            if found != self.go_sum:
                raise ArtefactError(wrong_checksum(self.name, "go.sum", self.go_sum, found))
        built = folder / self.program
        run_tool([*self.command, "-o", str(built)], self.name, source)
        if not built.is_file():
            raise ArtefactError(f"{self.name}: `{self.command[0]}` built no {self.program}")

    def check(self, folder: Path) -> None:
        """Accept what was built: ``go.sum`` has pinned its sources, and Go has checked them."""

    def lay_out(self, folder: Path, prefix: Path) -> None:
        shutil.copy2(folder / self.program, prefix / self.program)


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files and folders of the control node, below the prefix under their own names.

    Their content identifies them; ``sha256`` may pin single files by name.
    """

    name: str
    paths: tuple[Path, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> Sequence[str]:
        lines = ["files"]
        for path in self.paths:
            if not path.exists():
                raise BadInputError(f"{self.name}: {path} does not exist")
            below = sorted(path.rglob("*")) if path.is_dir() else [path]
            for file in below:
                if file.is_file():
                    lines.append(f"{file.relative_to(path.parent)!s} {file_sha256(file)}")
        return lines

    def download(self, folder: Path, scratch: Path) -> None:
        for path in self.paths:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, symlinks=True)
            else:
                shutil.copy2(path, folder / path.name)

    def check(self, folder: Path) -> None:
        for name, pinned in self.sha256.items():
            found = file_sha256(folder / inside(name))
            if found != pinned:
                raise ArtefactError(wrong_checksum(self.name, name, pinned, found))

    def lay_out(self, folder: Path, prefix: Path) -> None:
        shutil.copytree(folder, prefix, symlinks=True, dirs_exist_ok=True)


def library_path(prefix: str) -> str:
    """Return ``LD_LIBRARY_PATH`` for Debian packages that were extracted below ``prefix``."""
    triplet = f"{platform.machine()}-linux-gnu"
    folders = (f"usr/lib/{triplet}", f"lib/{triplet}", "usr/lib")
    return ":".join(f"{prefix}/{folder}" for folder in folders)


# --- tools and digests ------------------------------------------------------------------


def require(tool: str, package: str) -> None:
    """Raise :class:`MissingToolError` unless ``tool`` is on ``PATH``."""
    if shutil.which(tool) is None:
        raise MissingToolError(f"{Path(tool).name} is missing: apt-get install {package}")


def run_tool(command: Sequence[str], what: str, cwd: Path) -> None:
    """Run a tool in ``cwd``. Raises :class:`ArtefactError` with the last line it printed."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, errors="replace",
            check=False, timeout=TOOL_TIMEOUT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ArtefactError(f"{what}: `{name}` did not end in {TOOL_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise ArtefactError(f"{what}: `{name}` cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ArtefactError(f"{what}: `{name}` failed: {_telling(said)}")


def _telling(lines: Sequence[str]) -> str:
    """Return the first line that is marked as an error, otherwise the last one."""
    marked = [line for line in lines if line.startswith(("E: ", "ERROR: ", "[ERROR] "))]
    return (marked[0] if marked else lines[-1] if lines else "no message").strip()


def check_digests(what: str, folder: Path, pins: Mapping[str, str]) -> None:
    """Raise :class:`ArtefactError` unless ``folder`` has exactly the files that are pinned.

    ``pins`` maps what was requested (``name=version``) to the SHA-256 of its file.
    """
    found = {path.name: file_sha256(path) for path in sorted(folder.iterdir())}
    digests = set(found.values())
    others = [name for name, digest in found.items() if digest not in pins.values()]
    for pin, digest in pins.items():
        if digest in digests:
            continue
        stem = _stem(pin)
        near = [name for name in others if name.lower().startswith(stem)] or others
        if not near:
            raise ArtefactError(f"{what}: no file was downloaded for {pin}")
        raise ArtefactError(wrong_checksum(what, near[0], digest, found[near[0]]))
    if others:
        raise ArtefactError(f"{what}: {others[0]} was downloaded, but is not pinned")


def _stem(pin: str) -> str:
    """Return how the file of ``group:artifact:version`` or ``name=version`` begins."""
    name = pin.partition("=")[0] if "=" in pin else pin.split(":")[-2]
    return name.lower().replace("-", "_") if "==" in pin else name.lower()


def wrong_checksum(what: str, file: str, pinned: str, found: str) -> str:
    """Return the message for a file that is not the pinned one."""
    return f"{what}: wrong checksum: {file} has SHA-256 {found}, pinned is {pinned}"


def sha256(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def inside(path: str) -> str:
    """Return a relative ``path``; raise :class:`BadInputError` if it leads outside its folder."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise BadInputError(f"{path!r} is not a path inside of the folder")
    return path


def _pairs(pins: Mapping[str, str]) -> list[str]:
    return [f"{what} {digest}" for what, digest in sorted(pins.items())]


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
