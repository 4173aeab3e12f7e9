"""Helper programs in Java: compiled once on the control node, kept as artefacts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.harness.deploy.artefacts import file_sha256, require, run_tool
from kraftwreck.harness.deploy.cache import ArtefactCache

JDK = "openjdk-17-jdk-headless"
FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A helper runs for a minute: no optimizing compiler, no helper threads of a collector."""


@dataclass(frozen=True, kw_only=True)
class JavaProgram:
    """The classes of one ``source``, whose main class has the name of the file.

    ``class_path`` returns what it is compiled against and runs with; ``pins`` change whenever these
    files do.
    """

    name: str
    source: Path
    class_path: Callable[[], str]
    pins: Sequence[str]

    def identity(self) -> Sequence[str]:
        """Return the digest of the source, and the pins."""
        return ["java", file_sha256(self.source), *self.pins]

    def download(self, folder: Path, scratch: Path) -> None:
        """Compile. Raises MissingToolError without a compiler."""
        require("javac", JDK)
        command = ["javac", "-proc:none", "-cp", self.class_path(), "-d", str(folder)]
        run_tool([*command, str(self.source)], self.name, scratch)

    def check(self, folder: Path) -> None:
        """Accept what was compiled: the identity has all that it depends on."""

    def lay_out(self, folder: Path, prefix: Path) -> None:
        """Copy the classes."""
        shutil.copytree(folder, prefix, dirs_exist_ok=True)

    def command(self, cache: ArtefactCache) -> Sequence[str]:
        """Return the command of the program without arguments; compile it unless it is cached."""
        classes = cache.fetch(self).tar.with_name("downloads")
        require("java", JDK)
        path = f"{classes}:{self.class_path()}"
        return ("java", *FLAGS, "-cp", path, self.source.stem)
