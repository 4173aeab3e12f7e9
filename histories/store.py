"""The folder of a run, and appenders that survive a crash.

``store/<name>/<UTC time>-<seed>`` is named ``….running`` first, and renamed when everything was
collected. ``latest`` links always point at a judged run, ``current`` links at the newest one. Lines
reach the kernel as they are written (no buffer of ours), so a killed control process loses nothing;
files are synced to disk at least once a second.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from kraftwreck.histories.exit_codes import BadInputError, CommandError

RUNNING = ".running"
SUMS = "sums.json"
"""In the folder of a node: size and SHA-256 of its recordings, as they were on its host."""


class StoreError(CommandError):
    """The store cannot be written; the message is one line and names the file."""


class UnusableStoreError(StoreError, BadInputError):
    """The user named a folder in which there can be no store."""


_UNUSABLE: Final = frozenset(
    (
        errno.EACCES,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    )
)
"""Errors of a new folder that are the fault of its name."""


def _cannot_make(folder: Path, error: OSError) -> StoreError:
    kind = UnusableStoreError if error.errno in _UNUSABLE else StoreError
    return kind(f"{folder}: {error.strerror}; choose another --store")


UNWRITTEN = "error: report: "
"""How a line begins that says which result or page of a run could not be written."""


def unwritten(why: str) -> str:
    """Return the line about a result or page of a run that could not be written."""
    return UNWRITTEN + " ".join(why.split())


class JsonLines:
    """An append-only file of JSON lines, safe to use from several threads.

    A line is written whole or not at all: when the disk is full the partial line is cut
    off again, :class:`StoreError` is raised, and everything before it stays readable.
    """

    def __init__(self, path: Path, sync_interval_s: float = 1.0) -> None:
        """Open ``path`` for appending; an existing torn tail is cut off first."""
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._sync_interval_s = sync_interval_s
        self._synced = time.monotonic()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._end = whole_lines(path.read_bytes())
            os.ftruncate(self._fd, self._end)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error

    def write(self, record: Any) -> None:
        """Append ``record`` as one line. Raises :class:`StoreError`."""
        line = self._encoder.encode(record) + b"\n"
        with self._lock:
            try:
                self._write_whole(line)
                now = time.monotonic()
                if now - self._synced >= self._sync_interval_s:
                    self._synced = now
                    os.fdatasync(self._fd)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._end)
                raise StoreError(
                    f"{self.path}: {error.strerror}; what was written before is kept"
                ) from error

    def _write_whole(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        self._end += len(line)

    def close(self) -> None:
        """Sync and close; closing twice is harmless."""
        with self._lock:
            if self._fd < 0:
                return
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.close(fd)


def whole_lines(data: bytes) -> int:
    """Return how many bytes of ``data`` are whole lines (a torn tail does not count)."""
    return data.rfind(b"\n") + 1


def make_store(store: Path) -> None:
    """Create the folder of a store, if there is none. Raises :class:`StoreError`."""
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(store, error) from error


class RunFolder:
    """One run on disk. ``path`` changes once, when :meth:`complete` renames it."""

    def __init__(self, store: Path, name: str, seed: int, now: datetime | None = None) -> None:
        """Create ``store/name/<time>-<seed>.running`` and point ``current`` at it.

        Raises :class:`StoreError` when the store cannot be written.
        """
        self.store = store
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        self.final_path = store / name / f"{stamp}-{seed}"
        self.path = self.final_path.with_name(self.final_path.name + RUNNING)
        try:
            if self.final_path.exists():
                raise StoreError(f"{self.final_path}: is there already; run again")
            self.path.mkdir(parents=True)
            (self.path / "nodes").mkdir()
            for folder in (store, store / name):
                _link(folder / "current", self.path)
        except OSError as error:
            raise _cannot_make(self.path, error) from error

    def node(self, name: str) -> Path:
        """Return the folder of one node, created if missing."""
        folder = self.path / "nodes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_json(self, name: str, value: Any) -> None:
        """Write ``value`` to file ``name`` atomically. Raises StoreError."""
        write_json(self.path / name, value)

    def complete(self) -> Path:
        """Give the folder its final name and point the ``current`` links at it."""
        try:
            if self.path != self.final_path:
                self.path.rename(self.final_path)
                self.path = self.final_path
            for folder in (self.store, self.final_path.parent):
                _link(folder / "current", self.path)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error
        return self.path


def link_latest(run: Path) -> None:
    """Point the ``latest`` links of the store and of the test at a judged run.

    Raises :class:`StoreError`.
    """
    try:
        for folder in (run.parent.parent, run.parent):
            _link(folder / "latest", run)
    except OSError as error:
        raise StoreError(f"{run}: {error.strerror}") from error


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON to ``path`` atomically (write, rename)."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error


def _link(link: Path, target: Path) -> None:
    """Point ``link`` at ``target`` by a relative path, replacing an older link atomically."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(os.path.relpath(target, link.parent))
    temporary.replace(link)
