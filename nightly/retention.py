"""Remove runs and nights from a store by age, then by size, with failures last.

Only folders that are runs or nights by name *and* content are removed. Symbolic links are never
followed, and files of other tools in the store are left alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nightly.config import Config
from kraftwreck.nightly.folder import PLAN
from kraftwreck.nightly.known import NIGHTS

_RUN = re.compile(r"(\d{8}T\d{6}\.\d{3}Z)-\d+(\.running)?")
_NIGHT = re.compile(r"(\d{8}T\d{6}\.\d{3}Z)-[a-z0-9-]+")
_DAY_S = 86400.0
_LEAST_AGE_S = 3600.0
"""Younger folders are never removed: they may still be in use."""


@dataclass(slots=True)
class Kept:
    """A run or a night: its time, its size, and whether anything failed."""

    path: Path
    made: float
    bytes: int
    failed: bool


@dataclass(slots=True)
class Removed:
    """The removed folders, and errors, one line each."""

    folders: int = 0
    bytes: int = 0
    errors: list[str] = field(default_factory=list)


def retain(config: Config, *, keep: Path, now: float | None = None) -> Removed:
    """Remove old and excess folders from the store of ``config``, but never the night ``keep``.

    Failed runs and nights are kept for ``failure_days``, other runs for ``days``. Beyond ``bytes``
    the oldest are removed: valid runs first, then failed ones. Errors never raise exceptions.
    """
    now = time.time() if now is None else now
    retention, removed = config.retention, Removed()
    store = config.store_path
    if store.is_symlink() or not store.is_dir():
        store = store.resolve()
    left: list[Kept] = []
    for kept in sorted(_kept(store), key=lambda kept: kept.made):
        days = retention.failure_days if kept.failed else retention.days
        if kept.path.name == keep.name or now - kept.made < _LEAST_AGE_S:
            left.append(kept)
        elif now - kept.made > days * _DAY_S:
            _remove(store, kept, removed)
        else:
            left.append(kept)
    most = config.retained_bytes
    total = sum(kept.bytes for kept in left)
    if most is not None:
        for kept in sorted(left, key=lambda kept: (kept.failed, kept.made)):
            if total <= most:
                break
            if kept.path.name == keep.name or now - kept.made < _LEAST_AGE_S:
                continue
            if _remove(store, kept, removed):
                total -= kept.bytes
    _unlink_dangling(store)
    return removed


def _kept(store: Path) -> Iterator[Kept]:
    """Yield the readable runs and nights of ``store``."""
    for folder in _folders(store):
        night = folder.name == NIGHTS
        for path in _folders(folder):
            found = (_NIGHT if night else _RUN).fullmatch(path.name)
            if found is None or not (path / (PLAN if night else "test.json")).is_file():
                continue
            made = datetime.strptime(found[1], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
            failed = True if night else _failed(path)
            yield Kept(path, made.timestamp(), _size(path), failed)


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders in ``folder``, without links."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    yield from (folder / name for name in found)


def _failed(run: Path) -> bool:
    """Return whether a run failed; an unreadable one may have."""
    try:
        verdict = msgspec.json.decode((run / "results.json").read_bytes(), type=dict[str, object])
    except FileNotFoundError:
        return False
    except (OSError, *UNDECODABLE):
        return True
    return verdict.get("valid") is not True


def _size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, without following links."""
    total = 0
    for root, _, files in os.walk(folder, followlinks=False):
        for name in files:
            with contextlib.suppress(OSError):
                found = (Path(root) / name).lstat()
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def _remove(store: Path, kept: Kept, removed: Removed) -> bool:
    """Remove one folder if it is really in the store; return whether that succeeded."""
    path, root = kept.path, store.resolve()
    try:
        inside = path.parent.resolve(strict=True).parent == root and not path.is_symlink()
        if not inside:
            removed.errors.append(f"{path}: not in the store, left alone")
            return False
        # Rename it first: a half-removed folder must not look like a run.
        gone = path.with_name(f"{path.name}.removed")
        path.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        removed.errors.append(f"{path}: {error.strerror}")
        return False
    removed.folders += 1
    removed.bytes += kept.bytes
    return True


def _unlink_dangling(store: Path) -> None:
    """Remove ``latest`` and ``current`` links to removed runs."""
    for folder in (store, *_folders(store)):
        for name in ("latest", "current"):
            link = folder / name
            with contextlib.suppress(OSError):
                if link.is_symlink() and not link.exists():
                    link.unlink()
