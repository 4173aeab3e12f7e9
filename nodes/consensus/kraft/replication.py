"""What a replica holds whatever its state: identity, log, high watermark, and its voice.

Correctness rests on rules that live here:
* records are flushed before anything that counts on them leaves (effects, in this order);
* the high watermark never goes back and nothing below it is ever cut: ``truncate``;
* only what lies below it is delivered, in order and once: ``_deliver``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nodes.consensus.effects import (
    AppendLog,
    Effect,
    FatalError,
    FlushLog,
    Send,
    Trace,
    TruncateLog,
    WriteQuorumState,
)
from nodes.consensus.kraft.config import QuorumConfig
from nodes.consensus.kraft.fetches import ParkedFetches
from nodes.consensus.kraft.leader import Leader, Pending
from nodes.consensus.kraft.links import Links
from nodes.consensus.kraft.log import ReplicatedLog
from nodes.consensus.kraft.messages import NO_HIGH_WATERMARK, Request
from nodes.consensus.kraft.states import (
    NEVER,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from nodes.consensus.recovered import Recovered
from nodes.draw import draw_below
from nodes.log.batch import BatchHeader, encode_batch, parse_header

State = Unattached | Prospective | Candidate | Follower | Leader | Resigned
MS: Final = 1000


class Replication:
    """The log of one replica and how far it is committed.

    ``committed`` holds batches newly below the high watermark and ``announcements`` the
    (leader id, epoch) changes a listener has not seen yet; ``nodes.node`` takes both.
    """

    def __init__(
        self,
        config: QuorumConfig,
        recovered: Recovered,
        now: int,
        wall_ms: int,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.voters = tuple(sorted(config.voters))
        self.is_voter = config.node_id in config.voters
        self.now = now
        self.wall_ms = wall_ms
        self.effects: list[Effect] = []
        self.log = ReplicatedLog(recovered.batches)
        self.high_watermark = NO_HIGH_WATERMARK
        self.epoch = 0
        self.links = Links(config)
        self.parked = ParkedFetches()
        self.probe_at = 0
        self.shutting_down = False
        self.stopped = False
        self.committed: list[bytes] = []
        self.announcements: list[tuple[int, int]] = []
        self._delivered = 0
        self._announced = (-1, -1)
        self._recovered = recovered.quorum_state
        self.state: State = Unattached(deadline=NEVER)

    # --- clocks and chance --------------------------------------------------------------

    def election_deadline(self) -> int:
        """Return a fresh election deadline, uniform in [T, 2T); never for an observer."""
        if not self.is_voter:
            return NEVER
        timeout = self.config.election_timeout_ms * MS
        config = self.config
        jitter = draw_below(
            timeout, config.seed, config.node_id, "election", config.incarnation, self.now // 50_000
        )
        return self.now + timeout + jitter

    def fetch_deadline(self) -> int:
        """Return when a follower gives up on its leader; never for an observer."""
        return self.now + self.config.fetch_timeout_ms * MS if self.is_voter else NEVER

    # --- small facts ------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads the current epoch."""
        return isinstance(self.state, Leader)

    @property
    def leader_id(self) -> int:
        """The leader of the current epoch as far as known, -1 otherwise."""
        return self.state.leader_id

    @property
    def other_voters(self) -> list[int]:
        """All voters but this node."""
        return [v for v in self.voters if v != self.node_id]

    def trace(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Tell the world of a transition that has just happened."""
        state = self.state
        self.effects.append(
            Trace(
                kind,
                state.name,
                self.epoch,
                state.leader_id,
                state.voted_id,
                self.log.end_offset,
                self.high_watermark,
                detail or {},
            )
        )

    def write_quorum_state(self) -> None:
        """Persist epoch, leader and vote.

        A resigned node stays on disk as the leader its epoch had: forgetting that, it could
        vote for another in the same epoch after the next restart.
        """
        state = self.state
        leader_id = self.node_id if isinstance(state, Resigned) else state.leader_id
        self.effects.append(
            WriteQuorumState(
                self.epoch, leader_id, state.voted_id, state.voted_directory, self.voters
            )
        )

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

    def append_as_leader(self, leader: Leader, batches: Sequence[bytes]) -> None:
        """Append batches of the own epoch, flush, and see what that commits."""
        for batch in batches:
            header = parse_header(batch)
            self.log.append(batch, header)
            self.effects.append(AppendLog(batch))
            self._trace_append(header, "leader")
        self.effects.append(FlushLog())
        leader.next_offset = max(leader.next_offset, self.log.end_offset)
        own = leader.voters.get(self.node_id)
        if own is not None:
            own.end_offset = self.log.end_offset
            own.directory = self.config.directory_id
        advanced = self.advance_high_watermark(leader)
        self.parked.complete(self, high_watermark_changed=advanced)

    def append_as_follower(self, batches: Sequence[tuple[bytes, BatchHeader]]) -> None:
        """Append batches fetched from the leader; a voter flushes before it fetches on."""
        for batch, header in batches:
            self.log.append(batch, header)
            self.effects.append(AppendLog(batch))
            self._trace_append(header, "follower")
        if batches and self.is_voter:
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
        last = leader.next_offset + len(records) - 1
        leader.pending.append(Pending(batch, last))
        leader.pending_bytes += len(batch)
        leader.next_offset = last + 1
        if leader.drain_at == NEVER:
            leader.drain_at = self.now + self.config.linger_ms * MS
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
        return True

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
        for batch in self.log.batches_between(self._delivered, self.high_watermark):
            header = parse_header(batch)
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
        """Tell the listener of a leader change it has not heard of.

        Its own leadership is told only once its LeaderChange record is delivered
        (KAFKA-15345); a resigned node never claims its old epoch (KAFKA-17333).
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

    # --- messages out -------------------------------------------------------------------

    def send(self, destination: int, message: Request) -> bool:
        """Send unless a request to ``destination`` is out or backing off; True when sent."""
        correlation = self.links.open(destination, self.now)
        if correlation is None:
            return False
        self.effects.append(Send(destination, correlation, message))
        return True
