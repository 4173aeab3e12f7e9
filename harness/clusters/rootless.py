"""Namespaces for a plain user, without root, set-uid helpers or anything to install.

The owner of a cluster moves into a user namespace. There the user keeps its id and has every
capability, but only over things of that namespace: its networks, mounts and processes. Programs
inherit them as ambient capabilities (capabilities(7)). Only the user's id is mapped, so no process
can become another user. Source: user_namespaces(7).

``python -m kraftwreck.harness.clusters.rootless`` prints one JSON line about what this machine
supports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.harness.clusters import kernel

USER = "kraftwreck"
"""The user's name on hosts."""
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_PROBE_TIMEOUT_S = 30.0
_FORBIDDING = {
    "kernel/apparmor_restrict_unprivileged_userns": "1",
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
}
"""Settings of the machine that deny such namespaces to plain users."""


def needed() -> bool:
    """Return whether this process belongs to a plain user."""
    return os.geteuid() != 0


def search_path() -> str:
    """Return the search path for programs; a plain user's PATH often lacks those of root."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"


def enter(flags: int) -> None:
    """Move into a new user namespace, and with ``flags`` into others that belong to it.

    Raises OSError. The process must have one thread.
    """
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | flags)
    # Required before mapping a group: the user could otherwise drop a restricting group.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    kernel.hold_capabilities(kernel.all_capabilities())


def examine() -> dict[str, Any]:
    """Return what hosts of a plain user support here: ``refused`` is one line, "" if hosts are
    possible; ``means`` and ``why`` are those of :func:`harness.on_host.network.network_means`."""
    return dict(_examine(os.geteuid()))


@cache
def _examine(user: int) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-m", "kraftwreck.harness.clusters.rootless"],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": search_path(), "PYTHONPATH": str(IMPORT_ROOT)},
            timeout=_PROBE_TIMEOUT_S,
        )
        told: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"refused": f"the check failed: {error}"}
    return told


def main() -> None:
    """Try everything in new namespaces, which end with this process."""
    try:
        enter(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET)
    except OSError as error:
        _tell({"refused": f"{error.strerror or error}{_hint()}"})
        return
    child = os.fork()
    if child == 0:
        try:
            _tell(_try())
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _try() -> dict[str, Any]:
    from kraftwreck.harness.on_host.network import network_means

    try:
        kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
        with tempfile.TemporaryDirectory() as place:
            for kind in ("tmpfs", "proc", "sysfs"):
                kernel.mount(kind, place, kind)
            told = network_means({})
            for _ in range(3):
                kernel.unmount(place)
    except OSError as error:
        return {"refused": f"{error.strerror or error}{_hint()}"}
    return {"refused": "", **told}


def _hint() -> str:
    """Return the machine's setting that forbids it, if there is one."""
    for setting, forbids in _FORBIDDING.items():
        try:
            if Path("/proc/sys", setting).read_text().strip() == forbids:
                return f" (sysctl {setting.replace('/', '.')} is {forbids})"
        except OSError:
            continue
    return ""


def _tell(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
