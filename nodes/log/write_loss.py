"""Write-loss mode: a file system that keeps, at kill -9, only what was fsynced.

The kernel keeps the writes of a killed process, so kill -9 never shows a missing fsync; a power
failure does. Here unsynced contents, and names created, changed or removed without an fsync of
their directory, are held in this process and die with it. The files on disk are at each moment the
worst case of a power failure:

* fsync of a file makes its contents durable, not its name;
* fsync of a directory carries out its changes of names, in order; a file whose contents were never
  fsynced appears empty;
* changes older than some seconds are written back, as a page cache does, and all of them at an
  orderly close.

Directories themselves are made durably. One thread, one process per directory.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.media import PLAIN, TEMPORARY_SUFFIX, Buffer, File, Media, write_fully

WRITE_BACK_S: Final = 5.0
"""About the age at which Linux flushes dirty pages."""


@dataclass(slots=True, eq=False)
class _Inode:
    """A file: its durable content to the first ``keep`` bytes, then ``tail``.

    The durable content of ``length`` bytes is at ``path``, or in ``nameless`` while no durable name
    refers to it.
    """

    path: Path | None
    length: int = 0
    keep: int = 0
    tail: bytearray = field(default_factory=bytearray)
    nameless: bytes = b""
    read_only: bool = False

    @property
    def size(self) -> int:
        return self.keep + len(self.tail)

    def read(self, position: int, size: int) -> bytes:
        """Return the bytes that a reader sees."""
        end = min(position + size, self.size)
        kept = b""
        if position < min(end, self.keep):
            count = min(end, self.keep) - position
            if self.path is None:
                kept = self.nameless[position : position + count]
            else:
                kept = PLAIN.read_at(self.path, position, count)
        start = max(position - self.keep, 0)
        return kept + bytes(self.tail[start : max(end - self.keep, start)])

    def cut(self, length: int) -> None:
        if length > self.size:
            self.tail += bytes(length - self.size)
        elif length >= self.keep:
            del self.tail[length - self.keep :]
        else:
            self.keep = length
            self.tail.clear()

    def store(self, *, durably: bool) -> None:
        """Make the visible content durable."""
        if self.keep == self.length and not self.tail:
            return
        if self.path is None:
            self.nameless = self.nameless[: self.keep] + bytes(self.tail)
        else:
            self._permit(self.path, 0o200 if self.read_only else 0)
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                # An attempt that failed may have written some or all of the tail.
                if os.fstat(fd).st_size > self.keep:
                    os.ftruncate(fd, self.keep)
                write_fully(partial(os.write, fd), bytes(self.tail))
                if durably:
                    os.fsync(fd)
            finally:
                os.close(fd)
                self._permit(self.path, 0)
        self.length = self.keep = self.size
        self.tail.clear()

    def protect(self) -> None:
        self.read_only = True
        if self.path is not None:
            self._permit(self.path, 0)

    def _permit(self, path: Path, write: int) -> None:
        if self.read_only:
            path.chmod(path.stat().st_mode & 0o444 | write)

    def appear(self, path: Path) -> None:
        """Give the durable content the durable name ``path``, in one step."""
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        file = PLAIN.open(temporary, fresh=True)
        try:
            file.append(self.nameless)
            file.fsync()  # A machine that crashes must keep it as well as kill -9 does.
            if self.read_only:
                file.protect()
        finally:
            file.close()
        PLAIN.rename(temporary, path)
        self.path, self.nameless = path, b""


class WriteLossFile(File):
    """A file of :class:`WriteLossMedia`."""

    def __init__(self, media: WriteLossMedia, inode: _Inode) -> None:
        self._media = media
        self._inode = inode

    def append(self, data: Buffer) -> None:
        """Append ``data`` to the visible content; a kill before :meth:`fsync` loses it."""
        self._media.age()
        self._inode.tail += data

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes of the visible content from ``position`` on."""
        return self._inode.read(position, size)

    def truncate(self, length: int) -> None:
        """Cut the visible content; a kill before :meth:`fsync` undoes this."""
        self._media.age()
        self._inode.cut(length)

    def fsync(self) -> None:
        """Make the contents durable; not the name."""
        self._inode.store(durably=True)

    def protect(self) -> None:
        """Take away the right to write."""
        self._inode.protect()

    def close(self) -> None:
        """Do nothing: closing makes nothing durable."""


_Change = tuple[str, str | _Inode | None]
"""(name, inode): created; (name, None): removed; (name, other name): renamed."""


@dataclass(slots=True)
class _Directory:
    """The visible names, the durable names, and the changes between them."""

    seen: dict[str, _Inode]
    durable: dict[str, _Inode]
    changes: list[_Change] = field(default_factory=list)
    touched: dict[int, _Inode] = field(default_factory=dict)
    """Every file seen since the start, by identity; these may have unwritten content."""


