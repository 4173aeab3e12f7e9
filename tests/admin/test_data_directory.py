"""Data directories: who they belong to, who uses them, and how they are deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.nodes.admin.data_directory import delete, in_use, owner, user
from kraftwreck.nodes.admin.failure import AdminError
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.log.lock import DirectoryLock

HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
getattr(fcntl, sys.argv[2])(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    format_directory(directory, "cluster", 4)
    (directory / "t-0").mkdir()
    (directory / "t-0" / "00000000000000000000.log").write_bytes(b"records")
    return directory


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_the_process_that_holds_the_lock_is_found(data: Path, kind: str) -> None:
    """Our nodes use flock, Java uses POSIX locks."""
    assert not in_use(data)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data / ".lock"), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        assert in_use(data)
        assert user(data) == holder.pid
    finally:
        holder.communicate(b"")
    assert not in_use(data)
    assert user(data) is None


def test_a_node_s_own_lock_is_seen(data: Path) -> None:
    lock = DirectoryLock(data)
    assert in_use(data)
    assert user(data) == os.getpid()
    lock.release()
    assert not in_use(data)


def test_a_directory_of_another_cluster_or_of_none_is_refused(data: Path, tmp_path: Path) -> None:
    found = owner(data, "cluster")
    assert found is not None
    assert found.node_id == 4
    with pytest.raises(AdminError, match="belongs to cluster cluster, not other"):
        owner(data, "other")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "photo.jpg").write_bytes(b"precious")
    with pytest.raises(AdminError, match=r"home is not formatted: it has no meta\.properties"):
        owner(tmp_path / "home", "cluster")


def test_a_deletion_that_was_killed_is_finished_by_the_next(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that names the owner goes last, so the rest is still known as the broker's."""
    (data / "z-0").mkdir()

    def killed(path: str | Path) -> None:
        raise KeyboardInterrupt(path)

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            delete(data)
    assert owner(data, "cluster") is not None
    delete(data)
    assert not data.exists()
    assert owner(data, "cluster") is None


def test_a_directory_that_is_still_written_to_is_deleted_later(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = data / "t-0" / "late"
    rmdir = os.rmdir

    def written_to(path: str | Path, *, dir_fd: int | None = None) -> None:
        if Path(path).name == "t-0" and not late.exists():
            monkeypatch.undo()
            late.touch()
        rmdir(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", written_to)
    assert not delete(data)
    assert owner(data, "cluster") is not None, "the command can be repeated"
    assert delete(data)
    assert not data.exists()
