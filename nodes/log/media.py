"""The plain file system, through which every change of a node's files goes.

Only :meth:`File.fsync` (contents) and :meth:`Media.fsync_directory` (names) promise durability; a
crash leaves what these two cover. :class:`nodes.log.write_loss.WriteLossMedia` enforces that.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from kraftwreck.nodes.log.lock import DirectoryLock

TEMPORARY_SUFFIX: Final = ".tmp"
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk that is full."""
Buffer = bytes | bytearray | memoryview


class Lock(Protocol):
    """A lock that keeps other processes out of a data directory."""

    def check(self) -> None:
        """Raise OSError if it was released."""
        ...

    def release(self) -> None:
        """Release the lock; may be repeated."""
        ...


class File:
    """A file open for appending, reading and cutting. All methods raise OSError."""

    def __init__(self, path: Path, flags: int) -> None:
        # O_APPEND: after a cut the next write goes to the new end.
        flags |= os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)

    def append(self, data: Buffer) -> None:
        """Add all of ``data`` at the end; on OSError a part of it may have been written."""
        write_fully(self.write, data)

    def write(self, data: Buffer) -> int:
        """write(2) a beginning of ``data`` at the end; return its length, which may be short."""
        return os.write(self._fd, data)

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position`` on."""
        return os.pread(self._fd, size, position)

    def truncate(self, length: int) -> None:
        """Cut the file to its first ``length`` bytes."""
        os.ftruncate(self._fd, length)

    def fsync(self) -> None:
        """Make the contents durable; not the name."""
        os.fsync(self._fd)

    def protect(self) -> None:
        """Make the file read-only for all users."""
        os.fchmod(self._fd, os.fstat(self._fd).st_mode & 0o444)

    def close(self) -> None:
        """Close the file, without making anything durable; may be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Media:
    """The operations on files by path. All methods raise OSError."""

    def open(self, path: Path, *, fresh: bool = False) -> File:
        """Open ``path``, created if missing; ``fresh``: emptied if it was there."""
        return File(path, os.O_CREAT | (os.O_TRUNC if fresh else 0))

    def create(self, path: Path) -> File:
        """Open ``path``, which must not be there (FileExistsError)."""
        return File(path, os.O_CREAT | os.O_EXCL)

    def lock(self, directory: Path) -> Lock:
        """Lock ``directory`` for this process; raises DirectoryLockedError if it is held."""
        return DirectoryLock(directory)

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or directory at ``path``."""
        return path.exists()

    def read(self, path: Path) -> bytes:
        """Return the whole content."""
        return path.read_bytes()

    def read_at(self, path: Path, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position`` on."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, position)
        finally:
            os.close(fd)

    def descriptor(self, path: Path) -> int | None:
        """Open ``path`` for the kernel to send from; the caller closes it.

        None if the content is not all in the file.
        """
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self, path: Path) -> int:
        """Return the number of bytes of the content."""
        return path.stat().st_size

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted."""
        return sorted(path.name for path in directory.iterdir())

    def make_directory(self, directory: Path) -> None:
        """Create ``directory`` and those above it, durably, unless it is there."""
        if not directory.exists():
            self.make_directory(directory.parent)
            directory.mkdir(exist_ok=True)
            _fsync_directory(directory.parent)

    def unlink(self, path: Path) -> None:
        """Remove ``path`` if it is there."""
        path.unlink(missing_ok=True)

    def rename(self, path: Path, target: Path) -> None:
        """Rename ``path`` to ``target`` in the same directory, replacing it."""
        path.replace(target)

    def fsync(self, path: Path) -> None:
        """Make the contents of ``path`` durable, through whichever descriptor they were written.

        Raises FileNotFoundError if it is not there.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def fsync_directory(self, directory: Path) -> None:
        """Make names created, changed or removed in ``directory`` durable."""
        _fsync_directory(directory)

    def close(self) -> None:
        """Close in order: written data stays, as it does in the kernel's page cache."""

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a small file so that a crash leaves the old content or the new one.

        Write beside it, fsync, rename over it, fsync the directory. Raises OSError with ``path``
        unchanged; only if the last fsync fails it may hold either content.
        """
        temporary, directory = _beside(path)
        try:
            # Fresh: an earlier crash may have left one.
            file = self.open(temporary, fresh=True)
            try:
                file.append(data)
                file.fsync()
            finally:
                file.close()
            self.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(temporary)
            raise
        self.fsync_directory(directory)


@lru_cache(maxsize=256)
def _beside(path: Path) -> tuple[Path, Path]:
    """Return the temporary path for the new content of ``path``, and the directory of both."""
    return path.with_name(path.name + TEMPORARY_SUFFIX), path.parent


PLAIN: Final = Media()
"""The file system as it is."""


def write_fully(write: Callable[[Buffer], int], data: Buffer) -> None:
    """Pass all of ``data`` to ``write``, which is like write(2): it may take only a beginning.

    On OSError a part of ``data`` may have been written.
    """
    written = write(data)
    while written < len(data):
        written += write(memoryview(data)[written:])


def _fsync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