class WriteLossMedia(Media):
    """The file system; ``write_back_s`` is the age at which changes become durable on their own."""

    def __init__(
        self, write_back_s: float = WRITE_BACK_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write_back_s = write_back_s
        self._clock = clock
        self._directories: dict[Path, _Directory] = {}
        self._oldest: float | None = None

    def open(self, path: Path, *, fresh: bool = False) -> File:
        """Open ``path``, created if missing; ``fresh``: emptied if it was there."""
        self.age()
        directory = self._directory(path.parent)
        inode = directory.seen.get(path.name)
        if inode is None:
            inode = self._created(directory, path.name)
        elif fresh:
            inode.cut(0)
        directory.touched[id(inode)] = inode
        return WriteLossFile(self, inode)

    def create(self, path: Path) -> File:
        """Open ``path``, which must not be there (FileExistsError)."""
        if path.name in self._directory(path.parent).seen:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        return self.open(path)

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or directory at ``path``."""
        if path.is_dir() or not path.parent.is_dir():
            return path.is_dir()
        return path.name in self._directory(path.parent).seen

    def read(self, path: Path) -> bytes:
        """Return the whole content."""
        inode = self._inode(path)
        return inode.read(0, inode.size)

    def read_at(self, path: Path, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position`` on."""
        return self._inode(path).read(position, size)

    def descriptor(self, path: Path) -> int | None:
        """Return None: what is not synced is not in the file."""
        return None

    def size(self, path: Path) -> int:
        """Return the number of bytes of the content."""
        return self._inode(path).size

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted. Folders are there at once, and stay."""
        folders = {entry.name for entry in os.scandir(directory) if entry.is_dir()}
        return sorted(folders.union(self._directory(directory).seen))

    def unlink(self, path: Path) -> None:
        """Remove ``path`` if it is there."""
        self.age()
        directory = self._directory(path.parent)
        if directory.seen.pop(path.name, None) is not None:
            directory.changes.append((path.name, None))

    def rename(self, path: Path, target: Path) -> None:
        """Rename ``path`` to ``target`` in the same directory, replacing it."""
        self.age()
        inode = self._inode(path)
        if path.name == target.name:
            return
        directory = self._directory(path.parent)
        del directory.seen[path.name]
        directory.seen[target.name] = inode
        directory.changes.append((path.name, target.name))

    def fsync(self, path: Path) -> None:
        """Make the contents of ``path`` durable; raises FileNotFoundError if it is not there."""
        self._inode(path).store(durably=True)

    def fsync_directory(self, directory: Path) -> None:
        """Make names created, changed or removed in ``directory`` durable."""
        self._apply(directory)
        PLAIN.fsync_directory(directory)

    def close(self) -> None:
        """Write everything back: an orderly end loses nothing."""
        for path, directory in self._directories.items():
            for inode in directory.touched.values():
                inode.store(durably=False)
            directory.touched = {id(inode): inode for inode in directory.seen.values()}
            self._apply(path)
        self._oldest = None

    def age(self) -> None:
        """Note that there is a change; write everything back if the oldest is old enough."""
        now = self._clock()
        if self._oldest is not None and now - self._oldest >= self._write_back_s:
            self.close()
        if self._oldest is None:
            self._oldest = now

    # --- inside -------------------------------------------------------------------------

    def _directory(self, path: Path) -> _Directory:
        directory = self._directories.get(path)
        if directory is None:
            durable = {}
            for entry in os.scandir(path):
                if entry.is_file():
                    size = entry.stat().st_size
                    durable[entry.name] = _Inode(Path(entry.path), size, size)
            directory = self._directories[path] = _Directory(dict(durable), durable)
        return directory

    def _inode(self, path: Path) -> _Inode:
        inode = self._directory(path.parent).seen.get(path.name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return inode

    def _created(self, directory: _Directory, name: str) -> _Inode:
        inode = directory.seen[name] = _Inode(None)
        directory.changes.append((name, inode))
        return inode

    def _apply(self, path: Path) -> None:
        """Carry out the changes of names in order."""
        directory = self._directory(path)
        durable = directory.durable
        changes, directory.changes = directory.changes, []
        for name, change in changes:
            if isinstance(change, _Inode):
                change.appear(path / name)
                durable[name] = change
            elif change is None:
                PLAIN.unlink(path / name)
                _forget(durable.pop(name))
            else:
                PLAIN.rename(path / name, path / change)
                if change in durable:
                    _forget(durable[change])
                inode = durable[change] = durable.pop(name)
                inode.path = path / change


def _forget(inode: _Inode) -> None:
    """Drop a file whose last name is gone, and the content that only a name reached."""
    inode.path, inode.nameless = None, b""
    inode.length = inode.keep = 0
    inode.tail.clear()
