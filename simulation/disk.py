"""A node's disk: a page cache over a platter, with fsync as the only barrier.

What was written survives the death of the process; only what was flushed is sure to
survive a loss of power (of the rest, some prefix does: writes reach the platter in order
within one file). A rename or an unlink whose directory was not synced is not durable either:
``quorum-state``, a finished snapshot, an emptied or a cleaned log are procedures that end
with that sync, so a crash amid one leaves a state from before or from after it, or one of
the legal states between, which the next start repairs as ``nodes.log`` does
(:meth:`Disk.interrupt`, :meth:`Disk.recover`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodes.consensus.effects import (
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
from nodes.consensus.recovered import Recovered, SnapshotFile
from nodes.log.snapshots import read_header

Durable = (
    AppendLog
    | FlushLog
    | TruncateLog
    | WriteQuorumState
    | AppendSnapshot
    | FinishSnapshot
    | DropSnapshot
    | InstallSnapshot
    | CleanLog
)
SnapshotId = tuple[int, int]
"""(end offset, epoch)."""

CACHED: frozenset[type] = frozenset((AppendLog, AppendSnapshot, DropSnapshot))
"""Operations that are over when the page cache has them; all others wait for the platter."""


class DiskError(Exception):
    """A node asked for something no file system could do, such as a cut inside a batch."""


@dataclass(slots=True, frozen=True)
class DiskContent:
    """What lies on a disk now: quorum-state, the log's batches from offset ``start`` on, and
    the finished snapshots by (end offset, epoch)."""

    quorum_state: WriteQuorumState | None
    batches: tuple[bytes, ...]
    start: int = 0
    snapshots: Mapping[SnapshotId, bytes] = field(default_factory=dict)
    directory: bytes = bytes(16)


def batch_range(batch: bytes) -> tuple[int, int]:
    """Return the base offset of an encoded batch v2 and the offset after its last record."""
    base = int.from_bytes(batch[0:8], "big")
    return base, base + int.from_bytes(batch[23:27], "big") + 1


def batch_epoch(batch: bytes) -> int:
    """Return the leader epoch of an encoded batch v2."""
    return int.from_bytes(batch[12:16], "big")


class Disk:
    """The files of one node, formatted under the id ``directory``.

    ``log`` is what a reader sees, ``ends`` the end offset of each batch, ``flushed`` how many
    batches are on the platter for certain, ``segments`` the base offsets of the log's files:
    a new one is begun where the last would exceed ``segment_bytes``, and cleaning removes
    whole ones. ``bootstrap`` is the content of the snapshot ``(0, 0)`` that formatting wrote,
    None for none.
    """

    __slots__ = (
        "_length",
        "directory",
        "ends",
        "flushed",
        "log",
        "parts",
        "quorum_state",
        "segment_bytes",
        "segments",
        "snapshots",
    )

    def __init__(
        self,
        directory: bytes = bytes(16),
        bootstrap: bytes | None = None,
        segment_bytes: int = 1 << 30,
    ) -> None:
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.segments = [0]
        self._length = 0  # of the last segment
        self.log: list[bytes] = []
        self.ends: list[int] = []
        self.flushed = 0
        self.quorum_state: WriteQuorumState | None = None
        self.snapshots: dict[SnapshotId, bytes] = {}
        if bootstrap is not None:
            self.snapshots[0, 0] = bootstrap
        self.parts: dict[SnapshotId, bytearray] = {}

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.segments[0]

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.ends[-1] if self.ends else self.start

    @property
    def latest(self) -> SnapshotId | None:
        """The id of the newest snapshot, by (epoch, end offset)."""
        return max(self.snapshots, key=_age, default=None)

    @property
    def end_epoch(self) -> int:
        """The epoch of the last record; 0 where there never was one."""
        if self.log:
            return batch_epoch(self.log[-1])
        latest = self.latest
        return latest[1] if latest is not None and latest[0] == self.start else 0

    def apply(self, effect: Durable) -> None:
        """Carry out ``effect``; raises :class:`DiskError` if no file system could."""
        carry_out = _OPERATIONS.get(type(effect))
        if carry_out is None:
            raise DiskError(f"unknown disk operation {effect!r}")
        carry_out(self, effect)

    # --- the log ----------------------------------------------------------------------

    def _append(self, effect: AppendLog) -> None:
        base, end = batch_range(effect.batch)
        if base != self.end_offset:
            raise DiskError(f"append at offset {base}, the log ends at {self.end_offset}")
        if self._length and self._length + len(effect.batch) > self.segment_bytes:
            self.flushed = len(self.log)
            self.segments.append(base)
            self._length = 0
        self._length += len(effect.batch)
        self.log.append(effect.batch)
        self.ends.append(end)

    def _flush(self, _effect: FlushLog) -> None:
        self.flushed = len(self.log)

    def _truncate(self, effect: TruncateLog) -> None:
        end_offset = effect.end_offset
        while self.ends and self.ends[-1] > end_offset:
            self.log.pop()
            self.ends.pop()
        if self.end_offset != end_offset:
            raise DiskError(f"truncation to {end_offset} is not at the end of a batch")
        self.segments = [s for s in self.segments if s < end_offset] or self.segments[:1]
        self._measure()
        self.flushed = len(self.log)

    def _measure(self) -> None:
        """Note how long the last segment is."""
        before = self.batches_below(self.segments[-1])
        self._length = sum(len(batch) for batch in self.log[before:])

    def _clean(self, effect: CleanLog) -> None:
        start = effect.start_offset
        if all(end != start for end, _ in self.snapshots) or start > self.end_offset:
            raise DiskError(f"the log cannot be cleaned up to {start}: no snapshot ends there")
        keep = self.start_after(start)
        if keep > self.start:
            count = self.batches_below(keep)
            del self.log[:count]
            del self.ends[:count]
            self.flushed = max(self.flushed - count, 0)
            self.segments = [s for s in self.segments if s >= keep]
        self._forget_snapshots(start)

    def start_after(self, offset: int) -> int:
        """Return where the log would start after it was cleaned up to ``offset``."""
        return max((s for s in self.segments if s <= offset), default=self.start)

    def batches_below(self, offset: int) -> int:
        """Return how many batches of the log end at or below ``offset``."""
        count = 0
        for end in self.ends:
            if end > offset:
                break
            count += 1
        return count

    def _write_state(self, effect: WriteQuorumState) -> None:
        self.quorum_state = effect

    # --- snapshots --------------------------------------------------------------------

    def _write_part(self, effect: AppendSnapshot) -> None:
        name = effect.end_offset, effect.epoch
        if effect.position == 0:
            self.parts[name] = bytearray()
        part = self.parts.get(name)
        if part is None or effect.position != len(part):
            size = "no file" if part is None else f"{len(part)} bytes"
            raise DiskError(f"a piece of snapshot {name} at {effect.position}, there is {size}")
        part += effect.data

    def _finish(self, effect: FinishSnapshot) -> None:
        name = effect.end_offset, effect.epoch
        part = self.parts.pop(name, None)
        if part is None:
            raise DiskError(f"no snapshot {name} was begun")
        self.snapshots[name] = bytes(part)

    def _drop(self, effect: DropSnapshot) -> None:
        self.parts.pop((effect.end_offset, effect.epoch), None)

    def _install(self, effect: InstallSnapshot) -> None:
        name = effect.end_offset, effect.epoch
        if name not in self.snapshots:
            raise DiskError(f"there is no snapshot {name} to start the log at")
        self._empty(effect.end_offset)
        self._forget_snapshots(effect.end_offset)

    def _empty(self, start: int) -> None:
        self.log.clear()
        self.ends.clear()
        self.flushed = self._length = 0
        self.segments = [start]

    def _forget_snapshots(self, start: int) -> None:
        for name in [name for name in self.snapshots if name[0] < start]:
            del self.snapshots[name]

    def read_snapshot(self, name: SnapshotId, position: int, length: int) -> bytes | None:
        """Return a piece of a finished snapshot; None if there is none of that name."""
        content = self.snapshots.get(name)
        return None if content is None else content[position : position + length]

    # --- death and birth --------------------------------------------------------------

    @staticmethod
    def survives(draw: int) -> bool:
        """Whether an operation during which the process dies reaches the disk."""
        return draw % 2 == 1

    def interrupt(self, effect: Durable, draw: int) -> None:
        """The process died amid ``effect``, which reached the disk, though perhaps not all of
        it: a log that is emptied or cleaned may have its old snapshots still. (What did not
        reach it at all leaves the disk as it was; see :meth:`survives`.)"""
        before = dict(self.snapshots)
        self.apply(effect)
        if draw % 4 == 3 and isinstance(effect, CleanLog | InstallSnapshot):
            self.snapshots = before

    def lose_power(self, draw: int) -> int:
        """Drop what the platter does not hold; ``draw`` chooses how much of the unflushed
        tail got there anyway. Return the number of batches lost. Unfinished snapshots go."""
        self.parts.clear()
        unflushed = len(self.log) - self.flushed
        keep = self.flushed + draw % (unflushed + 1)
        lost = len(self.log) - keep
        del self.log[keep:]
        del self.ends[keep:]
        self.flushed = keep
        self.segments = [s for s in self.segments if s <= self.end_offset]
        self._measure()
        return lost

    def recover(self) -> Recovered:
        """A process starts: repair what a crash left half done, make durable what is read
        before it is trusted, and return it.

        Raises SnapshotCorruptError for a damaged snapshot.
        """
        self.parts.clear()
        latest = self.latest
        if latest is not None:
            newer = _age(latest) > (self.end_epoch, self.end_offset)
            if newer or latest[0] > self.end_offset:
                self._empty(latest[0])
        self._forget_snapshots(self.start)
        self.flushed = len(self.log)
        names = sorted(self.snapshots, key=_age)
        files = [
            SnapshotFile(end, epoch, len(content), read_header(content).timestamp)
            for end, epoch in names
            for content in (self.snapshots[end, epoch],)
        ]
        content = self.snapshots[names[-1]] if names else b""
        return Recovered(self.quorum_state, tuple(self.log), self.start, files, content)

    def content(self) -> DiskContent:
        """Return what lies on the disk now."""
        return DiskContent(
            self.quorum_state, tuple(self.log), self.start, dict(self.snapshots), self.directory
        )

    def fact(self, effect: Durable) -> str:
        """Return a short text that stands for ``effect`` in the run's digest."""
        if type(effect) is AppendLog:
            return f"a{zlib.crc32(effect.batch)}"
        if type(effect) is FlushLog:
            return "f"
        if type(effect) is WriteQuorumState:
            return f"q{effect.epoch},{effect.leader_id},{effect.voted_id}"
        if type(effect) is TruncateLog:
            return f"t{effect.end_offset}"
        if type(effect) is AppendSnapshot:
            piece = zlib.crc32(effect.data)
            return f"p{effect.end_offset},{effect.epoch},{effect.position},{piece}"
        if type(effect) is CleanLog:
            return f"c{effect.start_offset}"
        assert isinstance(effect, FinishSnapshot | DropSnapshot | InstallSnapshot)
        return f"{type(effect).__name__},{effect.end_offset},{effect.epoch}"


def _age(name: SnapshotId) -> tuple[int, int]:
    """Return what snapshots are ordered by, and held against the end of a log."""
    return name[1], name[0]


_OPERATIONS: dict[type, Callable[..., None]] = {
    AppendLog: Disk._append,
    FlushLog: Disk._flush,
    TruncateLog: Disk._truncate,
    WriteQuorumState: Disk._write_state,
    AppendSnapshot: Disk._write_part,
    FinishSnapshot: Disk._finish,
    DropSnapshot: Disk._drop,
    InstallSnapshot: Disk._install,
    CleanLog: Disk._clean,
}
