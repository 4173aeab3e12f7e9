"""The root file system of a plain user's host: programs of the machine, everything else private.

The kernel refuses an overlay over the machine's root in a user namespace. So hosts see the
machine's own programs and libraries, read-only. ``/etc`` has links to the machine's entries except
those that identify a host (names, accounts, keys). ``/var``, ``/opt`` and the like start empty.
"""

from __future__ import annotations

import os
from pathlib import Path

from kraftwreck.harness.clusters.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
)
from kraftwreck.harness.clusters.rootless import USER

_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DIRECTORIES = ("proc", "sys", "dev", "run", "tmp", "root", "home", "opt", "srv", "mnt", "media")
_VAR = ("lib", "log", "cache", "spool", "tmp")
_OWN = frozenset({"hostname", "hosts", "ssh", "passwd", "group", "shadow", "gshadow",
                  "nsswitch.conf", "kraftwreck"})  # fmt: skip
"""The host's own entries in /etc."""
_SEEN = ".machine-etc"
"""Where a host sees the machine's /etc."""


def build(root: Path) -> None:
    """Make ``root`` the start of a host's file system, and a mount. Raises OSError."""
    mount(str(root), str(root), "", MS_BIND)
    if (root / "usr").exists():
        # It has been booted before: its files exist, its mounts do not.
        _show_programs(root)
        _see(Path("/etc"), root / _SEEN)
        return
    for name in _DIRECTORIES:
        (root / name).mkdir()
    _show_programs(root)
    (root / "var").mkdir()
    for name in _VAR:
        (root / "var" / name).mkdir()
    (root / "var/tmp").chmod(0o1777)
    (root / "var/run").symlink_to("/run")
    _build_etc(root)


def _show_programs(root: Path) -> None:
    for name in _PROGRAMS:
        source, target = Path("/", name), root / name
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif source.is_dir():
            target.mkdir(exist_ok=True)
            _see(source, target)


def _see(source: Path, target: Path) -> None:
    """Mount ``source`` at ``target``, read-only."""
    mount(str(source), str(target), "", MS_BIND | MS_REC)
    # A namespace with fewer privileges must keep these flags (mount_namespaces(7)).
    locked = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("none", str(target), "", MS_REMOUNT | MS_BIND | MS_RDONLY | locked)


def _build_etc(root: Path) -> None:
    etc, seen = root / "etc", root / _SEEN
    etc.mkdir()
    seen.mkdir()
    _see(Path("/etc"), seen)
    for entry in Path("/etc").iterdir():
        if entry.name in _OWN:
            continue
        # Links are copied, so that relative ones keep their targets.
        link = entry.readlink() if entry.is_symlink() else Path("/", _SEEN, entry.name)
        (etc / entry.name).symlink_to(link)
    user, group = os.geteuid(), os.getegid()
    (etc / "passwd").write_text(
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        f"{USER}:x:{user}:{group}::/root:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (etc / "group").write_text(f"root:x:0:\n{USER}:x:{group}:\nnogroup:x:65534:\n")
    (etc / "shadow").touch(mode=0o600)
    (etc / "shadow").write_text(f"root:*:19000::::::\n{USER}:*:19000::::::\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\n"
                                       "hosts: files dns\n")  # fmt: skip
