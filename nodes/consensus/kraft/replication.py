"""The parts of a replica common to all states: its log, and how far it is committed.

Correctness rests on rules that live here:
* the voter set in force is the latest one **appended** (KIP-853): ``_append``, ``truncate``;
* records are flushed before any message that depends on them is sent (order of the effects);
* the high watermark never decreases and nothing below it is ever cut: ``truncate``;
* only records below it are delivered, in order and once: ``_deliver``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    FatalError,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
)
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.fetches import ParkedFetches
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.member import MS, Member
from kraftwreck.nodes.consensus.kraft.states import (
    NEVER,
)
from kraftwreck.nodes.consensus.kraft.voters import VoterSet
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.consensus.recovered import Recovered, Snapshot, SnapshotFile
from kraftwreck.nodes.log.batch import BatchHeader, encode_batch, parse_header
from kraftwreck.nodes.log.snapshots import read_header
from kraftwreck.nodes.protocol.records import (
    encode_control,
)


class Replication(Member):
    """The log of one replica, its voters, and how far it is committed.

    ``committed`` holds the listener's next input, in order: batches newly below the high watermark,
    and snapshots that replace all it has. ``announcements`` holds the (leader id, epoch) changes
    that the listener has not seen yet. The embedding node takes both. ``served`` is when this
    replica last sent a piece of a snapshot.
    """

    def __init__(self, config: QuorumConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        super().__init__(config, now, wall_ms)
        self.parked = ParkedFetches()
        self.clean_at = now + config.clean_interval_ms * MS
        self.shutting_down = False
        self.stopped = False
        self.committed: list[bytes | Snapshot] = []
        self.announcements: list[tuple[int, int]] = []
        self._delivered = 0
        self._announced = (-1, -1)
        self._recovered = recovered.quorum_state
        self.snapshots = list(recovered.snapshots)
        self.served: dict[tuple[int, int], int] = {}
        self._load(recovered)

    def _load(self, recovered: Recovered) -> None:
        """Load snapshot and log; both define the voters, and the listener starts from them."""
        latest = self.snapshots[-1] if self.snapshots else None
        base = latest.id if latest is not None else (0, 0)
        if latest is not None:
            header = read_header(recovered.latest)
            voters = VoterSet.from_record({"voters": header.voters}) if header.voters else None
            self.history.restart(latest.end_offset, voters, header.kraft_version)
            if latest.end_offset > 0:
                self.committed.append(Snapshot(*latest.id, recovered.latest))
                self._delivered = latest.end_offset
        self.log = ReplicatedLog(recovered.batches, recovered.start_offset, base)
        if self.log.end_offset < base[0]:
            raise FatalError(f"the log ends at {self.log.end_offset}, before snapshot {base}")
        if self.log.start_offset < base[0] and self.log.epoch_at(base[0] - 1) != base[1]:
            # The process crashed between the end of a download and its installation: the log is not
            # the one that the snapshot covers, so the difference was never committed.
            self.effects.append(InstallSnapshot(*base))
            self.log.restart(base[0], base)
            self.snapshots = self.snapshots[-1:]
        for batch, of_batch in self.log.batches_between(base[0], self.log.end_offset):
            if of_batch.is_control:
                self.read_control(batch)
        self.note_voters()

    def position(self) -> tuple[object, ...]:
        """Return values of which at least one differs after any externally visible change."""
        state = self.state
        queued = state.next_offset if isinstance(state, Leader) else -1
        return id(state), self.epoch, len(self.effects), len(self.committed), queued

    # --- the log ------------------------------------------------------------------------

    def _trace_append(self, header: BatchHeader, by: str) -> None:
        self.trace(
            "append",
            {
                "base": header.base_offset,
                "last": header.last_offset,
                "epoch": header.epoch,
                "crc": header.crc,
                "by": by,
            },
        )

    def _append(self, batch: bytes, header: BatchHeader, by: str) -> None:
        self.log.append(batch, header)
        self.effects.append(AppendLog(batch))
        self._trace_append(header, by)
        if header.is_control and self.read_control(batch):
            self.voters_changed()

    def append_as_leader(self, leader: Leader, batches: Sequence[bytes]) -> None:
        """Append batches of the own epoch, flush, and commit up to the new high watermark."""
        for batch in batches:
            self._append(batch, parse_header(batch), "leader")
        self.effects.append(FlushLog())
        leader.next_offset = max(leader.next_offset, self.log.end_offset)
        own = leader.voters.get(self.node_id)
        if own is not None:
            own.end_offset = self.log.end_offset
            own.directory = self.config.directory_id
        advanced = self.advance_high_watermark(leader)
        self.parked.complete(self, high_watermark_changed=advanced)

    def append_as_follower(self, batches: Sequence[tuple[bytes, BatchHeader]]) -> None:
        """Append batches fetched from the leader; a controller flushes before its next fetch.

        It may be a voter by a record that it has not applied yet.
        """
        for batch, header in batches:
            self._append(batch, header, "follower")
        if batches and (self.is_voter or self.config.can_become_voter):
            self.effects.append(FlushLog())

    def truncate(self, end_offset: int) -> None:
        """Cut the log at ``end_offset``; cutting committed records is fatal."""
        committed = max(self.high_watermark, self._delivered)
        if end_offset < committed:
            raise FatalError(f"truncation to {end_offset} below the committed {committed}")
        before = self.log.end_offset
        if end_offset >= before:
            return
        self.log.truncate(end_offset)
        self.effects.append(TruncateLog(self.log.end_offset))
        self.trace("truncate", {"from": before, "to": self.log.end_offset})
        offset = self.history.offset
        self.history.truncate(self.log.end_offset)
        if self.history.offset != offset:
            self.voters_changed()

    def install(self, end_offset: int, epoch: int, content: bytes) -> None:
        """Let the log start after a complete snapshot that the leader has sent."""
        if end_offset < self.high_watermark:
            raise FatalError(f"snapshot {end_offset} ends below the high watermark")
        header = read_header(content)
        self.effects.append(FinishSnapshot(end_offset, epoch))
        self.effects.append(InstallSnapshot(end_offset, epoch))
        self.snapshots = [SnapshotFile(end_offset, epoch, len(content), header.timestamp)]
        self.log.restart(end_offset, (end_offset, epoch))
        voters = VoterSet.from_record({"voters": header.voters}) if header.voters else None
        self.history.restart(end_offset, voters, header.kraft_version)
        self.committed.append(Snapshot(end_offset, epoch, content))
        self._delivered = max(self._delivered, end_offset)
        self.trace("install", {"end": end_offset, "epoch": epoch})
        self.voters_changed()
        if end_offset > self.high_watermark:
            self._set_high_watermark(end_offset)

    def append_records(self, epoch: int, records: Sequence[bytes]) -> int:
        """Queue records as one atomic batch; returns the last offset they will have.

        Raises ValueError unless this replica leads ``epoch`` and is not shutting down.
        """
        leader = self.state
        if not isinstance(leader, Leader) or epoch != self.epoch or self.shutting_down:
            raise ValueError(f"not the leader of epoch {epoch}")
        batch = encode_batch(
            leader.next_offset,
            self.epoch,
            self.wall_ms,
            [(None, record) for record in records],
            control=False,
        )
        if len(batch) > self.config.batch_max_bytes:
            raise ValueError(f"batch of {len(batch)} bytes exceeds {self.config.batch_max_bytes}")
        last = leader.enqueue(batch, len(records))
        if leader.drain_at == NEVER:
            leader.drain_at = self.now + self.config.linger_ms * MS
        return last

    def append_control(
        self, leader: Leader, records: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> int:
        """Append control records (type, fields) as one batch at once; return the last offset."""
        batch = encode_batch(
            leader.next_offset,
            self.epoch,
            self.wall_ms,
            [encode_control(kind, dict(fields)) for kind, fields in records],
            control=True,
        )
        last = leader.enqueue(batch, len(records))
        self.drain(leader)
        return last

    def drain(self, leader: Leader) -> None:
        """Write the queued batches to the log."""
        batches = [pending.batch for pending in leader.pending]
        leader.pending = []
        leader.pending_bytes = 0
        leader.drain_at = NEVER
        self.append_as_leader(leader, batches)

    # --- high watermark and listeners -------------------------------------------------------

    def advance_high_watermark(self, leader: Leader) -> bool:
        """Recompute the leader's high watermark; True when it moved."""
        advanced = leader.high_watermark(self.high_watermark)
        if advanced == self.high_watermark:
            return False
        if advanced < self.high_watermark or advanced > self.log.end_offset:
            raise FatalError(f"high watermark {self.high_watermark} -> {advanced}")
        self._set_high_watermark(advanced)
        self.high_watermark_advanced()
        return True

    @property
    def delivered(self) -> int:
        """The end of what the listener was given."""
        return self._delivered

    def high_watermark_advanced(self) -> None:
        """Called on the leader whenever its high watermark has moved."""

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Take the leader's high watermark as far as the own log reaches."""
        known = min(leader_high_watermark, self.log.end_offset)
        if known < 0 or known == self.high_watermark:
            return
        if known < self.high_watermark:
            raise FatalError(f"high watermark {self.high_watermark} -> {known}")
        self._set_high_watermark(known)

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self.trace("hw")
        self._deliver()

    def _deliver(self) -> None:
        for batch, header in self.log.batches_between(self._delivered, self.high_watermark):
            self.committed.append(batch)
            self._delivered = header.last_offset + 1
            self.trace(
                "commit",
                {
                    "base": header.base_offset,
                    "last": header.last_offset,
                    "epoch": header.epoch,
                    "crc": header.crc,
                },
            )
        self.announce()

    def announce(self) -> None:
        """Announce a leader change to the listener if it is new.

        A leader announces itself only once its LeaderChange record is delivered (KAFKA-15345); a
        resigned node never claims its old epoch (KAFKA-17333).
        """
        state = self.state
        if isinstance(state, Leader):
            if self._delivered <= state.epoch_start:
                change = (-1, self.epoch)
            else:
                change = (self.node_id, self.epoch)
        else:
            change = (state.leader_id, self.epoch)
        if change != self._announced:
            self._announced = change
            self.announcements.append(change)
