"""On a host: the file with which a node's preloaded library (``clockwork.c``) sets its clocks.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The file is changed in place, since processes map it. It has an 8-byte counter of the changes, and
two pairs of settings; the last bit of the counter selects one. A pair is the previous setting and
the current one. A setting is five 64-bit integers:

- its start (ns of the machine's monotonic clock)
- the node's monotonic clock at that time (ns)
- the rate (ppm faster)
- how far the wall clock is ahead (ns)
- the period of a strobe (ns)
"""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

from kraftwreck.harness.on_host import date

COUNT = struct.Struct("<Q")
SETTING = struct.Struct("<5q")
PAIR = 2 * SETTING.size
LEAD_NS = 5_000_000
"""How far ahead a change is scheduled, so that it is written before it takes effect."""
MILLION = 1_000_000
TAIL = 1 << 16


class Setting(NamedTuple):
    """How the clocks run from ``since`` on; all zero: like those of the machine."""

    since: int = 0
    mono: int = 0
    rate_ppm: int = 0
    wall: int = 0
    strobe: int = 0

    def reading(self, mono: int) -> int:
        """Return the node's monotonic clock (ns) when the machine's reads ``mono``."""
        passed = mono - self.since
        # Round towards zero, like C.
        gained = abs(passed * self.rate_ppm) // MILLION
        return self.mono + passed + (gained if passed * self.rate_ppm >= 0 else -gained)


def create(path: str) -> None:
    """Write a file that leaves clocks undisturbed, readable for every process."""
    content = COUNT.pack(0) + 4 * SETTING.pack(*Setting())
    Path(path).write_bytes(content)
    Path(path).chmod(0o644)


def read(path: str) -> Setting:
    """Return the current setting, or the one about to take effect."""
    content = Path(path).read_bytes()
    (changes,) = COUNT.unpack_from(content)
    return Setting(*SETTING.unpack_from(content, COUNT.size + (changes & 1) * PAIR + SETTING.size))


def change(path: str, wall: int, strobe: int, rate_ppm: int) -> tuple[Setting, bool]:
    """Apply a new setting and return it once it is in force, and whether it was late.

    Late means that readers may have used the previous setting for some microseconds.
    """
    with Path(path).open("r+b", buffering=0) as file:
        (changes,) = COUNT.unpack(os.pread(file.fileno(), COUNT.size, 0))
        known = read(path)
        while time.monotonic_ns() <= known.since:
            time.sleep(0.001)
        since = time.monotonic_ns() + LEAD_NS
        new = Setting(since, known.reading(since), rate_ppm, wall, strobe)
        place = COUNT.size + (changes + 1 & 1) * PAIR
        os.pwrite(file.fileno(), SETTING.pack(*known) + SETTING.pack(*new), place)
        os.pwrite(file.fileno(), COUNT.pack(changes + 1), 0)
        late = time.monotonic_ns() >= since
    while time.monotonic_ns() <= since:
        time.sleep(0.0005)
    return new, late


def last_traced(trace: str) -> tuple[dict[str, Any], int]:
    """Return the last complete line of a trace, and when (ns) the file was last written.

    Raises OSError, ValueError, LookupError.
    """
    with Path(trace).open("rb") as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - TAIL))
        line: dict[str, Any] = json.loads(file.read().split(b"\n")[:-1][-1])
    return line, status.st_mtime_ns


def measured(trace: str) -> dict[str, Any]:
    """Return how far (µs) the node's clocks were ahead of the machine's at its last trace line.

    The clock readings in that line are compared with the file's modification time, which the
    kernel sets and no library in the node can change.
    """
    try:
        last, written_ns = last_traced(trace)
        written = written_ns // 1000
        ago = time.time_ns() // 1000 - written
        mono = time.monotonic_ns() // 1000 - ago
        return {
            "seq": [last["incarnation"], last["seq"]],
            "ago_us": ago,
            "wall_ahead_us": last["wall"] - written,
            "mono_ahead_us": last["mono"] - mono,
        }
    except (OSError, ValueError, LookupError) as error:
        return {"unknown": f"{type(error).__name__}: {error}"}


def set_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Set the clocks of a service; the evidence measures them before the change."""
    service = request["service"]
    before = measured(service["trace"])
    wall = request["wall_us"] * 1000
    evidence: dict[str, Any] = {}
    if request.get("means") == "date":
        # Strobes and rates need the library; the rest is set with date.
        by_date = 0 if request["strobe_us"] else wall
        if by_date or date.base() is not None:
            told = date.put_ahead(by_date, request["control"])
            if "wall_ahead_us" in before:
                # The kernel's modification time comes from the same changed clock.
                before["wall_ahead_us"] += told["ahead_before_us"]
            evidence["machine"] = told
            wall -= by_date
    new, late = change(service["clock"], wall, request["strobe_us"] * 1000, request["rate_ppm"])
    return {
        **evidence,
        "measured": before,
        "set": {name: request[name] for name in ("wall_us", "strobe_us", "rate_ppm")},
        "since_us": new.since // 1000,
        "mono_us": new.mono // 1000,
        **({"late": True} if late else {}),
    }


def create_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Let a stopped service start with undisturbed clocks."""
    create(request["service"]["clock"])
    return {}


def right_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Undo the setting in a clock file, if there is one; return whether it was disturbed."""
    path = request["path"]
    if not Path(path).exists():
        return {"wrong": False}
    known = read(path)
    wrong = any((known.rate_ppm, known.wall, known.strobe))
    if wrong:
        change(path, 0, 0, 0)
    return {"wrong": wrong}


def read_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Return simultaneous readings (µs) of the service's and the machine's monotonic clocks."""
    mono = time.monotonic_ns()
    setting = read(request["service"]["clock"])
    return {"since_us": mono // 1000, "mono_us": setting.reading(mono) // 1000}
