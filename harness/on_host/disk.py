"""On a host: disk faults in a node's preloaded library (``diskwork.c``), and damaged files.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

The library's control file is changed in place, since processes map it. It has the kind of fault,
its parameters, and counters of its effects, all 64-bit integers. A file beside it records damage
until it is repaired, so that any process can repair it.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.files import BATCH

Request = dict[str, Any]
Evidence = dict[str, Any]

FIELDS = (
    "kind", "factor", "least", "most", "space", "operation", "after", "refused_calls",
    "refused_bytes", "fsyncs", "slowest",
)  # fmt: skip
TROUBLE = struct.Struct(f"<{len(FIELDS)}q")
KINDS = ("well", "slow", "full", "error", "readonly")
OPERATIONS = ("write", "fsync", "read")
MILLISECOND = 1_000_000
LEAST_NS = 1 * MILLISECOND
"""The least duration of an fsync; on a host without a disk it takes no time."""
MOST_NS = 1000 * MILLISECOND


class DiskRefusedError(OSError):
    """The request cannot be carried out."""


# --- trouble ----------------------------------------------------------------------------


def create_disk(request: Request) -> Evidence:
    """End all faults of a service's disk."""
    path = Path(request["service"]["disk"])
    path.write_bytes(bytes(TROUBLE.size))
    path.chmod(0o600)
    return {}


def read_trouble(path: str) -> dict[str, int]:
    """Return the fields of a control file."""
    return dict(zip(FIELDS, TROUBLE.unpack(Path(path).read_bytes()[: TROUBLE.size])))  # noqa: B905 - Python 3.9


def write_trouble(path: str, **fields: int) -> None:
    """Begin or end a fault; its kind is written last, and cleared first."""
    values = [fields.get(name, 0) for name in FIELDS]
    with Path(path).open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), bytes(8), 0)
        os.pwrite(file.fileno(), TROUBLE.pack(*values)[8:], 8)
        os.pwrite(file.fileno(), struct.pack("<q", values[0]), 0)


def trouble_disk(request: Request) -> Evidence:
    """Give the disk of a service a fault, ``trouble``: slow, full, error or readonly.

    ``factor`` is for slow disks, ``space`` for full ones, ``failing`` and ``after`` for errors.
    """
    service, trouble = request["service"], request["trouble"]
    write_trouble(
        service["disk"],
        kind=KINDS.index(trouble),
        factor=request.get("factor", 1),
        least=LEAST_NS,
        most=MOST_NS,
        space=request.get("space", 0),
        operation=OPERATIONS.index(request.get("failing", "write")),
        after=request.get("after", 0),
    )
    return told(service["disk"], request.get("failing", ""))


def told(path: str, failing: str = "") -> Evidence:
    """Return the effects of the current fault so far; times in microseconds."""
    known = read_trouble(path)
    kind = KINDS[known["kind"]]
    evidence: Evidence = {"trouble": kind}
    if kind == "slow":
        evidence["factor"] = known["factor"]
        evidence["fsyncs"] = known["fsyncs"]
        evidence["slowest_fsync_us"] = known["slowest"] // 1000
    elif kind != "well":
        evidence["refused_calls"] = known["refused_calls"]
        evidence["refused_bytes"] = known["refused_bytes"]
    if kind == "full":
        evidence["space_left"] = known["space"]
    elif kind == "error":
        evidence["failing"] = failing or OPERATIONS[known["operation"]]
    return evidence


def end_trouble(path: str) -> Evidence:
    """End the fault of a disk and return its effects; empty if there was none."""
    if not Path(path).exists():
        return {}
    evidence = told(path)
    write_trouble(path)
    return {} if evidence["trouble"] == "well" else evidence


def mend_disk(request: Request) -> Evidence:
    """End the fault of a service's disk, and repair remaining damage."""
    service = request["service"]
    evidence = end_trouble(service["disk"]) if "disk" in service else {}
    return evidence | put_right(service)


# --- damage -----------------------------------------------------------------------------


def damage_disk(request: Request) -> Evidence:
    """Change one bit in a file of a stopped service, or tear the end of its log.

    ``places`` are numbers in [0, 1) that choose file, byte and bit, three per attempt. The first
    attempt whose damage a node must detect is used. See the fault model in docs/faults.md.
    """
    service = request["service"]
    if damaged({"service": service})["damaged"]:
        raise DiskRefusedError("its disk is already damaged")
    if request["damage"] == "torn":
        return tear(service, request["places"][0])
    for which, where, bit in request["places"]:
        usable = flippable(Path(service["data"]))
        if not usable:
            break
        kind, path = usable[int(which * len(usable))]
        before = path.read_bytes()
        place, number = int(where * len(before)), int(bit * 8)
        after = bytearray(before)
        after[place] ^= 1 << number
        if kind == "quorum-state" and reads_as_another(before, bytes(after)):
            continue
        start, end = unit(kind, before, place)
        remember(service, path, place, before[place : place + 1], bytes(after), start, end)
        overwrite(path, place, bytes(after[place : place + 1]))
        return {"flipped": True, "file": path.name, "byte": place, "bit": number}
    return {"flipped": False}


