"""Linux calls that Python 3.11 does not offer: namespaces, mounts, capabilities.

All raise :class:`OSError` with the name of the call. Sources: unshare(2), setns(2), mount(2),
pivot_root(2), prctl(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION = 0x2008_0522

CAPABILITIES = {
    "chown": 0, "dac_override": 1, "dac_read_search": 2, "fowner": 3, "fsetid": 4, "kill": 5,
    "setgid": 6, "setuid": 7, "setpcap": 8, "linux_immutable": 9, "net_bind_service": 10,
    "net_broadcast": 11, "net_admin": 12, "net_raw": 13, "ipc_lock": 14, "ipc_owner": 15,
    "sys_module": 16, "sys_rawio": 17, "sys_chroot": 18, "sys_ptrace": 19, "sys_pacct": 20,
    "sys_admin": 21, "sys_boot": 22, "sys_nice": 23, "sys_resource": 24, "sys_time": 25,
    "sys_tty_config": 26, "mknod": 27, "lease": 28, "audit_write": 29, "audit_control": 30,
    "setfcap": 31, "mac_override": 32, "mac_admin": 33, "syslog": 34, "wake_alarm": 35,
    "block_suspend": 36, "audit_read": 37, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40,
}  # fmt: skip
"""Capability numbers by name, from linux/capability.h."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the caller (for NEWPID: its future children) into new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Join the namespace that ``fd`` refers to."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Call mount(2)."""
    _check(
        _libc.mount(
            source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
        ),
        f"mount {kind or 'bind'} on {target}",
    )


def mount_overlay(target: Path, upper: Path, work: Path) -> None:
    """Mount a copy-on-write view of the machine's root; ``work`` is recreated.

    The mount is volatile if the kernel supports that (5.10). Otherwise its end would wait, up to
    half a minute, until all dirty data of the machine is on disk.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    layers = f"lowerdir=/,upperdir={upper},workdir={work}"
    try:
        mount("overlay", str(target), "overlay", 0, f"{layers},volatile")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        mount("overlay", str(target), "overlay", 0, layers)


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root; move the old one to ``old`` and detach it."""
    _check(_libc.pivot_root(new.encode(), old.encode()), "pivot_root")
    os.chdir("/")
    relative = "/" + os.path.relpath(old, new)
    unmount(relative)
    Path(relative).rmdir()


def unmount(target: str) -> None:
    """Remove the topmost mount from ``target``, now or as soon as it is unused."""
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"umount {target}")


def die_with_parent() -> None:
    """Request SIGKILL for this process when the thread that forked it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl PDEATHSIG")


def bound_capabilities(kept: frozenset[str]) -> None:
    """Drop every capability except ``kept`` from all programs that this process executes.

    This is an allow-list: capabilities of newer kernels are dropped, too.
    """
    keep = {CAPABILITIES[name] for name in kept}
    for number in all_capabilities() - keep:
        _check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), f"drop capability {number}")


def all_capabilities() -> set[int]:
    """Return the numbers of all capabilities of this kernel."""
    return set(range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1))


def hold_capabilities(numbers: set[int]) -> None:
    """Hold exactly these capabilities, and pass them on to executed programs.

    This is for processes of plain users (ambient capabilities, since Linux 4.3); root passes on
    everything in its bounding set.
    """
    low = sum(1 << number for number in numbers if number < 32)
    high = sum(1 << (number - 32) for number in numbers if number >= 32)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _check(_libc.capset(header, sets), "capset")
    for number in numbers:
        raised = _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0)
        _check(raised, f"pass capability {number} on")
