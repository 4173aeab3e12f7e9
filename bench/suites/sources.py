"""The sources of the suites: fetched, and pinned by version and SHA-256; nothing of them is kept.

They are unpacked below ``build/suites``, which git ignores.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "suites"
FETCH_S = 540.0
APT = Path("/etc/apt")


@dataclass(frozen=True)
class Source:
    """One archive; ``fetch`` puts it into a folder, ``folder`` is what it unpacks to."""

    name: str
    version: str
    archive: str
    folder: str
    sha256: str
    fetch: Callable[[Source, Path], None]


def _by_pip(source: Source, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    _call([*command, "-d", str(folder), f"{source.name}=={source.version}"], folder)


def _by_apt(source: Source, folder: Path) -> None:
    """Fetch Debian's source package, through lists of our own: most machines have none of them."""
    sources = folder / "sources"
    sources.mkdir()
    for path in (APT / "sources.list.d").glob("debian*.sources"):
        text = re.sub(r"(?m)^Types:.*$", "Types: deb-src", path.read_text())
        (sources / path.name).write_text(text)
    plain = APT / "sources.list"
    if plain.exists():
        text = re.sub(r"(?m)^deb ", "deb-src ", plain.read_text())
        (sources / "plain.list").write_text(text)
    (folder / "lists" / "partial").mkdir(parents=True)
    options = [
        *("-o", f"Dir::Etc::SourceParts={sources}", "-o", "Dir::Etc::SourceList=/dev/null"),
        *("-o", f"Dir::State::Lists={folder}/lists", "-o", "APT::Sandbox::User=root"),
    ]
    _call(["apt-get", "-qq", *options, "update"], folder)
    wanted = f"{source.name}={source.version}"
    _call(["apt-get", "-qq", *options, "source", "--download-only", wanted], folder)


def _call(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is missing; the suites need Debian's tools") from None
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


KAFKA_PYTHON = Source(
    "kafka-python",
    "3.0.12",
    "kafka_python-3.0.12.tar.gz",
    "kafka_python-3.0.12",
    "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
    _by_pip,
)
LIBRDKAFKA = Source(
    "librdkafka",
    "2.0.2-1",
    "librdkafka_2.0.2.orig.tar.gz",
    "librdkafka-2.0.2",
    "f321bcb1e015a34114c83cf1aa7b99ee260236aab096b85c003170c90a47ca9d",
    _by_apt,
)


def unpacked(source: Source) -> Path:
    """Return the folder of the source, fetched if it is not there yet."""
    folder = FOLDER / source.folder
    if folder.exists():
        return folder
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        source.fetch(source, Path(scratch))
        archive = Path(scratch) / source.archive
        check(archive, source)
        # Not by tarfile: Debian's Python 3.11.2 has no filter that keeps members inside.
        _call(["tar", "--no-same-owner", "-xf", str(archive)], Path(scratch))
        (Path(scratch) / source.folder).rename(folder)
    return folder


def check(archive: Path, source: Source) -> None:
    """Refuse an archive that is not the pinned one."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != source.sha256:
        raise SystemExit(f"{archive.name} has SHA-256 {found}, pinned is {source.sha256}")
