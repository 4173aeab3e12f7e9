"""A file system in memory, no better than POSIX promises: a node's storage runs on it.

Every file has contents that a reader sees and contents that are on the platter. Every directory
has visible names and names that are on the platter. The rules of a crash:

* The death of a process loses nothing: everything written, created, renamed and removed stays
  visible. A write under way may have been carried out in part (:meth:`Filesystem.crash_after`).
* A write may be short: it takes a beginning of the bytes, at least one, and says how many. On a
  disk that becomes full it takes what there is room for, and the next one fails.
* fsync of a file makes its contents durable, not its name. fsync of a directory makes names
  durable, not contents. Directories themselves are created durably.
* A loss of power (:meth:`Filesystem.lose_power`) keeps the fsynced part of each file, and a
  beginning of the bytes written since, cut at any byte. A whole sector of those bytes may read as
  zeros (it was never written). A truncation without fsync may be undone, and then nothing written
  after it is there.
* An fsync beside the process (:meth:`Filesystem.begin_beside`) makes only the contents durable
  that a file had when this work began. Later writes may come too late.
* Of the names changed since the last fsync of their directory some first changes are kept, in
  order, so that a file whose name came before its contents may be empty.

``nodes.log.write_loss`` is the worst case of these rules on a real host: it keeps only fsynced
data. All choices are drawn. One process uses it at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.log.lock import DirectoryLockedError
from kraftwreck.nodes.log.media import Buffer, File, Media

SECTOR = 512
"""Bytes that reach the platter together or not at all."""


class Crash(BaseException):
    """The process died during a file operation, and does nothing more.

    Not an Exception, so that the code of the dying process does not catch it.
    """


class Trouble(Protocol):
    """A fault of the hardware, whose methods raise OSError to refuse. With ``drops`` a file loses
    its unsynced contents when its fsync fails. With ``fills`` there is little room left."""

    drops: bool

    @property
    def fills(self) -> bool:
        """Whether the disk runs out of room, and nothing else is wrong with it."""
        ...

    def write(self, size: int) -> int:
        """Return how many of ``size`` bytes may be written now; with 0 OSError is raised."""
        ...

    def check(self, operation: str) -> None:
        """Raise OSError for ``read``, ``fsync``, or any other ``change`` of files or names."""
        ...

    def refuse(self) -> OSError:
        """Return the error of a write that takes nothing."""
        ...


@dataclass(slots=True, eq=False)
class Inode:
    """A file. ``data`` is visible. Its first ``stable`` bytes are on the platter, and after them
    ``undone``, the bytes that a truncation without fsync removed. ``apart``: it has room on another
    disk."""

    data: bytearray = field(default_factory=bytearray)
    stable: int = 0
    undone: bytes = b""
    apart: bool = False

    @property
    def clean(self) -> bool:
        """Whether a loss of power would change nothing."""
        return self.stable == len(self.data) and not self.undone

    def cut(self, length: int) -> None:
        """Make the file ``length`` bytes long."""
        if length < self.stable:
            self.undone = bytes(self.data[length : self.stable]) + self.undone
            self.stable = length
        del self.data[length:]
        if length > len(self.data):
            self.data += bytes(length - len(self.data))

    def drop(self) -> None:
        """Lose the bytes that are not durable; a truncation stays visible."""
        del self.data[self.stable :]

    def sync(self, most: int | None = None) -> None:
        """Make the visible data durable, or its first ``most`` bytes."""
        if most is not None and most < len(self.data):
            self.stable = max(self.stable, most)
            return
        self.stable = len(self.data)
        self.undone = b""

    def lose(self, *key: int | str) -> tuple[int, int]:
        """Become what a loss of power leaves; return the lost bytes and sectors."""
        seed, *rest = key
        assert isinstance(seed, int)
        unsynced = len(self.data) - self.stable
        extent = draw_below(4, seed, *rest, "extent")
        keep = (0, unsynced, draw_below(unsynced + 1, seed, *rest, "cut"))[min(extent, 2)]
        del self.data[self.stable + keep :]
        sectors = 0
        if extent == 0:
            self.data += self.undone
        elif draw_below(4, seed, *rest, "sector") == 0:
            first, end = -(-self.stable // SECTOR), len(self.data) // SECTOR
            if first < end:
                at = SECTOR * (first + draw_below(end - first, seed, *rest, "which"))
                self.data[at : at + SECTOR] = bytes(SECTOR)
                sectors = 1
        self.sync()
        return unsynced - keep, sectors


@dataclass(slots=True)
class Directory:
    """``seen`` names, ``durable`` names, and the ``changes`` between, in order: (name, inode)
    created, (name, None) removed, (name, other name) renamed."""

    seen: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    changes: list[tuple[str, Inode | str | None]] = field(default_factory=list)

    def sync(self, count: int | None = None) -> None:
        """Make the first ``count`` changes durable, None for all of them."""
        for name, change in self.changes[:count]:
            if isinstance(change, Inode):
                self.durable[name] = change
            elif change is None:
                self.durable.pop(name, None)
            else:
                self.durable[change] = self.durable.pop(name)
        self.changes.clear()


@dataclass(slots=True, frozen=True)
class Loss:
    """Losses of a power failure: unsynced ``bytes``, zeroed ``sectors``, changes of ``names``."""

    bytes: int = 0
    sectors: int = 0
    names: int = 0


class Filesystem(Media):
    """The file system of the module's rules; ``trouble``, if any, is checked before each use.

    ``short_writes`` is the chance, in percent, that a write is short, drawn from ``seed``. Files
    that are created in the directory ``apart`` have room also while the disk is full.
    """

    def __init__(self, seed: int = 0, short_writes: int = 0, apart: Path | None = None) -> None:
        self.trouble: Trouble | None = None
        self._apart = apart
        self._seed = seed
        self._short_writes = short_writes
        self._writes = 0
        self._directories: dict[str, Directory] = {}
        self._locks: set[str] = set()
        self._left: int | None = None  # Operations until the process dies.
        self._torn = 0
        self._dead = False
        self.since: dict[Inode, int] | None = None
        """Files that were written since work beside the process began, and their lengths then."""
        self._limits: dict[Inode, int] | None = None
        """The same for the work that is being carried out."""

    # --- operations of a process ------------------------------------------------------------

    def lock(self, directory: Path) -> MemoryLock:
        """Lock ``directory`` until the process ends."""
        key = str(directory)
        if key not in self._directories:
            raise _missing(directory)
        if key in self._locks:
            raise DirectoryLockedError(f"{directory} is in use by another node")
        self._locks.add(key)
        return MemoryLock(self._locks, key)

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or directory at ``path``."""
        if str(path) in self._directories:
            return True
        parent, _, name = str(path).rpartition("/")
        directory = self._directories.get(parent)
        return directory is not None and name in directory.seen

    def open(self, path: Path, *, fresh: bool = False) -> File:
        """Open ``path``, created if missing; ``fresh``: emptied if it exists."""
        directory, name = self._place(path)
        inode = directory.seen.get(name)
        if inode is None:
            self._step()
            inode = Inode(apart=path.parent == self._apart)
            directory.seen[name] = inode
            directory.changes.append((name, inode))
        elif fresh:
            self._step()
            inode.cut(0)
        return MemoryFile(self, inode)

    def create(self, path: Path) -> File:
        """Open ``path``, which must not exist (FileExistsError)."""
        directory, name = self._place(path)
        if name in directory.seen:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        return self.open(path)

    def read(self, path: Path) -> bytes:
        """Return the whole content."""
        if self.trouble is not None:
            self.trouble.check("read")
        return bytes(self.inode(path).data)

    def read_at(self, path: Path, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position`` on."""
        return self.read_from(self.inode(path), position, size)

    def read_from(self, inode: Inode, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes of the visible contents from ``position`` on."""
        if self.trouble is not None:
            self.trouble.check("read")
        return bytes(inode.data[position : position + size])

    def size(self, path: Path) -> int:
        """Return the number of bytes of the content."""
        return len(self.inode(path).data)

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, those of directories included, sorted."""
        names, place = set(self._directory(directory).seen), str(directory)
        for path in self._directories:
            above, _, name = path.rpartition("/")
            if above == place:
                names.add(name)
        return sorted(names)

    def make_directory(self, directory: Path) -> None:
        """Create ``directory``, durably, unless it exists."""
        if str(directory) not in self._directories:
            self._step()
            self._directories[str(directory)] = Directory()

    def unlink(self, path: Path) -> None:
        """Remove ``path`` if it exists."""
        directory, name = self._place(path)
        if name in directory.seen:
            self._step()
            del directory.seen[name]
            directory.changes.append((name, None))

    def rename(self, path: Path, target: Path) -> None:
        """Rename ``path`` to ``target`` in the same directory, replacing an existing file."""
        inode = self.inode(path)
        directory, name = self._place(path)
        new = self._place(target)[1]
        if name != new:
            self._step()
            del directory.seen[name]
            directory.seen[new] = inode
            directory.changes.append((name, new))

    def fsync(self, path: Path) -> None:
        """Make the contents of ``path`` durable."""
        self.sync(self.inode(path))

    def fsync_directory(self, directory: Path) -> None:
        """Make names created, changed or removed in ``directory`` durable."""
        known = self._directory(directory)
        self.before_fsync()
        known.sync()

    # --- work beside the process -------------------------------------------------------------

    def begin_beside(self) -> None:
        """Begin work beside the process."""
        self.since = {}

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Carry out the work that has begun, all at once, and end it."""
        self._limits, self.since = self.since, None
        try:
            yield
        finally:
            self._limits = None

    def on_platter(self, path: Path) -> int:
        """Return how many bytes of a file no loss of power takes; 0 if it may take its name."""
        directory, name = self._place(path)
        inode = directory.durable.get(name)
        return 0 if inode is None or directory.seen.get(name) is not inode else inode.stable

    def may_be_there(self, path: Path) -> bool:
        """Whether a loss of power may leave a file at ``path``."""
        directory, name = self._place(path)
        return name in directory.seen or name in directory.durable

    # --- crashes and faults -----------------------------------------------------------------

    def crash_after(self, operations: int, torn: int = 0) -> None:
        """Let the process die (:class:`Crash`) after ``operations`` more changes.

        If the next change is a write, ``torn`` draws how much of it is carried out.
        """
        self._left, self._torn = operations, torn

    def survive(self) -> None:
        """Take back a :meth:`crash_after` that has not struck."""
        self._left = None

    def process_ended(self) -> None:
        """End the process, with its locks; visible data stays."""
        self._left, self._dead = None, False
        self.since = None
        self._locks.clear()

    def lose_power(self, number: int) -> Loss:
        """Drop what is not on the platter, except for what ``number`` draws."""
        lost = sectors = names = 0
        for path in sorted(self._directories):
            directory = self._directories[path]
            for name in sorted(directory.seen.keys() - directory.durable.keys()):
                lost += len(directory.seen[name].data)
            count = len(directory.changes)
            extent = draw_below(3, number, path, "names")
            kept = (0, count, draw_below(count + 1, number, path, "name"))[extent]
            names += count - kept
            directory.sync(kept)
            for name in sorted(directory.durable):
                inode = directory.durable[name]
                if not inode.clean:
                    fewer, zeros = inode.lose(number, path, name)
                    lost, sectors = lost + fewer, sectors + zeros
            directory.seen = dict(directory.durable)
        return Loss(lost, sectors, names)

    @property
    def directories(self) -> tuple[Path, ...]:
        """All directories."""
        return tuple(map(Path, sorted(self._directories)))

    def copy_of(self, wanted: Mapping[Path, Collection[str] | None]) -> Filesystem:
        """Return a copy of some directories, with the files of these names (None: all), as no
        process has opened them; without faults."""
        copies: dict[Inode, Inode] = {}

        def copied(inode: Inode) -> Inode:
            known = copies.get(inode)
            if known is None:
                known = Inode(bytearray(inode.data), inode.stable, inode.undone)
                copies[inode] = known
            return known

        other = Filesystem()
        for path, names in wanted.items():
            mine = self._directories.get(str(path))
            if mine is None:
                continue
            theirs = other._directories[str(path)] = Directory()
            for own, new in ((mine.seen, theirs.seen), (mine.durable, theirs.durable)):
                for name, inode in own.items():
                    if names is None or name in names:
                        new[name] = copied(inode)
            for name, change in mine.changes:
                if names is None or name in names or change in names:
                    same = copied(change) if isinstance(change, Inode) else change
                    theirs.changes.append((name, same))
        return other

    def inode(self, path: Path) -> Inode:
        """Return the file at ``path``. Raises FileNotFoundError."""
        directory, name = self._place(path)
        inode = directory.seen.get(name)
        if inode is None:
            raise _missing(path)
        return inode

    # --- internals --------------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """Whether writes must be announced, because a crash or an error may be due."""
        return self._left is not None or self._dead or self.trouble is not None

    def write(self, inode: Inode, data: bytes) -> int:
        """Add a beginning of ``data`` to ``inode``; return its length. Raises OSError and Crash."""
        allowed = self.taken(len(data))
        if self._left == 0 and not self._dead:
            inode.data += data[: self._torn % (allowed + 1)]
        self._step()
        if self.trouble is not None and not (inode.apart and self.trouble.fills):
            allowed = self.trouble.write(allowed)
            if data and allowed == 0:
                raise self.trouble.refuse()
        inode.data += data[:allowed]
        return allowed

    def taken(self, size: int) -> int:
        """Return how many of ``size`` bytes the next write takes, if nothing is wrong."""
        if not self._short_writes or size < 2:
            return size
        self._writes += 1
        number = draw(self._seed, "write", self._writes)
        if draw_below(100, number, "short") >= self._short_writes:
            return size
        return 1 + draw_below(size - 1, number, "taken")

    def sync(self, inode: Inode) -> None:
        """Make the contents of a file durable. Raises OSError and Crash."""
        if self.watched:
            try:
                self.before_fsync()
            except OSError:
                if self.trouble is not None and self.trouble.drops:
                    inode.drop()
                raise
        inode.sync(self._limits.get(inode) if self._limits else None)

    def before_fsync(self) -> None:
        """Announce an fsync. Raises OSError and Crash."""
        self._step()
        if self.trouble is not None:
            self.trouble.check("fsync")

    def step(self) -> None:
        """Announce any other change. Raises Crash."""
        self._step()

    def _step(self) -> None:
        if self._dead or self._left == 0:
            self._dead = True
            raise Crash
        if self.trouble is not None:
            self.trouble.check("change")
        if self._left is not None:
            self._left -= 1

    def _place(self, path: Path) -> tuple[Directory, str]:
        """Return the directory of ``path``, and its name in it."""
        parent, _, name = str(path).rpartition("/")
        directory = self._directories.get(parent)
        if directory is None:
            raise _missing(path)
        return directory, name

    def _directory(self, path: Path) -> Directory:
        directory = self._directories.get(str(path))
        if directory is None:
            raise _missing(path)
        return directory


class MemoryFile(File):
    """A file of :class:`Filesystem`."""

    def __init__(self, files: Filesystem, inode: Inode) -> None:
        self._files = files
        self._inode = inode

    def write(self, data: Buffer) -> int:
        """Add a beginning of ``data`` to the visible contents; return its length."""
        files = self._files
        if files.since is not None:
            files.since.setdefault(self._inode, len(self._inode.data))
        if files.watched:
            return files.write(self._inode, bytes(data))
        taken = files.taken(len(data))
        self._inode.data += data if taken == len(data) else data[:taken]
        return taken

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes of the visible contents from ``position`` on."""
        return self._files.read_from(self._inode, position, size)

    def truncate(self, length: int) -> None:
        """Truncate the visible contents."""
        self._files.step()
        since = self._files.since
        if since is not None:
            since[self._inode] = min(since.get(self._inode, length), length)
        self._inode.cut(length)

    def fsync(self) -> None:
        """Make the contents durable, but not the name."""
        self._files.sync(self._inode)

    def protect(self) -> None:
        """Do nothing: a protected file needs no protection here."""

    def close(self) -> None:
        """Do nothing: closing makes nothing durable."""


class MemoryLock:
    """A lock on a directory of :class:`Filesystem`."""

    def __init__(self, held: set[str], key: str) -> None:
        self._held = held
        self._key: str | None = key

    def check(self) -> None:
        """Raise OSError if the lock was released."""
        if self._key is None:
            raise OSError(errno.EBADF, "the data directory was closed")

    def release(self) -> None:
        """Release the lock; harmless when repeated."""
        if self._key is not None:
            self._held.discard(self._key)
            self._key = None


def _missing(path: Path) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
