"""Download the pinned jars of Apache Kafka: ``python -m kraftwreck.oracle.fetch``.

Maven resolves and downloads them from its configured repositories; the result must match
``artefacts.lock`` exactly. Nothing is done if all jars are present. ``--lock`` rewrites the lock
from the versions that Maven resolves, after a change of ``pom.xml``.

Exit status: 0 the jars are present, 254 a tool or the network is missing, 255 a jar does not match
the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED
from kraftwreck.oracle.java import find_java
from kraftwreck.oracle.release import (
    LOCK,
    POM,
    Artefact,
    OracleError,
    artefacts,
    jar_folder,
    kafka_version,
    problem,
)

TIMEOUT_S: Final = 900
_RESOLVED: Final = re.compile(r"\s*([\w.-]+):([\w.-]+):jar:([\w.-]+):(?:compile|runtime)\b.*")


def download(folder: Path) -> list[tuple[str, str, str]]:
    """Let Maven copy all jars into ``folder``; return the (group, artifact, version) of each.

    Raises :class:`OracleError` without Maven, and with the first error that Maven reports.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleError("maven is missing: apt-get install maven, then make oracle again")
    listing = folder / "resolved.txt"
    command = [
        *(maven, "-B", "-q", "-f", str(POM)),
        *("dependency:list", "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", "-Dmdep.prependGroupId=true"),
        *(f"-DoutputFile={listing}", f"-DoutputDirectory={folder}"),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise OracleError(
            f"maven did not finish within {TIMEOUT_S} s: is the network up?"
        ) from None
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        said = re.sub(r"\x1b\[[0-9;]*m", "", errors[0] if errors else done.stderr.strip())
        raise OracleError(f"maven could not fetch Apache Kafka: {said[:400]}")
    text = re.sub(r"\x1b\[[0-9;]*m", "", listing.read_text("utf-8"))
    listing.unlink()
    found = [match.groups() for match in map(_RESOLVED.fullmatch, text.splitlines()) if match]
    return sorted((group, name, version) for group, name, version in found)


def fetch(folder: Path, wanted: list[Artefact]) -> str:
    """Make ``folder`` hold exactly ``wanted``; return a description of the changes.

    Raises :class:`OracleError` if the download fails, ValueError if a jar does not match the lock.
    """
    find_java()
    if folder.is_dir() and problem(folder, wanted) is None:
        return f"Apache Kafka {kafka_version()} is there"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fresh = Path(name) / "jars"
        fresh.mkdir()
        download(fresh)
        wrong = problem(fresh, wanted)
        if wrong is not None:
            raise ValueError(f"the fetched jars do not match the lock: {wrong}")
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    return f"Apache Kafka {kafka_version()} fetched: {len(wanted)} jars"


def write_lock() -> str:
    """Resolve ``pom.xml`` and write the result as the new lock."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = ["# Written by kraftwreck.oracle.fetch --lock from pom.xml; see docs/oracle.md."]
        for group, artifact, version in download(folder):
            jar = Artefact(group, artifact, version, "")
            digest = hashlib.sha256((folder / jar.file_name).read_bytes()).hexdigest()
            lines.append(f"{group}:{artifact}:{version} {digest}")
    LOCK.write_text("\n".join(lines) + "\n", "utf-8")
    return f"{LOCK} has {len(lines) - 1} artefacts"


def main() -> int:
    """Fetch, or write the lock; return the exit status."""
    parser = argparse.ArgumentParser(prog="kraftwreck.oracle.fetch")
    parser.add_argument("--lock", action="store_true", help="rewrite artefacts.lock")
    options = parser.parse_args()
    os.umask(0o022)
    try:
        print(
            f"oracle: {write_lock() if options.lock else fetch(jar_folder(), artefacts())}",
            file=sys.stderr,
        )
    except OracleError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    except ValueError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
