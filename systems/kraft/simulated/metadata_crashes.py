"""Rehearses deaths inside of the operations on a metadata log (F15).

A truncation, a cleaning, an installed snapshot, a new segment and a new quorum-state change several
files each. Faults come too seldom to meet each point between two of these changes. So once a node
finishes a snapshot of a log with several segments, all these operations are invented for a copy of
its files. Each is carried out up to each of its changes in turn, the process dies there, alone or
with the power of its host, and a process starts from what is left.

The files are copied before the operation; the rehearsal waits until the event of the run is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.layout import (
    EPOCH_CHECKPOINT,
    QUORUM_STATE,
    segment_name,
)
from kraftwreck.nodes.log.quorum_state import QuorumStateError
from kraftwreck.nodes.log.snapshot_files import PART
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.simulation.disk import LOG, ROOT, Disk, Durable, batch_range
from kraftwreck.simulation.disk_index import batch_epoch
from kraftwreck.simulation.disk_trouble import DiskError
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Crash, Filesystem
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World

SEVERAL: Final = 3
"""Segments of a log for which operations are invented."""
MOST_CHANGES: Final = 60
"""More changes of files than any of these operations makes."""
LONGEST: Final = 400
"""Batches of a log that is not too long to be read for each of the points."""

REFUSALS: Final = (LogCorruptError, QuorumStateError, OSError)
"""Errors of a start that does not trust the files."""


class Case(NamedTuple):
    """Durable operations in order. The process dies in those from number ``first`` on."""

    name: str
    effects: Sequence[Durable]
    first: int = 0


class MetadataCrashes:
    """Rehearses the operations on the first log of a run that is long enough."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._done = False
        world.on_write.append(self._on_write)

    @rule(
        "F15",
        "AnyCrashPointOfMetadata",
        "A process may die after any change of files in an operation on its metadata log, its "
        "snapshots or quorum-state, also with the power of its host. A start then reads all that "
        "the operation was to keep, and leaves no file that belongs to none of them. The "
        "formatting of a directory can be repeated.",
        simulated=True,
    )
    def _on_write(self, host: Host, effect: Any) -> None:
        disk = host.disk
        if self._done or type(effect) is not FinishSnapshot or not isinstance(disk, Disk):
            return
        content = disk.parts.get((effect.end_offset, effect.epoch))
        if disk.trouble is not None or disk.damaged or not content:
            return
        if len(disk.segments) < SEVERAL or len(disk.log) > LONGEST:
            return
        self._done = True
        files = disk.files.copy_of({ROOT: (), LOG: None})
        snapshot = AppendSnapshot(effect.end_offset, effect.epoch, 0, bytes(content))
        seed = draw(self._world.now, "metadata", host.id)
        self._world.afterwards(lambda: self._judge(host.name, files, snapshot, seed))

    def _judge(self, name: str, files: Filesystem, snapshot: AppendSnapshot, seed: int) -> None:
        try:
            for case in cases(files, snapshot, seed):
                wrong = next(found(files, case, draw(seed, case.name)), None)
                if wrong is not None:
                    text = f"{name}: {case.name}, {wrong}"
                    self._failures.add("F15", self._world.now, text)
        except Exception as error:
            raise WorldError(f"the rehearsal failed of the log of {name}: {error!r}") from error


def opened(files: Filesystem, segment_bytes: int = 1 << 30) -> Disk:
    """Return a copy of a disk whose process has started. Raises errors of starts."""
    disk = Disk(segment_bytes=segment_bytes, files=files.copy_of(dict.fromkeys(files.directories)))
    disk.recover()
    return disk


