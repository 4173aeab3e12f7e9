"""On a host with a kernel of its own: its wall clock is put ahead or back by date(1).

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The clock belongs to a kernel, and so to everybody who shares it. It is set only where the kernel
is nobody else's: not the control node's (its boot id differs from ours), and no container's. Who
asks must tell the control node's boot id every time; without it nothing is set.

What is right is told by the monotonic clock, which no setting moves: :data:`FILE` keeps how far
the wall clock was from it before it was first set. Whoever heals needs nothing else, and a reboot,
which begins the monotonic clock anew, takes the file away.
"""

from __future__ import annotations

import ctypes
import errno
import json
import re
import subprocess
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.on_host.process import RefusedError

FILE = "/run/kraftwreck-date"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SECOND = 1_000_000_000
TOLERANCE_NS = SECOND // 4
"""How far from what was asked for the clock may be once it is set; a busy machine is late."""
ATTEMPTS = 4
"""How often it is set at most: where date itself takes longer than that, by so much more."""
_KEEPERS = frozenset({"chronyd", "ntpd", "openntpd", "systemd-timesyn", "VBoxService", "vmtoolsd"})
"""Programs that set a clock right, by their names in /proc; those are cut after 15 bytes."""
_CAP_SYS_TIME = 25
_ADJ_TICK, _TIMEX_SIZE, _TICK_AT = 0x4000, 208, 88


def boot_id() -> str:
    """Return the id of the kernel's boot; all who share a kernel have the same."""
    return Path(BOOT_ID).read_text().strip()


def refusal(control: str) -> str:
    """Return why the wall clock of this host must not or cannot be set, "" where it may be.

    ``control`` is the boot id of the control node's kernel. Nothing is tried that could change
    anything; nothing at all is tried where the kernel is the control node's.
    """
    return shared(control) or may_set() or kept_by()


def shared(control: str) -> str:
    """Return with whom this host shares its clock, "" if with nobody."""
    if not control:
        return "it is not known whether the kernel is the control node's own"
    if boot_id() == control:
        return "the kernel is the control node's own, and with it the clock"
    return container()


def container() -> str:
    """Return what says that this is a container, whose clock is others', too, "" if nothing."""
    # LXC gives every container a boot id of its own, so that one tells nothing.
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    if any(mount.split()[4] == BOOT_ID for mount in mounts):
        return "it is a container (its boot id is not its kernel's), whose clock is others', too"
    for mark in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"):
        if Path(mark).exists():
            return f"it is a container ({mark}), whose clock is others', too"
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return "it is a container (a user namespace), whose clock is others', too"
    if b"container=" in Path("/proc/1/environ").read_bytes():
        return "it is a container (its first process says so), whose clock is others', too"
    return ""


def may_set() -> str:
    """Return why this process may not set the clock, "" if it may."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.M)
    if not found or not int(found[1], 16) >> _CAP_SYS_TIME & 1:
        return "it lacks the capability to set the clock (CAP_SYS_TIME)"
    # A tick of 1 is refused as a value by a kernel that would take others from us.
    timex = ctypes.create_string_buffer(_TIMEX_SIZE)
    ctypes.c_uint.from_buffer(timex).value = _ADJ_TICK
    ctypes.c_long.from_buffer(timex, _TICK_AT).value = 1
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(timex) == -1 and ctypes.get_errno() == errno.EINVAL:
        return ""
    return "its kernel does not let its clock be set"


def kept_by() -> str:
    """Return what would set the clock right at once, "" if nothing does."""
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = entry.read_text().strip()
        except OSError:
            continue
        if name in _KEEPERS:
            return f"{name} runs there and would set it right: stop it"
    return ""


def clock_means(request: dict[str, Any]) -> dict[str, Any]:
    """Tell by what means the node's wall clock is put wrong here, and why not by ``date``."""
    why = refusal(request["control"])
    return {"means": "library" if why else "date", "why": why, "boot_id": boot_id()}


def base() -> int | None:
    """Return how far (ns) the wall clock is from the monotonic one when it is right, None if it was
    not set, or not since the machine was booted."""
    try:
        known = json.loads(Path(FILE).read_text())
    except (OSError, ValueError):
        return None
    return int(known["base"]) if known["boot_id"] == boot_id() else None


def distance() -> int:
    """Return how far (ns) the wall clock is from the monotonic one, as ``date`` tells it."""
    best: tuple[int, int] | None = None
    for _ in range(3):
        before = time.monotonic_ns()
        told = _date("+%s.%N")
        after = time.monotonic_ns()
        found = int(Decimal(told) * SECOND) - (before + after) // 2
        if best is None or after - before < best[0]:
            best = (after - before, found)
    assert best is not None
    return best[1]


def ahead() -> int:
    """Return how far (ns) the wall clock is ahead of what is right, as measured; 0 if it was never
    set."""
    known = base()
    return 0 if known is None else distance() - known


def put_ahead(by: int, control: str) -> dict[str, Any]:
    """Put the wall clock ``by`` ns ahead of what is right; return what was measured.

    Raises :class:`RefusedError`, before anything is done, where that must not be.
    """
    # What sets it right anyway may go on while we do the same.
    why = refusal(control) if by else shared(control) or may_set()
    if why:
        raise RefusedError(f"the clock of this host is not set: {why}")
    known = base()
    if known is None:
        known = distance()
        Path(FILE).write_text(json.dumps({"boot_id": boot_id(), "base": known}))
    before = distance() - known
    late = 0
    for _ in range(ATTEMPTS):
        _set(known + by + late)
        after = distance() - known
        if abs(after - by) <= TOLERANCE_NS:
            break
        late += by - after
    else:
        raise RefusedError(f"date has set the clock to {after} ns ahead, and not {by}")
    return {"means": "date", "ahead_before_us": before // 1000, "ahead_us": after // 1000}


def right_date(request: dict[str, Any]) -> dict[str, Any]:
    """Set the wall clock right if it was put ahead or back by us; tell whether it was."""
    known = base()
    if known is None:
        return {"wrong": False}
    evidence = put_ahead(0, request["control"])
    Path(FILE).unlink()
    return {"wrong": abs(evidence["ahead_before_us"]) * 1000 > TOLERANCE_NS, **evidence}


def _set(far: int) -> None:
    seconds, rest = divmod(time.monotonic_ns() + far, SECOND)
    _date("-s", f"@{seconds}.{rest:09d}")


def _date(*arguments: str) -> str:
    done = subprocess.run(["date", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RefusedError(f"date: {said}")
    return done.stdout.strip()
