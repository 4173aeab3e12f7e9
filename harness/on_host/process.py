"""On a host: the process of a service, by its pid file; signals reach no other process.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent. The pid file
contains pid and start time, which together belong to one process only. It is written when the
service's program is executed (:mod:`harness.on_host.keeper`), which may rename itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Request = dict[str, Any]


class RefusedError(Exception):
    """The request cannot be carried out; the text is for the user."""


def process_state(pid: int) -> tuple[str, int]:
    """Return state letter and start time (ticks) of a process, ("gone", 0) if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "gone", 0
    return fields[0], int(fields[19])


def recorded_pid(path: Path) -> int | None:
    """Return the pid in a pid file, None unless the process that had it then runs."""
    try:
        pid, start = map(int, path.read_text().split())
    except (OSError, ValueError):
        return None
    state, now_start = process_state(pid)
    return pid if now_start == start and state not in ("gone", "Z", "X") else None


def service_pid(service: Request) -> int | None:
    """Return the pid of the running service, None when it is not running."""
    return recorded_pid(Path(service["pid_file"]))
