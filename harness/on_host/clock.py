"""On a host: the file by which a node's preloaded library (``clockwork.c``) sets its clocks.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The file is changed in place, for it is mapped by whoever goes by it: 8 bytes that count the
changes, then two pairs of settings, of which the last bit of that count chooses one. A pair is
the setting before and the setting now; a setting is five 64-bit integers: since when (ns of the
machine's monotonic clock), what the own monotonic clock reads then (ns), its rate (ppm faster),
ns the wall clock is ahead, ns of a strobe's period.
"""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

from harness.on_host import date

COUNT = struct.Struct("<Q")
SETTING = struct.Struct("<5q")
PAIR = 2 * SETTING.size
LEAD_NS = 5_000_000
"""How far ahead a change is set, so that it is written before it comes into force."""
MILLION = 1_000_000
TAIL = 1 << 16


class Setting(NamedTuple):
    """How the clocks run from ``since`` on; all zero: as those of the machine."""

    since: int = 0
    mono: int = 0
    rate_ppm: int = 0
    wall: int = 0
    strobe: int = 0

    def reading(self, mono: int) -> int:
        """Return what the own monotonic clock reads (ns) when the machine's reads ``mono``."""
        passed = mono - self.since
        # As C does: towards zero.
        gained = abs(passed * self.rate_ppm) // MILLION
        return self.mono + passed + (gained if passed * self.rate_ppm >= 0 else -gained)


def create(path: str) -> None:
    """Write a file by which clocks are those of the machine, for every process to read."""
    content = COUNT.pack(0) + 4 * SETTING.pack(*Setting())
    Path(path).write_bytes(content)
    Path(path).chmod(0o644)


def read(path: str) -> Setting:
    """Return the setting in force now, or a moment ahead."""
    content = Path(path).read_bytes()
    (changes,) = COUNT.unpack_from(content)
    return Setting(*SETTING.unpack_from(content, COUNT.size + (changes & 1) * PAIR + SETTING.size))


def change(path: str, wall: int, strobe: int, rate_ppm: int) -> tuple[Setting, bool]:
    """Put a new setting in force and return it once it is; True if that came late.

    Late means that for some microseconds readers may have seen time by the setting before.
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
    """Return the last whole line of a trace and when (ns) the file was written last.

    Raises OSError, ValueError, LookupError.
    """
    with Path(trace).open("rb") as file:
        status = os.fstat(file.fileno())
        file.seek(max(0, status.st_size - TAIL))
        line: dict[str, Any] = json.loads(file.read().split(b"\n")[:-1][-1])
    return line, status.st_mtime_ns


def measured(trace: str) -> dict[str, Any]:
    """Tell how far ahead of the machine's clocks (µs) the node was when it wrote its trace last.

    What the node says there is held against the time at which the kernel says that the file
    was written, which no library in the node can change.
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
    """Set the clocks of a service as asked; its trace tells how they were until now."""
    service = request["service"]
    before = measured(service["trace"])
    wall = request["wall_us"] * 1000
    evidence: dict[str, Any] = {}
    if request.get("means") == "date":
        # What goes to and fro, and rates, are the library's; so is what is not asked of date.
        by_date = 0 if request["strobe_us"] else wall
        if by_date or date.base() is not None:
            told = date.put_ahead(by_date, request["control"])
            if "wall_ahead_us" in before:
                # The kernel says by the same clock when the trace was written.
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
    """Let a service that is down begin with the clocks of the machine."""
    create(request["service"]["clock"])
    return {}


def right_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Undo what a clock file asks for, if there is one; tell whether it asked for anything."""
    path = request["path"]
    if not Path(path).exists():
        return {"wrong": False}
    known = read(path)
    wrong = any((known.rate_ppm, known.wall, known.strobe))
    if wrong:
        change(path, 0, 0, 0)
    return {"wrong": wrong}


def read_clock(request: dict[str, Any]) -> dict[str, Any]:
    """Tell what the service's monotonic clock and the machine's read at one moment (µs)."""
    mono = time.monotonic_ns()
    setting = read(request["service"]["clock"])
    return {"since_us": mono // 1000, "mono_us": setting.reading(mono) // 1000}
