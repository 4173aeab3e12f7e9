"""Control groups of namespace hosts, which limit the CPU and memory of their nodes.

A host gets its own directory in every available hierarchy (version 1), named after the cluster, and
sees nothing else there; its processes have directories below. The directories outlive their
processes. The owner of the cluster removes them, or else the next sweep after dead clusters.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SUBSYSTEMS = ("cpu", "memory")
PATIENCE_S = 10.0


def _of(identifier: str, subsystem: str) -> Path:
    return ROOT / subsystem / f"kraftwreck-{identifier}"


def can_be_made(subsystem: str) -> bool:
    """Return whether this process can make groups of ``subsystem`` (version 1)."""
    top = ROOT / subsystem
    return (top / "cgroup.procs").exists() and os.access(top, os.W_OK)


def make(identifier: str, node: str) -> dict[str, Path]:
    """Make the groups of a host and return them by subsystem. Groups that cannot be made are left
    out; then only the faults that need them are missing."""
    made = {}
    for subsystem in SUBSYSTEMS:
        group = _of(identifier, subsystem) / node
        # Without a hierarchy this file is missing, and mkdir would make an ordinary directory.
        if (ROOT / subsystem / "cgroup.procs").exists():
            with contextlib.suppress(OSError):
                group.mkdir(parents=True)
                made[subsystem] = group
    return made


def remove(identifier: str) -> None:
    """Remove the groups of a cluster whose processes are ending, or gone."""
    deadline = time.monotonic() + PATIENCE_S
    for subsystem in SUBSYSTEMS:
        top = _of(identifier, subsystem)
        while top.is_dir():
            below = sorted(path for path in top.rglob("*") if path.is_dir())
            for group in [*reversed(below), top]:
                with contextlib.suppress(OSError):  # A process has not been reaped yet.
                    group.rmdir()
            if time.monotonic() > deadline:
                break
            if top.is_dir():
                time.sleep(0.005)
