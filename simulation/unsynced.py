"""The real file system without fsync, for runs in which no machine loses its power."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from kraftwreck.nodes.log.media import File, Media


class UnsyncedFile(File):
    """A file whose content is never forced to the disk."""

    def fsync(self) -> None:
        """Do nothing."""


class UnsyncedMedia(Media):
    """Files and names that are never forced to the disk.

    Once the disk is ``broken``, an fsync by path fails: that of the records of users.
    """

    def __init__(self) -> None:
        self.broken = False

    def open(self, path: Path, *, fresh: bool = False) -> File:
        """Open ``path``, created if missing; ``fresh``: emptied if it was there."""
        return UnsyncedFile(path, os.O_CREAT | (os.O_TRUNC if fresh else 0))

    def fsync(self, path: Path) -> None:
        """Do nothing. Raises OSError if the disk is broken."""
        if self.broken:
            raise OSError(errno.EIO, "the disk is broken", str(path))

    def fsync_directory(self, directory: Path) -> None:
        """Do nothing."""
