"""The snapshot files of a metadata log: unfinished, complete, removed.

``<end>-<epoch>.checkpoint.part`` is written in pieces. Finishing it is fsync, read-only, rename,
fsync of the directory, so a file with the complete name is never incomplete.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.nodes.log.layout import inside
from kraftwreck.nodes.log.media import File, Media
from kraftwreck.nodes.log.snapshots import (
    SnapshotHeader,
    parse_snapshot_name,
    snapshot_name,
    verify,
)

PART: Final = ".part"


class SnapshotFiles:
    """The snapshots in a partition's ``directory``. All methods raise OSError."""

    def __init__(self, directory: Path, media: Media) -> None:
        self.ids: list[tuple[int, int]] = []
        """``(end offset, epoch)`` of the complete ones, oldest first."""
        self._directory = directory
        self._media = media
        self._parts: dict[tuple[int, int], tuple[File, int]] = {}

    def find(self) -> None:
        """List the snapshots in the directory."""
        names = self._media.names(self._directory)
        found = [identity for name in names if (identity := parse_snapshot_name(name))]
        self.ids = sorted(found, key=_age)

    def path(self, end_offset: int, epoch: int) -> Path:
        """Return the path of the complete snapshot."""
        return inside(self._directory, snapshot_name(end_offset, epoch))

    def load(self, identity: tuple[int, int]) -> tuple[SnapshotFile, bytes]:
        """Read a snapshot whole and verify it. Raises SnapshotCorruptError."""
        path = self.path(*identity)
        content = self._media.read(path)
        head: SnapshotHeader = verify(content, str(path))
        return SnapshotFile(*identity, len(content), head.timestamp), content

    def read(self, end_offset: int, epoch: int, position: int, max_bytes: int) -> bytes:
        """Return up to ``max_bytes`` bytes of a complete snapshot from ``position`` on.

        Raises OSError, too, if the file ends there.
        """
        path = self.path(end_offset, epoch)
        content = self._media.read_at(path, position, max_bytes)
        if not content:
            raise OSError(errno.EIO, f"no byte {position}", str(path))
        return content

    def append(self, end_offset: int, epoch: int, position: int, data: bytes) -> None:
        """Write the next piece of an unfinished snapshot; a piece at 0 replaces the file.

        Raises ValueError if the piece does not follow the one before.
        """
        identity = end_offset, epoch
        if position == 0:
            self._close(identity)
            path = self._part(identity)
            self._parts[identity] = self._media.open(path, fresh=True), 0
        file, length = self._parts.get(identity, (None, 0))
        if file is None or position != length:
            name = snapshot_name(*identity) + PART
            raise ValueError(f"{name} has {length} bytes, a piece for byte {position} came")
        file.append(data)
        self._parts[identity] = file, length + len(data)

    def finish(self, end_offset: int, epoch: int) -> None:
        """Complete an unfinished snapshot, durably. Raises ValueError if there is none."""
        identity = end_offset, epoch
        if identity not in self._parts:
            raise ValueError(f"{snapshot_name(*identity)} was not begun")
        file, _ = self._parts[identity]
        file.fsync()
        file.protect()
        self._close(identity)
        self._media.rename(self._part(identity), self.path(*identity))
        self._media.fsync_directory(self._directory)
        if identity not in self.ids:
            self.ids = sorted([*self.ids, identity], key=_age)

    def drop(self, end_offset: int, epoch: int) -> None:
        """Remove an unfinished snapshot, if there is one."""
        self._close((end_offset, epoch))
        self._media.unlink(self._part((end_offset, epoch)))

    def remove_below(self, end_offset: int) -> None:
        """Remove the complete snapshots that end before ``end_offset``, durably."""
        old = [identity for identity in self.ids if identity[0] < end_offset]
        for identity in old:
            self._media.unlink(self.path(*identity))
            self.ids.remove(identity)
        if old:
            self._media.fsync_directory(self._directory)

    def close(self) -> None:
        """Close the unfinished ones; the next start removes them."""
        for identity in list(self._parts):
            self._close(identity)

    def _part(self, identity: tuple[int, int]) -> Path:
        return inside(self._directory, snapshot_name(*identity) + PART)

    def _close(self, identity: tuple[int, int]) -> None:
        file, _ = self._parts.pop(identity, (None, 0))
        if file is not None:
            file.close()


def _age(identity: tuple[int, int]) -> tuple[int, int]:
    end_offset, epoch = identity
    return epoch, end_offset
