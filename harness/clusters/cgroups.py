"""Control groups of namespace hosts: what CPU and memory a node on a host may use.

A host gets a directory of its own in every hierarchy that there is (version 1), named after the
cluster, and sees nothing of the rest. They are directories and outlive processes: whoever owns
the cluster removes them, or the next who looks for what dead clusters left behind.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory")
PATIENCE_S = 10.0


def _of(identifier: str, controller: str) -> Path:
    return ROOT / controller / f"kraftwreck-{identifier}"


def can_be_made(controller: str) -> bool:
    """Tell whether this process can make groups of ``controller`` (version 1)."""
    top = ROOT / controller
    return (top / "cgroup.procs").exists() and os.access(top, os.W_OK)


def make(identifier: str, node: str) -> dict[str, Path]:
    """Make the groups of a host and return them by controller; those that cannot be are left
    out, which takes nothing away but the faults that need them."""
    made = {}
    for controller in CONTROLLERS:
        group = _of(identifier, controller) / node
        # Without a hierarchy there is no such file, and mkdir would make a mere directory.
        if (ROOT / controller / "cgroup.procs").exists():
            with contextlib.suppress(OSError):
                group.mkdir(parents=True)
                made[controller] = group
    return made


def remove(identifier: str) -> None:
    """Remove the groups of a cluster whose processes are ending, or gone."""
    deadline = time.monotonic() + PATIENCE_S
    for controller in CONTROLLERS:
        top = _of(identifier, controller)
        while top.is_dir():
            for group in [*(path for path in top.iterdir() if path.is_dir()), top]:
                with contextlib.suppress(OSError):  # A process has not been reaped yet.
                    group.rmdir()
            if time.monotonic() > deadline:
                break
            if top.is_dir():
                time.sleep(0.005)
