"""The manifest of an analysis lists its valid files; a batch of them is committed atomically.

A batch is written below ``staging``, under its final relative paths. Renaming the new manifest over
the old one is the commit: before it the batch does not exist, after it all of it does. Then the
files move to their final places; readers look in both. If a process was killed, the next one
finishes its moves.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kraftwreck.histories.store import write_json
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.schemas import VERSION

NAME = "manifest.json"
STAGING = "staging"
LAYERS = ("silver", "gold")
_LOCK = ".lock"

Watch = Callable[[str], None]
"""Called with every step of a commit; tests kill the process in it."""


class RunEntry(msgspec.Struct, kw_only=True):
    """A valid run: the fingerprint of its files as they were read, and the batch with its rows."""

    fingerprint: str
    batch: str
    removed: bool = False


class Refused(msgspec.Struct, kw_only=True):
    """A run, or a night's list, that cannot be read, and the reason."""

    fingerprint: str
    reason: str


class Manifest(msgspec.Struct, kw_only=True):
    """The contents of a valid analysis; see docs/tables.md."""

    schema: int = VERSION
    generation: int = 0
    tables: dict[str, list[str]] = {}
    runs: dict[str, RunEntry] = {}
    quarantined: dict[str, Refused] = {}
    nights: dict[str, str] = {}

    def files(self) -> set[str]:
        """Return all valid files, relative to the analysis."""
        return {file for files in self.tables.values() for file in files}


def load(analysis: Path) -> Manifest:
    """Return the manifest of the folder ``analysis``; an empty one if nothing was committed.

    Raises :class:`~pipeline.java.PipelineError` when it cannot be read.
    """
    path = analysis / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (OSError, *UNDECODABLE) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        raise PipelineError(
            f"{path}: {text}; remove the folder {analysis} to analyze everything again"
        ) from error


def locate(analysis: Path, file: str) -> Path:
    """Return the path of a file of the manifest: its final place, or still in staging."""
    path = analysis / file
    return path if path.exists() else analysis / STAGING / file


@contextmanager
def locked(analysis: Path) -> Iterator[None]:
    """Lock the analysis of a store; the kernel releases the lock when the process ends.

    Raises :class:`~pipeline.java.PipelineError` when another one is running.
    """
    try:
        analysis.mkdir(parents=True, exist_ok=True)
        handle = (analysis / _LOCK).open("a")
    except OSError as error:
        raise PipelineError(f"{analysis}: {error.strerror}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PipelineError(
                f"{analysis}: another analysis is running here; wait until it ends"
            ) from error
        yield


def settle(analysis: Path, manifest: Manifest, watch: Watch = lambda _: None) -> None:
    """Make the folder match ``manifest``: move its files to their places, remove all others."""
    counted = manifest.files()
    staging = analysis / STAGING
    for place in sorted({str(Path(file).parent) for file in counted}):
        source, target = staging / place, analysis / place
        if source.is_dir() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            watch(f"moved {place}")
    shutil.rmtree(staging, ignore_errors=True)
    for layer in LAYERS:
        for path in (analysis / layer).glob("*/*/*"):
            if path.relative_to(analysis).as_posix() not in counted:
                path.unlink()
                watch("removed a file")
        for folder in (analysis / layer).glob("*/*"):
            if not any(folder.iterdir()):
                folder.rmdir()


def commit(analysis: Path, manifest: Manifest, watch: Watch = lambda _: None) -> None:
    """Make ``manifest`` the valid one; all new files it names are in ``staging``."""
    for file in sorted(manifest.files()):
        path = analysis / STAGING / file
        if path.exists():
            _sync(path)
    watch("staged")
    write_json(analysis / NAME, manifest)
    _sync(analysis)
    watch("committed")
    settle(analysis, manifest, watch)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
