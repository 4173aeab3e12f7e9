"""A node's disk: a page cache over a platter, with fsync as the only barrier.

What was appended survives the death of the process; only what was flushed is sure to
survive a loss of power (of the rest, some prefix does: writes reach the platter in order
within one file). ``quorum-state`` is replaced atomically and durably, as the write, fsync,
rename, fsync-directory procedure does.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from nodes.consensus.effects import AppendLog, FlushLog, TruncateLog, WriteQuorumState

Durable = AppendLog | FlushLog | TruncateLog | WriteQuorumState


class DiskError(Exception):
    """A node asked for something no file system could do, such as a cut inside a batch."""


@dataclass(slots=True, frozen=True)
class DiskContent:
    """What a process finds when it starts: the last quorum-state and the log's batches."""

    quorum_state: WriteQuorumState | None
    batches: tuple[bytes, ...]


def batch_range(batch: bytes) -> tuple[int, int]:
    """Return the base offset of an encoded batch v2 and the offset after its last record."""
    base = int.from_bytes(batch[0:8], "big")
    return base, base + int.from_bytes(batch[23:27], "big") + 1


class Disk:
    """The files of one node. ``log`` is what a reader sees, ``ends`` the end offset of each
    batch, ``flushed`` how many batches are on the platter for certain."""

    __slots__ = ("ends", "flushed", "log", "quorum_state")

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.ends: list[int] = []
        self.flushed = 0
        self.quorum_state: WriteQuorumState | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.ends[-1] if self.ends else 0

    def apply(self, effect: Durable) -> None:
        """Carry out ``effect``; raises :class:`DiskError` if no file system could."""
        kind = type(effect)
        if kind is AppendLog:
            assert isinstance(effect, AppendLog)
            base, end = batch_range(effect.batch)
            if base != self.end_offset:
                raise DiskError(f"append at offset {base}, the log ends at {self.end_offset}")
            self.log.append(effect.batch)
            self.ends.append(end)
        elif kind is FlushLog:
            self.flushed = len(self.log)
        elif kind is WriteQuorumState:
            assert isinstance(effect, WriteQuorumState)
            self.quorum_state = effect
        elif kind is TruncateLog:
            assert isinstance(effect, TruncateLog)
            self._truncate(effect.end_offset)
        else:
            raise DiskError(f"unknown disk operation {effect!r}")

    def _truncate(self, end_offset: int) -> None:
        while self.ends and self.ends[-1] > end_offset:
            self.log.pop()
            self.ends.pop()
        if self.end_offset != end_offset:
            raise DiskError(f"truncation to {end_offset} is not at the end of a batch")
        self.flushed = len(self.log)

    def lose_power(self, draw: int) -> int:
        """Drop what the platter does not hold; ``draw`` chooses how much of the unflushed
        tail got there anyway. Return the number of batches lost."""
        unflushed = len(self.log) - self.flushed
        keep = self.flushed + draw % (unflushed + 1)
        lost = len(self.log) - keep
        del self.log[keep:]
        del self.ends[keep:]
        self.flushed = keep
        return lost

    def recover(self) -> None:
        """A process starts: it makes durable what it reads before it trusts it."""
        self.flushed = len(self.log)

    def content(self) -> DiskContent:
        """Return what a process would find now."""
        return DiskContent(self.quorum_state, tuple(self.log))

    def fact(self, effect: Durable) -> str:
        """Return a short text that stands for ``effect`` in the run's digest."""
        if isinstance(effect, AppendLog):
            return f"a{zlib.crc32(effect.batch)}"
        if isinstance(effect, WriteQuorumState):
            return f"q{effect.epoch},{effect.leader_id},{effect.voted_id}"
        if isinstance(effect, TruncateLog):
            return f"t{effect.end_offset}"
        return "f"
