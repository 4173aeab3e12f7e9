"""Damages copies of a metadata log, of its snapshots and of quorum-state (F28).

No schedule changes what is on a disk, since the node would have to end. So once a node finishes a
snapshot, single bits are changed in copies of its files, and files are cut, emptied or removed. A
process then starts from each copy. A crash can cause none of these defects, so the start must
refuse them: what is missing may have been acknowledged. So it must if one of its reads fails.

The files are copied before the snapshot is finished; the rehearsal waits until the event of the run
is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import FinishSnapshot
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.log.batch import HEADER_SIZE, BatchError, parse_header
from kraftwreck.nodes.log.layout import QUORUM_STATE, segment_name
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.simulation.disk import LOG, ROOT, Disk
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import SECTOR, Filesystem
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.metadata_crashes import LONGEST, REFUSALS, opened

BITS: Final = 6
"""Changed bits of a file."""
MOST_READS: Final = 60
"""More reads than a start needs."""
MOST_FILES: Final = 4
"""Segments in which bits are changed: the last ones."""
_ZEROS: Final = 17
"""So many of them alone in a sector look like bytes that were never written."""
_LENGTH: Final = range(8, 12)
"""The bytes of a batch that say how long it is."""
_EPOCH: Final = range(12, 16)
"""Bytes of a batch that its checksum does not cover, and that another value may fit, too."""


class Damaged(NamedTuple):
    """A changed file; ``content`` is None for one that is removed."""

    path: Path
    content: bytes | None
    change: str


class DamageRehearsal:
    """Rehearses damage at the first snapshot of a run, and at the first that has an older one."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._done: set[bool] = set()
        world.on_write.append(self._on_write)

    @rule(
        "F28",
        "DamageIsRefused",
        "No node starts if one bit has changed in its metadata log, a snapshot or quorum-state. "
        "Nor does it if a segment, a snapshot or a part of quorum-state is missing, or cannot be "
        "read.",
        simulated=True,
    )
    def _on_write(self, host: Host, effect: object) -> None:
        disk = host.disk
        if type(effect) is not FinishSnapshot or not isinstance(disk, Disk):
            return
        has_older = any(end > 0 for end, _ in disk.snapshots)
        if has_older in self._done:
            return
        if disk.trouble is not None or disk.damaged or not 0 < len(disk.log) <= LONGEST:
            return
        self._done.add(has_older)
        files = disk.files.copy_of({ROOT: (), LOG: None})
        seed = draw(self._world.now, "damage", host.id)
        self._world.afterwards(lambda: self._judge(host.name, files, seed))

    def _judge(self, name: str, files: Filesystem, seed: int) -> None:
        try:
            for damaged in damages(files, seed):
                if not is_refused(files, damaged):
                    text = f"{name} would start from a {damaged.path.name} {damaged.change}"
                    self._failures.add("F28", self._world.now, text)
            for number in accepted_reads(files):
                text = f"{name} would start although read {number} of its files has failed"
                self._failures.add("F28", self._world.now, text)
        except Exception as error:
            raise WorldError(f"the damage failed of the log of {name}: {error!r}") from error


def is_refused(files: Filesystem, damaged: Damaged) -> bool:
    """Return whether a process refuses to start from a copy of ``files`` with this damage."""
    copy = files.copy_of(dict.fromkeys(files.directories))
    if damaged.content is None:
        copy.unlink(damaged.path)
    else:
        copy.inode(damaged.path).data[:] = damaged.content
    try:
        opened(copy)
    except REFUSALS:
        return True
    return False


def accepted_reads(files: Filesystem) -> Iterator[int]:
    """Yield the reads of a start whose failure is ignored, so that something is missing."""
    sound = opened(files)
    for number in range(MOST_READS):
        disk = Disk(files=files.copy_of(dict.fromkeys(files.directories)))
        disk.files.trouble = trouble = DiskTrouble.once("read", number)
        try:
            disk.recover()
        except REFUSALS:
            continue
        if not trouble.refused_calls:
            return
        if (disk.quorum_state, disk.log, disk.snapshots) != (
            sound.quorum_state,
            sound.log,
            sound.snapshots,
        ):
            yield number


def damages(files: Filesystem, seed: int) -> Iterator[Damaged]:
    """Yield damaged files of a node that has stopped in good order."""
    disk = opened(files)
    for base in disk.segments[-MOST_FILES:]:
        path = LOG / segment_name(base)
        content = bytes(files.inode(path).data)
        yield from _changed_bits(path, content, draw(seed, base))
    newest = max((end for end, _ in disk.snapshots), default=0)
    for base, following in pairwise(disk.segments):
        if base != disk.segments[0] or newest < following:
            yield Damaged(LOG / segment_name(base), None, "that is missing")
    for name in disk.snapshots:
        path = LOG / snapshot_name(*name)
        content = bytes(files.inode(path).data)
        yield from _changed_bits(path, content, draw(seed, *name))
        yield Damaged(path, content[: len(content) // 2], "of which the second half is missing")
    if len(disk.snapshots) == 1 and disk.segments[0] > 0:
        yield Damaged(path, None, "that is missing")
    path = LOG / QUORUM_STATE
    if disk.quorum_state is not None:
        content = bytes(files.inode(path).data)
        for number in range(BITS):
            place = draw_below(len(content), seed, "state", number)
            yield _with_bit(path, content, place, draw(seed, "bit", number) % 8)
        yield Damaged(path, content[: len(content) // 2], "of which the second half is missing")
        yield Damaged(path, b"", "that is empty")


def _changed_bits(path: Path, content: bytes, seed: int) -> Iterator[Damaged]:
    """Yield changes of bits in batches: in the last one, and in others that are drawn."""
    batches = list(_batches(content))
    for number in range(BITS if batches else 0):
        chosen = -1 if number < 3 else draw_below(len(batches), seed, number, "batch")
        start, length = batches[chosen]
        if _has_empty_sector(content, start):
            continue
        where = (_LENGTH, range(HEADER_SIZE), range(length))[number % 3]
        place = where[draw_below(len(where), seed, number, "place")]
        if place not in _EPOCH:
            yield _with_bit(path, content, start + place, draw(seed, number, "bit") % 8)


def _batches(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each batch begins, and its length."""
    start = 0
    while start < len(content):
        try:
            length = parse_header(content, start).length
        except BatchError:
            return
        yield start, length
        start += length


def _has_empty_sector(content: bytes, start: int) -> bool:
    """Return whether the bytes of some sector are zeros, of those from ``start`` on."""
    sectors = range(start - start % SECTOR, len(content), SECTOR)
    pieces = (content[max(at, start) : at + SECTOR] for at in sectors)
    return any(len(piece) >= _ZEROS and not any(piece) for piece in pieces)


def _with_bit(path: Path, content: bytes, place: int, bit: int) -> Damaged:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return Damaged(path, bytes(changed), f"of which bit {bit} of byte {place} has changed")
