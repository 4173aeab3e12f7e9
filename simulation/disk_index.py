"""The expected content of a disk: an index of the requested operations, beside the files.

The simulator and its checks use the index instead of reading files at every event. Its operations
are idealised: they happen whole and at once. Whenever a process starts, the files are compared with
the index (``simulation.disk_check``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

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
"""Operations that end when the page cache has them; all others wait for the platter."""


def batch_range(batch: bytes) -> tuple[int, int]:
    """Return the base offset of an encoded batch v2 and the offset after its last record."""
    base = int.from_bytes(batch[0:8], "big")
    return base, base + int.from_bytes(batch[23:27], "big") + 1


def batch_epoch(batch: bytes) -> int:
    """Return the leader epoch of an encoded batch v2."""
    return int.from_bytes(batch[12:16], "big")


def age(name: SnapshotId) -> tuple[int, int]:
    """Return the sort key of snapshots, which is also compared with the end of a log."""
    return name[1], name[0]


class DiskIndex:
    """The log, the snapshots and the state that a disk must hold.

    ``log`` is what a reader sees, ``ends`` has the end offset of each batch, ``flushed`` is the
    number of batches that are certainly on the platter. ``segments`` are the base offsets of the
    log's files: a new file begins where the last one would exceed ``segment_bytes``, and cleaning
    removes whole files. ``snapshots`` are the finished ones by id, ``parts`` the others.
    """

    __slots__ = (
        "_length",
        "ends",
        "flushed",
        "log",
        "parts",
        "quorum_state",
        "segment_bytes",
        "segments",
        "snapshots",
    )

    def __init__(self, segment_bytes: int = 1 << 30) -> None:
        self.segment_bytes = segment_bytes
        self.segments = [0]
        self._length = 0  # of the last segment
        self.log: list[bytes] = []
        self.ends: list[int] = []
        self.flushed = 0
        self.quorum_state: WriteQuorumState | None = None
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.parts: dict[SnapshotId, bytearray] = {}

    @property
    def start(self) -> int:
        """The log start offset."""
        return self.segments[0]

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.ends[-1] if self.ends else self.segments[0]

    @property
    def latest(self) -> SnapshotId | None:
        """The id of the newest snapshot, by (epoch, end offset)."""
        return max(self.snapshots, key=age, default=None)

    @property
    def end_epoch(self) -> int:
        """The epoch of the last record; 0 if there never was one."""
        if self.log:
            return batch_epoch(self.log[-1])
        latest = self.latest
        return latest[1] if latest is not None and latest[0] == self.start else 0

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

    def note(self, effect: Durable) -> None:
        """Record that ``effect`` was carried out."""
        _OPERATIONS[type(effect)](self, effect)

    # --- the log ----------------------------------------------------------------------------

    def _append(self, effect: AppendLog) -> None:
        batch = effect.batch
        base, end = batch_range(batch)
        if self._length and self._length + len(batch) > self.segment_bytes:
            self.flushed = len(self.log)
            self.segments.append(base)
            self._length = 0
        self._length += len(batch)
        self.log.append(batch)
        self.ends.append(end)

    def _flush(self, _effect: FlushLog) -> None:
        self.flushed = len(self.log)

    def _truncate(self, effect: TruncateLog) -> None:
        end_offset = effect.end_offset
        while self.ends and self.ends[-1] > end_offset:
            self.log.pop()
            self.ends.pop()
        self.segments = [s for s in self.segments if s < end_offset] or self.segments[:1]
        before = self.batches_below(self.segments[-1])
        self._length = sum(len(batch) for batch in self.log[before:])
        self.flushed = len(self.log)

    def _clean(self, effect: CleanLog) -> None:
        keep = self.start_after(effect.start_offset)
        if keep > self.start:
            count = self.batches_below(keep)
            del self.log[:count]
            del self.ends[:count]
            self.flushed = max(self.flushed - count, 0)
            self.segments = [s for s in self.segments if s >= keep]
        self._forget_snapshots(effect.start_offset)

    def _write_state(self, effect: WriteQuorumState) -> None:
        self.quorum_state = effect

    # --- snapshots --------------------------------------------------------------------------

    def _write_part(self, effect: AppendSnapshot) -> None:
        name = effect.end_offset, effect.epoch
        if effect.position == 0:
            self.parts[name] = bytearray()
        self.parts[name] += effect.data

    def _finish(self, effect: FinishSnapshot) -> None:
        name = effect.end_offset, effect.epoch
        self.snapshots[name] = bytes(self.parts.pop(name))

    def _drop(self, effect: DropSnapshot) -> None:
        self.parts.pop((effect.end_offset, effect.epoch), None)

    def _install(self, effect: InstallSnapshot) -> None:
        self.log.clear()
        self.ends.clear()
        self.flushed = self._length = 0
        self.segments = [effect.end_offset]
        self._forget_snapshots(effect.end_offset)

    def _forget_snapshots(self, start: int) -> None:
        for name in [name for name in self.snapshots if name[0] < start]:
            del self.snapshots[name]


_OPERATIONS: dict[type, Callable[..., None]] = {
    AppendLog: DiskIndex._append,
    FlushLog: DiskIndex._flush,
    TruncateLog: DiskIndex._truncate,
    WriteQuorumState: DiskIndex._write_state,
    AppendSnapshot: DiskIndex._write_part,
    FinishSnapshot: DiskIndex._finish,
    DropSnapshot: DiskIndex._drop,
    InstallSnapshot: DiskIndex._install,
    CleanLog: DiskIndex._clean,
}


def fact(effect: Durable) -> str:
    """Return a short text that stands for ``effect`` in a run's digest."""
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
