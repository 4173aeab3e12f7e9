"""One process per data directory, held by flock(2) on its ``.lock``.

The kernel releases the lock when the process ends, however it ends, so none is left behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

LOCK_FILE: Final = ".lock"


class DirectoryLockedError(OSError):
    """Another open log, in this or another process, holds the data directory."""


class DirectoryLock:
    """Holds ``directory`` from construction to :meth:`release`.

    Raises :class:`DirectoryLockedError` if it is held already, OSError if it cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK_FILE
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise DirectoryLockedError(f"{directory} is in use by another node") from None
        except OSError:
            self.release()
            raise

    def check(self) -> None:
        """Raise OSError if the lock was released."""
        if self._fd < 0:
            raise OSError(errno.EBADF, "the data directory was closed")

    def release(self) -> None:
        """Release the lock; may be repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
