"""The disk of one replica in a test, and the names that tests give nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    Effect,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.voters import LISTENER, Voter, VoterSet
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import decode_batch, parse_header, split_batches
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch, read_header


def directory_of(i: int, disk: int = 0) -> bytes:
    """The directory id of node ``i``'s ``disk``-th disk."""
    return bytes([i, disk + 1] * 8)


def endpoint_of(i: int) -> Endpoint:
    return Endpoint(f"n{i}", 9093)


def voter(i: int, disk: int = 0) -> Voter:
    """Return node ``i`` as a member of a dynamic voter set."""
    return Voter(i, directory_of(i, disk), ((LISTENER, endpoint_of(i)),), 0, 1)


def bootstrap_snapshot(ids: Sequence[int]) -> bytes:
    """The bootstrap snapshot of a dynamic quorum of ``ids``."""
    voters = VoterSet({i: voter(i) for i in ids}).record()["voters"]
    head = header_batch(0, 0, 0, 1, voters)
    return head + footer_batch(3, 0, 0)


@dataclass
class Disk:
    """The state that survives a kill: every effect is carried out at once.

    ``flushed`` counts the batches that survive a loss of power, too.
    """

    quorum_state: WriteQuorumState | None = None
    batches: list[bytes] = field(default_factory=list)
    start_offset: int = 0
    snapshots: dict[tuple[int, int], bytes] = field(default_factory=dict)
    parts: dict[tuple[int, int], bytearray] = field(default_factory=dict)
    flushed: int = 0

    def apply(self, effect: Effect) -> None:
        if isinstance(effect, WriteQuorumState):
            self.quorum_state = effect
        elif isinstance(effect, AppendLog):
            self.batches.append(effect.batch)
        elif isinstance(effect, FlushLog):
            self.flushed = len(self.batches)
        elif isinstance(effect, TruncateLog):
            while self.batches and parse_header(self.batches[-1]).last_offset >= effect.end_offset:
                self.batches.pop()
            self.flushed = len(self.batches)
        elif isinstance(effect, AppendSnapshot):
            part = self.parts.setdefault((effect.end_offset, effect.epoch), bytearray())
            assert len(part) == effect.position
            part += effect.data
        elif isinstance(effect, FinishSnapshot):
            key = (effect.end_offset, effect.epoch)
            self.snapshots[key] = bytes(self.parts.pop(key))
        elif isinstance(effect, DropSnapshot):
            self.parts.pop((effect.end_offset, effect.epoch), None)
        elif isinstance(effect, InstallSnapshot):
            self.batches.clear()
            self.flushed = 0
            self.start_offset = effect.end_offset
            self._forget_before(effect.end_offset)
        elif isinstance(effect, CleanLog):
            while self.batches and parse_header(self.batches[0]).last_offset < effect.start_offset:
                self.start_offset = parse_header(self.batches.pop(0)).last_offset + 1
                self.flushed = max(self.flushed - 1, 0)
            self._forget_before(effect.start_offset)

    def _forget_before(self, end_offset: int) -> None:
        self.snapshots = {k: v for k, v in self.snapshots.items() if k[0] >= end_offset}

    def lose_unsynced(self) -> None:
        """Lose what was appended since the last flush, as a power failure does."""
        del self.batches[self.flushed :]

    @property
    def flushed_end(self) -> int:
        """The end offset of what a power failure leaves."""
        if self.flushed:
            return parse_header(self.batches[self.flushed - 1]).last_offset + 1
        return self.start_offset

    def recovered(self) -> Recovered:
        """Return the state that a new process finds."""
        self.parts.clear()
        files = [
            SnapshotFile(*key, len(content), read_header(content).timestamp)
            for key, content in sorted(self.snapshots.items())
        ]
        latest = self.snapshots[files[-1].id] if files else b""
        return Recovered(self.quorum_state, list(self.batches), self.start_offset, files, latest)


def values_of(batches: bytes) -> list[bytes]:
    """The values of the data records in ``batches`` (a log batch, or a whole snapshot)."""
    values: list[bytes] = []
    for batch in split_batches(batches):
        if not parse_header(batch).is_control:
            values += [bytes(v) for _, _, v in decode_batch(batch)[1] if v is not None]
    return values
