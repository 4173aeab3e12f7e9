"""Replace a small file so that a crash leaves the old content or the new, never a mixture."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


def replace_file(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path``, fsync, rename over ``path``, fsync the directory.

    Raises OSError with ``path`` unchanged; only if the last fsync fails it may hold either.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        # O_TRUNC takes care of what an earlier crash has left.
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_fully(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def write_fully(fd: int, data: bytes) -> None:
    """write(2) all of ``data``; on OSError a part of it may have been written."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def fsync_directory(directory: Path) -> None:
    """Make names created, renamed or removed in ``directory`` durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
