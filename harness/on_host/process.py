"""On a host: the process of a service, by its pid file; signals reach no other process.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent. The pid file
contains pid and start time. A process is the service's only if both match *and* its command line
is the service's ``argv``. A service with ``kept`` may rename itself: its pid file is written when
its program is executed (:mod:`harness.on_host.keeper`).
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


def service_pid(service: Request) -> int | None:
    """Return the pid of the running service, None when it is not running."""
    try:
        pid, start = map(int, Path(service["pid_file"]).read_text().split())
        state, now_start = process_state(pid)
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except (OSError, ValueError):
        return None
    if now_start != start or state in ("gone", "Z", "X"):
        return None
    return pid if service.get("kept") or argv == service["argv"] else None
