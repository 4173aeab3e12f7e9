"""Things on a machine that Vagrant and its providers could have added to it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    *("docker", "containerd", "libvirt", "qemu", "virbr", "vnet", "vagrant", "veth", "br-"),
    *("lxc", "kraftwreck0"),
    *("172.31.253.", "192.168.56.", "192.168.121."),
)
"""Names of their interfaces. Other programs may bring interfaces up and down meanwhile."""


def seen(directory: Path) -> set[str]:
    """Everything of theirs, a line each; ``directory`` is where they keep their files."""
    lines = [
        *_output("ip", "-o", "link"),
        *_output("ip", "-o", "-4", "addr"),
        *_output("ip", "-4", "route", "show", "table", "all"),
        *_output("nft", "list", "ruleset"),
        *_output("losetup", "-a"),
        *Path("/proc/mounts").read_text().splitlines(),
        *map(str, Path("/sys/fs/cgroup").glob("*docker*")),
        *map(str, Path("/sys/fs/cgroup").glob("*/*docker*")),
        *map(str, Path("/sys/fs/cgroup").glob("*vagrant*")),
        *map(str, Path("/sys/fs/cgroup").glob("*/*vagrant*")),
        *map(str, Path("/etc/docker").glob("*")),
        *map(str, Path("/run").glob("*docker*")),
        *map(str, Path("/var/lib/docker").glob("*")),
        *map(str, Path("/run").glob("*lxc*")),
        *map(str, Path("/var/lib/lxc").glob("*")),
        *map(str, Path("/var/log/lxc").glob("*")),
        *map(str, Path("/sys/fs/cgroup").glob("lxc*")),
        *map(str, Path("/sys/fs/cgroup").glob("*/lxc*")),
        *map(str, Path("/run").glob("*libvirt*")),
        *map(str, Path("/var/lib/libvirt").rglob("*")),
        *map(str, (Path.home() / ".vagrant.d").glob("*")),
        *map(str, (ROOT / ".vagrant").rglob("*")),
    ]
    words = (*WORDS, str(directory))
    found = {line for line in lines if any(word in line for word in words)}
    if directory.exists():
        found.add(str(directory))
    return found | {f"process {line}" for line in _processes(directory)}


def _processes(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(directory) in told:
            found.append(f"{entry.name} {told[:100]!r}")
    return found


def _output(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def clock_offset() -> float:
    """How far this machine's wall clock is from its monotonic clock, in seconds.

    It changes when somebody sets the clock, and only then.
    """
    return time.time() - time.monotonic()
