"""The state directories of namespace clusters: which live, which died, and their remains.

``<root>/<id>/`` belongs to one cluster. Every process of the cluster's supervisor holds its file
``lock`` (flock), so checking whether it lives needs no process ids. ``state.json`` records the
processes by pid *and* start time, for ``down`` and for cleaning up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kraftwreck.harness.clusters import cgroups
from kraftwreck.harness.on_host.process import process_state

LOCK = "lock"
STATE = "state.json"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, distinguishable from any later one: ``start`` is in ticks since boot."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of a running process; raise OSError if there is none."""
        state, start = process_state(pid)
        if state == "gone":
            raise ProcessLookupError(f"there is no process {pid}")
        return cls(pid, start)

    def alive(self) -> bool:
        """Return whether this very process still runs; one that nobody waited for does not."""
        try:
            state, start = process_state(self.pid)
        except (OSError, IndexError, ValueError):
            return False
        return state not in ("Z", "X") and start == self.start

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Signal the process if it still runs; return whether it did."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # Once the handle is open, reuse of the pid would be detected.
            if not self.alive():
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)


@dataclass(slots=True)
class State:
    """The state of one cluster; ``hosts`` are :class:`Host` fields, None until it is up."""

    id: str
    boot_id: str
    detached: bool
    control: ProcessIdentity
    supervisor: list[ProcessIdentity] = field(default_factory=list)
    subnet: str = ""
    uplink: str = ""
    hosts: list[dict[str, Any]] | None = None

    def write(self, directory: Path) -> None:
        """Replace ``state.json`` atomically."""
        part = directory / (STATE + ".part")
        part.write_text(json.dumps(asdict(self), indent=1))
        part.replace(directory / STATE)

    @classmethod
    def read(cls, directory: Path) -> State | None:
        """Return the state, None if it was never written or is unreadable."""
        try:
            fields = json.loads((directory / STATE).read_text())
            fields["control"] = ProcessIdentity(**fields["control"])
            fields["supervisor"] = [ProcessIdentity(**one) for one in fields["supervisor"]]
            return cls(**fields)
        except (OSError, ValueError, TypeError, KeyError):
            return None


def state_root() -> Path:
    """Return the directory that holds all state directories of this user."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), "/run"):
        if base and os.access(base, os.W_OK):
            return Path(base) / "kraftwreck"
    return Path(f"/tmp/kraftwreck-{os.getuid()}")  # noqa: S108 - mode 0700, owner checked below


def boot_id() -> str:
    """Return the kernel's id of this boot; it changes with every boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def control_boot_id() -> str:
    """Return an id that distinguishes this machine's kernel from those of hosts.

    A control node without Linux cannot share its kernel with a host.
    """
    try:
        return boot_id()
    except OSError:
        system = platform.system()
        # On a Linux without a boot id this is unknown, and no host's clock is set.
        return "" if system == "Linux" else f"this is {system}"


@contextlib.contextmanager
def _root_locked() -> Iterator[Path]:
    """Hold the root's lock, so that no directory is removed while it is being created."""
    root = state_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} belongs to another user")
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield root


def create(identifier: str) -> tuple[Path, int]:
    """Create a state directory; return it and its held lock, to be inherited."""
    with _root_locked() as root:
        directory = root / identifier
        directory.mkdir(mode=0o700)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return directory, lock


def directories() -> list[Path]:
    """Return the state directories, oldest name first."""
    root = state_root()
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir())


def lives(directory: Path) -> bool:
    """Return whether any process of the cluster's supervisor still runs."""
    try:
        with (directory / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def sweep() -> list[Path]:
    """Remove the remains of dead clusters; return the directories removed."""
    removed = []
    with contextlib.suppress(FileNotFoundError), _root_locked():
        for directory in directories():
            if not lives(directory):
                _remove(directory)
                removed.append(directory)
    return removed


def _remove(directory: Path) -> None:
    state = State.read(directory)
    if state is not None and state.boot_id == boot_id():
        for process in state.supervisor:
            process.kill()
    cgroups.remove(directory.name)
    shutil.rmtree(directory, ignore_errors=True)


def end(directory: Path, patience_s: float = 20.0) -> None:
    """End a live cluster and wait until everything is removed.

    Asks its supervisor first, then kills it. Raises TimeoutError if it does not end.
    """
    state = State.read(directory)
    processes = state.supervisor if state else []
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes if number == signal.SIGKILL else processes[:1]:
            process.kill(number)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            # The supervisor removes the directory, with the lock, before it ends itself.
            if not lives(directory) and not any(process.alive() for process in processes):
                sweep()
                return
            time.sleep(0.01)
    raise TimeoutError(f"the processes of {directory} do not end")