def flippable(data: Path) -> list[tuple[str, Path]]:
    """Return the files in which a bit may change, by kind; segments twice, as they matter most.

    Segments that end in a torn write are left out: of two faults at the end of a log, one can hide
    the other.
    """
    folder = data / "__cluster_metadata-0"
    segments = sorted(folder.glob("*.log"))
    if segments and whole(segments[-1].read_bytes()) != segments[-1].stat().st_size:
        segments = []
    kinds = [
        *(("log", path) for path in segments * 2),
        *(("snapshot", path) for path in sorted(folder.glob("*.checkpoint"))),
        ("quorum-state", folder / "quorum-state"),
        ("checkpoint", folder / "leader-epoch-checkpoint"),
    ]
    snapshot = re.compile(r"\d{20}-\d{10}\.checkpoint")
    return [
        (kind, path)
        for kind, path in kinds
        if path.is_file()
        and path.stat().st_size
        and (kind != "snapshot" or snapshot.fullmatch(path.name))
    ]


def batches(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the whole batches of a segment begin and end, up to the first that is not."""
    start = 0
    while start + BATCH.size <= len(content):
        end = start + 12 + BATCH.unpack_from(content, start)[1]
        if end <= start + 12 or end > len(content):
            return
        yield start, end
        start = end


def whole(content: bytes) -> int:
    """Return the end of the last whole batch of a segment."""
    return max((end for _, end in batches(content)), default=0)


def unit(kind: str, content: bytes, place: int) -> tuple[int, int]:
    """Return the bytes that a checksum covers together with the one at ``place``: a batch of a
    segment, or the whole file."""
    if kind != "log":
        return 0, len(content)
    for start, end in batches(content):
        if start <= place < end:
            return start, end
    return whole(content), len(content)


def reads_as_another(before: bytes, after: bytes) -> bool:
    """Return whether a changed quorum-state without a checksum (of another program, or an
    older release) is well-formed with the same fields: a node could not detect that."""
    if b"crc32c" in before:
        return False
    try:
        old, new = json.loads(before), json.loads(after)
    except ValueError:
        return False
    return isinstance(new, dict) and set(new) == set(old)


def tear(service: Request, places: list[float]) -> Evidence:
    """Append the beginning of a batch to the log, like a write cut short by a loss of power.

    The bytes are those of the last batch, with the next offset.
    """
    segments = sorted(Path(service["data"]).glob("__cluster_metadata-0/*.log"))
    path = segments[-1] if segments else None
    content = path.read_bytes() if path else b""
    start, end = max(batches(content), default=(0, 0))
    last = content[start:end]
    if path is None or not last or end != len(content):
        return {"torn": False}
    base, _, delta = BATCH.unpack_from(last)
    batch = struct.pack(">q", base + delta + 1) + last[8:]
    part = batch[: 1 + int(places[1] * (len(batch) - 1))]
    remember(service, path, end, b"", content + part, end, end + len(part))
    with path.open("ab") as file:
        file.write(part)
        os.fsync(file.fileno())
    return {"torn": True, "file": path.name, "byte": end, "bytes": len(part), "of": len(batch)}


def damaged(request: Request) -> Evidence:
    """Return whether damage remains: no process has repaired or replaced the file."""
    found = remembered(request["service"])
    return {"damaged": found is not None and is_there(found)}


def is_there(damage: dict[str, Any]) -> bool:
    """Whether the file still holds what the damage made of it.

    A node that repaired its log may have written other batches to the same place, and they may
    begin with the same bytes. So a changed byte is compared with its whole batch, and the part of
    a batch that was added must still be the end of the file.
    """
    try:
        path = Path(damage["path"])
        with path.open("rb") as file:
            file.seek(damage["start"])
            after = bytes.fromhex(damage["after"])
            size = path.stat().st_size
            return (
                path.stat().st_ino == damage["inode"]
                and (bool(damage["before"]) or size == damage["start"] + len(after))
                and file.read(len(after)) == after
            )
    except OSError:
        return False


def put_right(service: Request) -> Evidence:
    """Undo damage that remains; do nothing without any."""
    damage = remembered(service)
    if damage is None:
        return {}
    there = is_there(damage)
    if there:
        path, before = Path(damage["path"]), bytes.fromhex(damage["before"])
        if before:
            overwrite(path, damage["byte"], before)
        else:
            os.truncate(path, damage["byte"])
    Path(record(service)).unlink()
    return {"put_right": True, "file": Path(damage["path"]).name} if there else {}


def forget_damage(service: Request) -> None:
    """Forget the damage of a replaced disk, and faults of its files."""
    with suppress(FileNotFoundError):
        Path(record(service)).unlink()


def overwrite(path: Path, place: int, content: bytes) -> None:
    """Change bytes in place, whatever the file's mode."""
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def record(service: Request) -> str:
    return f"{service['pid_file']}.damage"


def remember(
    service: Request, path: Path, place: int, before: bytes, after: bytes, start: int, end: int
) -> None:
    """Record damage before it is done: the bytes ``before`` at ``place``, and those of the content
    ``after`` it between ``start`` and ``end``."""
    Path(record(service)).write_text(
        json.dumps(
            {
                "path": str(path),
                "inode": path.stat().st_ino,
                "byte": place,
                "before": before.hex(),
                "start": start,
                "after": after[start:end].hex(),
            }
        )
    )


def remembered(service: Request) -> dict[str, Any] | None:
    try:
        known: dict[str, Any] = json.loads(Path(record(service)).read_text())
    except FileNotFoundError:
        return None
    return known


def heal_disk(service: Request) -> Evidence:
    """End faults and damage of a service's disk, from any run; return what there was."""
    return end_trouble(service["disk"]) | put_right(service)


ACTIONS = {
    action.__name__: action
    for action in (create_disk, trouble_disk, damage_disk, damaged, mend_disk)
}
