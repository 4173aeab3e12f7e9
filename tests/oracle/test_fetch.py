"""Apache Kafka is fetched exactly as locked, or one line says why it is not."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.oracle.fetch import fetch
from kraftwreck.oracle.release import (
    LOCK,
    Artefact,
    OracleError,
    artefacts,
    kafka_version,
    problem,
)

ROOT = Path(__file__).resolve().parents[2]


def artefact(content: bytes) -> Artefact:
    return Artefact("org.example", "thing", "1.0", hashlib.sha256(content).hexdigest())


def test_the_lock_pins_the_server_the_tools_and_the_clients_of_one_release() -> None:
    locked = {a.name: a.version for a in artefacts() if a.group == "org.apache.kafka"}
    assert {"kafka_2.13", "kafka-tools", "kafka-clients", "kafka-raft"} <= set(locked)
    assert set(locked.values()) == {kafka_version()}
    assert kafka_version().startswith("4.")


def test_every_artefact_has_a_file_of_its_own() -> None:
    names = [a.file_name for a in artefacts()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "line", ["org.example:thing 1.0", "org.example:thing:1.0 0123", "../x:thing:1/0 " + "0" * 64]
)
def test_a_line_that_is_not_a_coordinate_and_a_digest_is_refused(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f"# comment\n\n{line}\n")
    with pytest.raises(OracleError, match=r"lock, line 3: not"):
        artefacts(lock)


def test_committed_files_name_no_registry() -> None:
    for path in (LOCK, LOCK.with_name("pom.xml")):
        assert "<repository>" not in path.read_text()
    assert "http" not in LOCK.read_text()


def test_present_files_must_match_the_lock(tmp_path: Path) -> None:
    wanted = [artefact(b"right")]
    jar = tmp_path / wanted[0].file_name
    assert problem(tmp_path, wanted) == f"{jar.name} is missing"
    jar.write_bytes(b"wrong")
    assert "sha256" in (problem(tmp_path, wanted) or "")
    jar.write_bytes(b"right")
    assert problem(tmp_path, wanted) is None
    (tmp_path / "more.jar").write_bytes(b"")
    assert problem(tmp_path, wanted) == "more.jar is not in the lock"


def run_fetch(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraftwreck.oracle.fetch"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_java_one_line_says_so(tmp_path: Path) -> None:
    done = run_fetch(str(tmp_path))
    assert done.returncode == 254
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("oracle: java is missing: apt-get install")


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    done = run_fetch(str(tmp_path))
    assert done.returncode == 254
    assert "is not Java 17 or newer" in done.stderr


def fake_maven(folder: Path, script: str) -> None:
    maven = folder / "mvn"
    maven.write_text(f"#!/bin/sh\n{script}\n")
    maven.chmod(0o755)


def test_failed_downloads_by_maven_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_maven(tmp_path, "echo '[ERROR] Could not resolve: unknown host'; echo more; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(OracleError, match=r"could not fetch Apache Kafka: \[ERROR\] Could not"):
        fetch(tmp_path / "jars", [artefact(b"")])


def test_downloaded_files_must_match_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = artefact(b"right")
    fake_maven(
        tmp_path,
        'for a; do case "$a" in -DoutputFile=*) : >"${a#*=}";; -DoutputDirectory=*) d="${a#*=}";;'
        f' esac; done; printf wrong >"$d/{wanted.file_name}"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ValueError, match="do not match the lock"):
        fetch(tmp_path / "jars", [wanted])
    assert not (tmp_path / "jars").exists()
    fake_maven(
        tmp_path,
        'for a; do case "$a" in -DoutputFile=*) : >"${a#*=}";; -DoutputDirectory=*) d="${a#*=}";;'
        f' esac; done; printf right >"$d/{wanted.file_name}"',
    )
    assert "1 jars" in fetch(tmp_path / "jars", [wanted])
    assert "is there" in fetch(tmp_path / "jars", [wanted])
