"""The data directory of a broker on this host: who uses it, stop that process, delete it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from kraftwreck.nodes.admin.failure import AdminError
from kraftwreck.nodes.log.format import FormatError, Meta, load_meta
from kraftwreck.nodes.log.layout import META_PROPERTIES
from kraftwreck.nodes.log.lock import LOCK_FILE

LOCKS: Final = Path("/proc/locks")


def owner(directory: Path, cluster_id: str) -> Meta | None:
    """Return the node that ``directory`` belongs to, None if the directory is deleted already.

    Raises AdminError if it is another cluster's, or no data directory at all.
    """
    with suppress(FileNotFoundError):
        if not any(directory.iterdir()):
            return None
        try:
            return load_meta(directory, cluster_id)
        except FormatError as error:
            raise AdminError(f"--data-dir {directory}: {error}") from error
    return None


def in_use(directory: Path) -> bool:
    """Return whether a process holds the directory's lock: one of ours, or Apache Kafka's."""
    try:
        lock = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as our nodes do
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as Java does
    except (BlockingIOError, PermissionError):
        return True
    finally:
        os.close(lock)
    return False


def user(directory: Path) -> int | None:
    """Return the id of the process that holds the directory's lock, None if it is unknown."""
    with suppress(OSError, ValueError):
        inode = (directory / LOCK_FILE).stat().st_ino
        for line in LOCKS.read_text().splitlines():
            # 1: FLOCK ADVISORY WRITE 3112 fe:01:262250 0 EOF; blocked ones have an arrow.
            fields = line.split()
            if "->" not in fields and int(fields[5].rpartition(":")[2]) == inode:
                process = int(fields[4])
                if process > 0 and _has_open(process, directory / LOCK_FILE):
                    return process
    return None


def _has_open(process: int, path: Path) -> bool:
    """Return whether the process has the file open: inodes alone are not unique."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):
            if descriptor.samefile(path):
                return True
    return False


def delete(directory: Path) -> bool:
    """Delete the directory. Its ``meta.properties`` goes last, so that a repetition knows it.

    Return False if a process still writes to it: Apache Kafka gives its lock up before it has
    closed its metadata log.
    """
    try:
        _delete(directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.ENOENT) and directory.exists():
            return False
        raise
    return True


def _delete(directory: Path) -> None:
    for path in sorted(directory.iterdir()):
        if path.name == META_PROPERTIES:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    (directory / META_PROPERTIES).unlink(missing_ok=True)
    directory.rmdir()
