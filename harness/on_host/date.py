"""On a host with its own kernel: set its wall clock forward or back with date(1).

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The clock belongs to a kernel, and all its users share it. So it is set only if the kernel belongs
to this host alone: not to the control node (its boot id must differ) and not to other containers.
Every request must contain the control node's boot id; without it nothing is set.

The monotonic clock, which cannot be set, defines the right time: :data:`FILE` records how far the
wall clock was from it before the first change. Healing needs nothing else. A reboot restarts the
monotonic clock and removes the file.
"""

from __future__ import annotations

import ctypes
import errno
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.process import RefusedError

FILE = "/run/kraftwreck-date"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SECOND = 1_000_000_000
TOLERANCE_NS = SECOND // 4
"""Tolerated difference between the requested time and the clock after it was set."""
ATTEMPTS = 4
"""How often the clock is set at most, to compensate for the run time of date itself."""
_KEEPERS = frozenset({"chronyd", "ntpd", "openntpd", "systemd-timesyn", "VBoxService", "vmtoolsd"})
"""Programs that set a clock right, by their names in /proc, which are cut after 15 bytes."""
_CAP_SYS_TIME = 25
_ADJ_TICK, _TIMEX_SIZE, _TICK_AT = 0x4000, 208, 88


def boot_id() -> str:
    """Return the id of the kernel's boot, the same for all users of a kernel."""
    return Path(BOOT_ID).read_text().strip()


def refusal(control: str) -> str:
    """Return why the wall clock of this host must not or cannot be set, "" if it can.

    ``control`` is the boot id of the control node's kernel. No check changes anything, and if the
    kernel is the control node's, none is made.
    """
    return shared(control) or may_set() or kept_by()


def shared(control: str) -> str:
    """Return why this host shares its clock, "" if it does not."""
    if not control:
        return "it is unknown whether the kernel is the control node's own"
    if boot_id() == control:
        return "the kernel is the control node's own, and with it the clock"
    return container()


def container() -> str:
    """Return a sign that this is a container, which shares its clock, "" if there is none."""
    # LXC gives every container its own boot id, so the boot id is not enough.
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    if any(mount.split()[4] == BOOT_ID for mount in mounts):
        return "it is a container (its boot id is not its kernel's), which shares its clock"
    for mark in ("/.dockerenv", "/run/.containerenv", "/run/systemd/container"):
        if Path(mark).exists():
            return f"it is a container ({mark}), which shares its clock"
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return "it is a container (a user namespace), which shares its clock"
    if b"container=" in Path("/proc/1/environ").read_bytes():
        return "it is a container (according to its first process), which shares its clock"
    return ""


def may_set() -> str:
    """Return why this process may not set the clock, "" if it may."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.M)
    if not found or not int(found[1], 16) >> _CAP_SYS_TIME & 1:
        return "it lacks the capability to set the clock (CAP_SYS_TIME)"
    # The kernel rejects a tick of 1 as a value only if this process may set valid ones.
    timex = ctypes.create_string_buffer(_TIMEX_SIZE)
    ctypes.c_uint.from_buffer(timex).value = _ADJ_TICK
    ctypes.c_long.from_buffer(timex, _TICK_AT).value = 1
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(timex) == -1 and ctypes.get_errno() == errno.EINVAL:
        return ""
    return "its kernel does not allow setting the clock"


def kept_by() -> str:
    """Return what would correct the clock at once, "" if nothing would."""
    for entry in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = entry.read_text().strip()
        except OSError:
            continue
        if name in _KEEPERS:
            return f"{name} runs there and would correct the clock: stop it"
    return ""


def clock_means(request: dict[str, Any]) -> dict[str, Any]:
    """Return how the node's wall clock can be changed here, and why not with ``date``."""
    why = refusal(request["control"])
    return {"means": "library" if why else "date", "why": why, "boot_id": boot_id()}


def base() -> int | None:
    """Return how far (ns) the right wall clock is from the monotonic one, None if the wall clock
    has not been set since the machine was booted."""
    try:
        known = json.loads(Path(FILE).read_text())
    except (OSError, ValueError):
        return None
    return int(known["base"]) if known["boot_id"] == boot_id() else None


def distance() -> int:
    """Return how far (ns) the wall clock is from the monotonic one, as measured with ``date``."""
    from decimal import Decimal  # It takes a twelfth of an agent's start, and few runs need it.

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
    """Return how far (ns) the wall clock is ahead of the right time, as measured; 0 if it was never
    set."""
    known = base()
    return 0 if known is None else distance() - known


def put_ahead(by: int, control: str) -> dict[str, Any]:
    """Set the wall clock ``by`` ns ahead of the right time; return the measurements.

    Raises :class:`RefusedError`, before any change, if this is not allowed.
    """
    # Programs that correct the clock may run while it is being corrected.
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
        raise RefusedError(f"date has set the clock {after} ns ahead instead of {by}")
    return {"means": "date", "ahead_before_us": before // 1000, "ahead_us": after // 1000}


def right_date(request: dict[str, Any]) -> dict[str, Any]:
    """Correct the wall clock if a fault changed it; return whether one did."""
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
