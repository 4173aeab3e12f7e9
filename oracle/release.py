"""The Apache Kafka release that is the oracle: its version, its jars, and their folder.

``artefacts.lock`` has one line per jar, ``group:artifact:version sha256``; the jars are in
``build/oracle/<version>``, which git ignores, under ``group.artifact-version.jar``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOCK: Final = Path(__file__).with_name("artefacts.lock")
POM: Final = Path(__file__).with_name("pom.xml")
FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "oracle"

_LINE: Final = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+) ([0-9a-f]{64})")


class OracleError(Exception):
    """Apache Kafka cannot be fetched or run here; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """One jar of the lock file; ``sha256`` is 64 hex digits."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The jar's name in the folder; the group makes it unique."""
        return f"{self.group}.{self.name}-{self.version}.jar"


def artefacts(lock: Path = LOCK) -> list[Artefact]:
    """Read the lock file. Raises :class:`OracleError` for a line it cannot have."""
    found = []
    for number, line in enumerate(lock.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise OracleError(f"{lock}, line {number}: not 'group:artifact:version sha256'")
        found.append(Artefact(*match.groups()))
    return found


def kafka_version(pom: Path = POM) -> str:
    """Return the release of Apache Kafka that is pinned, as ``"4.3.1"``."""
    match = re.search(r"<kafka\.version>([\w.-]+)</kafka\.version>", pom.read_text("utf-8"))
    if match is None:
        raise OracleError(f"{pom}: no kafka.version")
    return match[1]


def jar_folder() -> Path:
    """Return the folder of the pinned release's jars, once fetched."""
    return FOLDER / kafka_version()


def problem(folder: Path, wanted: list[Artefact]) -> str | None:
    """Return what is missing, wrong or surplus in ``folder``; None if it matches the lock."""
    there = {path.name for path in folder.glob("*.jar")}
    for artefact in wanted:
        if artefact.file_name not in there:
            return f"{artefact.file_name} is missing"
        digest = hashlib.sha256((folder / artefact.file_name).read_bytes()).hexdigest()
        if digest != artefact.sha256:
            return f"{artefact.file_name} has sha256 {digest}, the lock says {artefact.sha256}"
    for name in sorted(there - {artefact.file_name for artefact in wanted}):
        return f"{name} is not in the lock"
    return None


def class_path() -> str:
    """Return the class path of the fetched jars. Raises :class:`OracleError` without them."""
    folder = jar_folder()
    wanted = artefacts()
    for artefact in wanted:
        if not (folder / artefact.file_name).is_file():
            raise OracleError(f"Apache Kafka {kafka_version()} is not fetched: run make oracle")
    return f"{folder}/*"
