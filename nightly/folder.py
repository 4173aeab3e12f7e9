"""The folder of one night: its plan, its journal, and the marks of runs in progress.

A run is finished when its complete line is on disk. Its mark is created before it begins and
removed after that. So whatever kills the night, exactly the runs with a mark and without a line are
repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kraftwreck.harness.clusters.state import ProcessIdentity
from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.store import JsonLines, StoreError, write_json
from kraftwreck.nightly.known import NIGHTS
from kraftwreck.nightly.plan import Plan
from kraftwreck.nightly.record import RUNS, Record, read_records

PLAN, NIGHT, STARTED, REDS, TREES, LOCK = (
    "plan.json", "night.json", "started", "reds", "trees", "lock",
)  # fmt: skip

LOCK_WAIT_S = 20.0


class NightError(BadInputError):
    """A night cannot begin or continue; one line, for exit code 254."""


def night_folders(store: Path) -> list[Path]:
    """Return the nights of ``store``, the oldest first."""
    try:
        found = [path for path in (store / NIGHTS).iterdir() if (path / PLAN).is_file()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise NightError(f"{store / NIGHTS}: {error.strerror}") from error
    return sorted(path for path in found if not path.is_symlink())


def _lock(lock: int) -> None:
    """Take the lock, waiting for a moment: a run that was starting when its night was killed still
    holds it. Raises BlockingIOError."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.1)


class NightFolder:
    """A night on disk; one process at a time can use it."""

    def __init__(self, path: Path) -> None:
        """Open the night in ``path`` and lock it. Raises :class:`NightError`, StoreError."""
        self.path = path
        self.id = path.name
        try:
            (path / STARTED).mkdir(exist_ok=True)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _lock(self._lock)
            self.plan = msgspec.json.decode((path / PLAN).read_bytes(), type=Plan)
            self._lines = JsonLines(path / RUNS, sync_interval_s=0.0)
            self.records = read_records(path)
        except BlockingIOError as error:
            raise NightError(
                f"{path}: another process is running this night; wait until it ends"
            ) from error
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise NightError(
                f"{path}: {' '.join(str(error).split())}; start a new night with --new"
            ) from error

    @classmethod
    def create(cls, store: Path, name: str, plan: Plan) -> NightFolder:
        """Create the folder of a new night. Raises StoreError."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        path = store / NIGHTS / f"{stamp}-{name}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}; choose another store") from error
        write_json(path / PLAN, plan)
        return cls(path)

    @property
    def done(self) -> set[int]:
        """The positions in the plan of all finished runs."""
        return {record.n for record in self.records}

    def red(self, n: int) -> Path:
        """Return the folder for the files of run ``n``, which may not exist."""
        return self.path / REDS / f"{n:06}"

    def mark(self, n: int, process: int | None = None) -> None:
        """Record that run ``n`` is in progress, in this ``process`` group."""
        identity = None
        if process is not None:
            with contextlib.suppress(OSError):
                identity = ProcessIdentity.of(process)
        path = self.path / STARTED / str(n)
        try:
            path.write_bytes(msgspec.json.encode(identity))
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error

    def finish(self, record: Record) -> None:
        """Write a finished run to disk. Raises StoreError."""
        self._lines.write(record)
        self.records.append(record)
        (self.path / STARTED / str(record.n)).unlink(missing_ok=True)

    def interrupted(self) -> list[int]:
        """End the remains of a dead process; return the runs in progress, without their marks."""
        done, found = self.done, []
        for mark in sorted((self.path / STARTED).iterdir()):
            if not mark.name.isdigit():
                continue
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                identity = msgspec.json.decode(mark.read_bytes(), type=ProcessIdentity | None)
                if identity is not None:
                    identity.kill()
            n = int(mark.name)
            if n not in done:
                found.append(n)
                shutil.rmtree(self.red(n), ignore_errors=True)
            mark.unlink(missing_ok=True)
        return found

    def unmark(self, n: int) -> None:
        """Remove the mark of run ``n``, which will be repeated."""
        (self.path / STARTED / str(n)).unlink(missing_ok=True)
        shutil.rmtree(self.red(n), ignore_errors=True)

    def close(self) -> None:
        """Release the night; closing twice is harmless."""
        self._lines.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