def cases(files: Filesystem, snapshot: AppendSnapshot, seed: int) -> Iterator[Case]:
    """Yield the operations to rehearse; ``snapshot`` is one that the node finishes now."""
    disk = opened(files)
    segments, log, end = disk.segments, disk.log, disk.end_offset
    finish = FinishSnapshot(snapshot.end_offset, snapshot.epoch)
    yield Case("a finished snapshot", (snapshot, finish), 1)
    half = replace(snapshot, data=snapshot.data[: len(snapshot.data) // 2])
    yield Case("a snapshot that begins again", (half, snapshot, finish), 2)
    dropped = DropSnapshot(snapshot.end_offset, snapshot.epoch)
    yield Case("a snapshot that is given up", (snapshot, dropped), 1)
    if snapshot.end_offset <= end:  # A snapshot that was fetched may be ahead.
        clean = CleanLog(snapshot.end_offset)
        yield Case("a cleaning", (snapshot, finish, clean), 2)
    # A snapshot from a leader with a longer log.
    ahead = replace(snapshot, end_offset=end + 1 + draw_below(3, seed, "ahead"))
    finish = FinishSnapshot(ahead.end_offset, ahead.epoch)
    install = InstallSnapshot(ahead.end_offset, ahead.epoch)
    if not log or ahead.epoch >= batch_epoch(log[-1]):
        yield Case("an installed snapshot", (ahead, finish, install), 1)
    latest = disk.latest
    least = latest[0] if latest is not None else 0
    ends = [at for at in disk.ends if at >= least]
    if len(ends) > 1:
        cuts = [at for at in ends if at <= segments[-1]] or ends[:-1]
        cut = cuts[draw_below(len(cuts), seed, "cut")]
        yield Case(f"a truncation to {cut}", (TruncateLog(cut),))
        # The last batch is not yet flushed when the next one begins a segment.
        last = log[-1]
        following = batch_range(last)[1].to_bytes(8, "big") + last[8:]
        appends = AppendLog(last), AppendLog(following), FlushLog()
        yield Case("a new segment", (TruncateLog(batch_range(last)[0]), *appends), 1)
    state = disk.quorum_state
    if state is not None:
        newer = WriteQuorumState(
            state.epoch + 1, -1, -1, bytes(16), state.voters, state.kraft_version
        )
        yield Case("a new quorum-state", (newer,))


def found(files: Filesystem, case: Case, seed: int) -> Iterator[str]:
    """Yield what is wrong after each point at which the process may die in ``case``."""
    for changes in range(MOST_CHANGES):
        for power in (False, True):
            disk = opened(files, _segment_bytes(files, case))
            try:
                died = _carry_out(disk, case, changes, draw(seed, changes, "torn"))
            except (DiskError, OSError) as error:
                yield f"it is impossible: {error}"
                return
            if not died and (left := _useless(disk)):
                yield f"it leaves {left}"
            disk.process_ended()
            if power:
                disk.lose_power(draw(seed, changes, "power"))
            wrong = _started(disk)
            if wrong:
                where = f"after {changes} changes of files" if died else "at its end"
                yield f"{where}{' and a loss of power' if power else ''}: {wrong}"
        if not died:
            return


def _segment_bytes(files: Filesystem, case: Case) -> int:
    """Return the size of segments for ``case``: the second batch that it appends begins one."""
    if not any(isinstance(effect, AppendLog) for effect in case.effects):
        return 1 << 30
    disk = opened(files)
    return len(files.inode(LOG / segment_name(disk.segments[-1])).data)


def _carry_out(disk: Disk, case: Case, changes: int, torn: int) -> bool:
    """Carry out ``case``; return whether the process has died after ``changes`` of its changes."""
    for effect in case.effects[: case.first]:
        disk.apply(effect)
    disk.files.crash_after(changes, torn)
    try:
        for effect in case.effects[case.first :]:
            disk.apply(effect)
    except Crash:
        return True
    return False


def _started(disk: Disk) -> str:
    """Return what is wrong with the disk for a process that starts, empty if nothing is."""
    try:
        disk.recover()
    except REFUSALS as error:
        return f"a start refuses: {error}"
    if disk.findings:
        return disk.findings[0]
    left = _useless(disk)
    return f"a start leaves {left}" if left else ""


def _useless(disk: Disk) -> str:
    """Return the names of files in the log's directory that are of no use, joined."""
    known = {QUORUM_STATE, EPOCH_CHECKPOINT, *map(segment_name, disk.segments)}
    known |= {snapshot_name(*name) for name in disk.snapshots}
    known |= {snapshot_name(*name) + PART for name in disk.parts}
    return ", ".join(sorted(set(disk.files.names(LOG)) - known))
