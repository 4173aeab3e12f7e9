"""Namespaces for a plain user: no root, no set-uid helper, nothing that has to be installed.

The owner of a cluster moves into a user namespace where the user keeps its own id and has every
capability, over what is of that namespace only: its networks, mounts and processes. They pass to
programs as ambient capabilities (capabilities(7)); no id but the user's is mapped, so that no
process there can become anybody else. Sources: user_namespaces(7).

Run as ``python -m harness.clusters.rootless``, this file tells as one JSON line what is possible.
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

from harness.clusters import kernel

USER = "kraftwreck"
"""The name that the user has on hosts."""
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_PROBE_TIMEOUT_S = 30.0
_FORBIDDING = {
    "kernel/apparmor_restrict_unprivileged_userns": "1",
    "kernel/unprivileged_userns_clone": "0",
    "user/max_user_namespaces": "0",
}
"""Settings of the machine by which plain users can have no such namespaces."""
_PROJECT = Path(__file__).resolve().parents[2]


def needed() -> bool:
    """Tell whether this process is a plain user's."""
    return os.geteuid() != 0


def search_path() -> str:
    """Return where programs are looked for: a plain user's PATH often lacks those of root."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"


def enter(flags: int) -> None:
    """Move into a new user namespace, and with ``flags`` into others that it owns.

    Raises OSError. The process must have one thread.
    """
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | flags)
    # Without this a plain user may not map a group: it could shed one that forbids something.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    kernel.hold_capabilities(kernel.all_capabilities())


def examine() -> dict[str, Any]:
    """Return what a plain user's hosts can do here: ``refused`` is one line, "" when there can be
    some; ``means`` and ``why`` are those of :func:`harness.on_host.network.network_means`."""
    return dict(_examine(os.geteuid()))


@cache
def _examine(user: int) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-m", "harness.clusters.rootless"],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": search_path(), "PYTHONPATH": str(_PROJECT)},
            timeout=_PROBE_TIMEOUT_S,
        )
        told: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"refused": f"what is possible cannot be found out: {error}"}
    return told


def main() -> None:
    """Try everything in namespaces of our own, which end with this process."""
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
    from harness.on_host.network import network_means

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
    """Return which setting of the machine forbids it, if one is known to."""
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
