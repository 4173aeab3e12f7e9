"""One replica of the metadata log: its state, its transitions and what it may promise.

``Replica`` holds the state and performs transitions; what to do with a message lives in
``requests`` and ``responses``, what to do as time passes in ``poll``. All of it is pure:
effects are collected in ``effects``, and the shell makes them real, durable ones first.

Correctness rests on these rules, each at the one place named:
* one vote per epoch, remembered for ever: ``grant_vote`` and every transition write
  quorum-state before the message that tells of it leaves (persist before you speak);
* a new leader commits nothing before its own LeaderChange record: ``leader.high_watermark``;
* nothing below the high watermark is ever cut: ``truncate``;
* a restarted leader does not lead again in its old epoch: ``_initial_state``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from nodes.consensus.effects import (
    AppendLog,
    Effect,
    FatalError,
    FlushLog,
    Send,
    Stopped,
    Trace,
    TruncateLog,
    WriteQuorumState,
)
from nodes.consensus.kraft import election
from nodes.consensus.kraft.config import QuorumConfig
from nodes.consensus.kraft.fetches import ParkedFetches
from nodes.consensus.kraft.leader import Leader, Pending
from nodes.consensus.kraft.links import Links
from nodes.consensus.kraft.log import ReplicatedLog
from nodes.consensus.kraft.messages import NO_DIRECTORY, NO_HIGH_WATERMARK, Request
from nodes.consensus.kraft.states import (
    NEVER,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from nodes.draw import draw_below
from nodes.log.batch import BatchHeader, encode_batch, parse_header
from nodes.protocol.records import LEADER_CHANGE, encode_control

State = Unattached | Prospective | Candidate | Follower | Leader | Resigned
_CRC: Final = struct.Struct(">I")
MS: Final = 1000


class Replica:
    """A voter (or observer) of the quorum as a pure state machine.

    ``committed`` holds batches newly below the high watermark and ``announcements`` the
    (leader id, epoch) changes a listener has not seen yet; ``nodes.node`` takes both.
    """

    def __init__(
        self,
        config: QuorumConfig,
        quorum_state: WriteQuorumState | None,
        batches: Sequence[bytes],
        now: int,
        wall_ms: int,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.voters = config.voters
        self.is_voter = config.node_id in config.voters
        self.now = now
        self.wall_ms = wall_ms
        self.effects: list[Effect] = []
        self.log = ReplicatedLog(batches)
        self.high_watermark = NO_HIGH_WATERMARK
        self.epoch = 0
        self.links = Links(config)
        self.parked = ParkedFetches()
        self.shutting_down = False
        self.stopped = False
        self.committed: list[bytes] = []
        self.announcements: list[tuple[int, int]] = []
        self._delivered = 0
        self._announced = (-1, -1)
        self._recovered = quorum_state
        self.state: State = Unattached(deadline=NEVER)

    # --- start ------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the state that quorum-state and the log allow, durably."""
        self.state = self._initial_state(self._recovered)
        self.write_quorum_state()
        self.trace("start", {"incarnation": self.config.incarnation})
        self.announce()
        if self.voters == (self.node_id,):
            if isinstance(self.state, Resigned):
                self.become_unattached(self.epoch + 1)
            if not isinstance(self.state, Candidate):
                self.become_prospective()
        self.maybe_advance_election()

    def _initial_state(self, saved: WriteQuorumState | None) -> State:
        self.epoch = saved.epoch if saved else 0
        if saved is None or self.epoch < self.log.last_epoch:
            # The log's epoch is newer than any vote on disk, so forgetting that vote is safe.
            self.epoch = max(self.epoch, self.log.last_epoch)
            return Unattached(deadline=self.election_deadline())
        if saved.leader_id == self.node_id:
            others = set(self.voters) - {self.node_id}
            return Resigned(self.election_deadline(), successors=(), unacknowledged=others)
        if saved.leader_id in self.voters:
            # Before the own vote: a candidate that lost follows the winner and may already hold
            # records of this epoch, so it must not ask for votes in it again.
            return Follower(
                self.fetch_deadline(), saved.leader_id, saved.voted_id, saved.voted_directory
            )
        if saved.voted_id == self.node_id and self.is_voter:
            return Candidate(
                self.election_deadline(), self.node_id, self.config.directory_id, {self.node_id}
            )
        return Unattached(
            self.election_deadline(), saved.leader_id, saved.voted_id, saved.voted_directory
        )

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
        """Persist epoch, leader and vote."""
        state = self.state
        self.effects.append(
            WriteQuorumState(
                self.epoch, state.leader_id, state.voted_id, state.voted_directory, self.voters
            )
        )

    # --- transitions --------------------------------------------------------------------

    def _enter(self, state: State, *, durable: bool) -> None:
        before = self.state
        self.state = state
        self.links.clear()
        if durable:
            self.write_quorum_state()
        self.trace("state", {"from": before.name})
        if isinstance(before, Leader):
            self.parked.fail_all(self)
        self.announce()

    def _raise_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise FatalError(f"epoch may not go back from {self.epoch} to {epoch}")
        self.epoch = epoch

    def become_unattached(self, epoch: int) -> None:
        """Adopt ``epoch``, whose leader is not known; the vote of the older epoch is void."""
        if epoch <= self.epoch:
            raise FatalError(f"unattached needs a newer epoch than {self.epoch}, got {epoch}")
        before = self.state
        inherits = isinstance(before, Unattached | Candidate | Resigned) or (
            isinstance(before, Prospective) and not self.has_lost(before)
        )
        inherited = before.deadline if inherits and not isinstance(before, Leader) else NEVER
        self._raise_epoch(epoch)
        deadline = inherited if inherited != NEVER else self.election_deadline()
        self._enter(Unattached(deadline), durable=True)

    def become_follower(self, epoch: int, leader_id: int) -> None:
        """Follow ``leader_id`` in ``epoch``."""
        if leader_id == self.node_id:
            raise FatalError(f"node {self.node_id} cannot follow itself in epoch {epoch}")
        same_epoch = epoch == self.epoch
        self._raise_epoch(epoch)
        before = self.state
        voted = (before.voted_id, before.voted_directory) if same_epoch else (-1, NO_DIRECTORY)
        self._enter(Follower(self.fetch_deadline(), leader_id, *voted), durable=True)

    def become_prospective(self) -> None:
        """Ask for pre-votes; nothing durable changes and the epoch stays."""
        before = self.state
        if isinstance(before, Leader | Prospective | Resigned) or not self.is_voter:
            raise FatalError(f"{before.name} cannot become prospective")
        state = Prospective(
            self.election_deadline(),
            before.leader_id,
            before.voted_id,
            before.voted_directory,
            granted={self.node_id},
        )
        self._enter(state, durable=False)
        self.maybe_advance_election()

    def become_candidate(self) -> None:
        """Raise the epoch and vote for itself, durably, before asking anybody."""
        if not isinstance(self.state, Prospective):
            raise FatalError(f"{self.state.name} cannot become candidate")
        self._raise_epoch(self.epoch + 1)
        state = Candidate(
            self.election_deadline(), self.node_id, self.config.directory_id, {self.node_id}
        )
        self._enter(state, durable=True)
        self.maybe_advance_election()

    def become_leader(self) -> None:
        """Lead the epoch won: LeaderChange first, and no high watermark until it is shared."""
        state = self.state
        if not isinstance(state, Candidate):
            raise FatalError(f"{state.name} cannot become leader")
        start = self.log.end_offset
        leader = Leader(
            self.node_id,
            self.voters,
            state.granted,
            start,
            self.now,
            self.config.fetch_timeout_ms * MS * 3 // 2,
        )
        self.high_watermark = NO_HIGH_WATERMARK
        self._enter(leader, durable=True)
        self.trace(
            "elected",
            {"granting": list(leader.granting), "voters": list(self.voters), "epoch_start": start},
        )
        key, value = encode_control(
            LEADER_CHANGE,
            {
                "version": 0,
                "leader_id": self.node_id,
                "voters": [{"voter_id": v} for v in self.voters],
                "granting_voters": [{"voter_id": v} for v in leader.granting],
            },
        )
        batch = encode_batch(start, self.epoch, self.wall_ms, [(key, value)], control=True)
        self._append_as_leader(leader, [batch])

    def resign(self, reason: str) -> None:
        """Stop leading; the epoch is over for this node, and the voters are told."""
        leader = self.state
        if not isinstance(leader, Leader):
            return
        state = Resigned(
            self.election_deadline(),
            leader.successors(),
            set(self.other_voters),
        )
        self._enter(state, durable=False)
        self.trace("resign", {"reason": reason})

    def leave_prospective(self) -> None:
        """Give up the pre-vote: back to the known leader, or wait."""
        state = self.state
        if not isinstance(state, Prospective):
            raise FatalError(f"{state.name} is not prospective")
        if state.leader_id in self.voters and state.leader_id != self.node_id:
            self.become_follower(self.epoch, state.leader_id)
            return
        waiting = Unattached(
            self.election_deadline(), state.leader_id, state.voted_id, state.voted_directory
        )
        self._enter(waiting, durable=False)

    def grant_vote(self, candidate_id: int, directory: bytes) -> None:
        """Cast the one vote of this epoch, durably, and give the candidate time."""
        state = self.state
        if not isinstance(state, Unattached | Prospective):
            raise FatalError(f"{state.name} cannot vote")
        state.voted_id = candidate_id
        state.voted_directory = directory
        state.deadline = self.election_deadline()
        if isinstance(state, Prospective):
            state.granted = {self.node_id}
            state.rejected = set()
            self.links.clear()
        self.write_quorum_state()

    def has_lost(self, state: Prospective | Candidate) -> bool:
        """Whether a majority can no longer be won."""
        return election.is_lost(len(self.voters), len(state.rejected))

    def maybe_advance_election(self) -> None:
        """Move on when a pre-vote or an election is decided."""
        state = self.state
        if isinstance(state, Prospective):
            if election.is_won(len(self.voters), len(state.granted)):
                self.become_candidate()
            elif self.has_lost(state):
                self.leave_prospective()
        elif isinstance(state, Candidate) and election.is_won(len(self.voters), len(state.granted)):
            self.become_leader()

    def learn(self, leader_id: int, epoch: int) -> None:
        """Adopt what another node says of leader and epoch (maybeTransition).

        Two leaders in one epoch, or being told that oneself leads, is fatal.
        """
        if epoch < self.epoch:
            return
        if epoch > self.epoch:
            if leader_id == self.node_id:
                raise FatalError(f"told to lead epoch {epoch}, which was never won")
            if leader_id in self.voters:
                self.become_follower(epoch, leader_id)
            else:
                self.become_unattached(epoch)
            return
        if leader_id < 0 or leader_id == self.state.leader_id:
            return
        if leader_id == self.node_id:
            if isinstance(self.state, Resigned):
                return
            raise FatalError(f"told to lead epoch {epoch}, which was never won")
        if self.state.leader_id >= 0 or isinstance(self.state, Leader | Resigned):
            mine = self.node_id if isinstance(self.state, Resigned) else self.state.leader_id
            raise FatalError(f"two leaders in epoch {epoch}: {mine} and {leader_id}")
        if leader_id in self.voters:
            self.become_follower(epoch, leader_id)

    # --- the log ------------------------------------------------------------------------

    def _trace_append(self, batch: bytes, header: BatchHeader, by: str) -> None:
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

    def _append_as_leader(self, leader: Leader, batches: Sequence[bytes]) -> None:
        for batch in batches:
            header = parse_header(batch)
            self.log.append(batch, header)
            self.effects.append(AppendLog(batch))
            self._trace_append(batch, header, "leader")
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
            self._trace_append(batch, header, "follower")
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
        self._append_as_leader(leader, batches)

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
                state.announced = True
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

    def stop(self) -> None:
        """Shut down gracefully: at once, or, as leader, after telling the voters."""
        self.shutting_down = True
        self.resign("shutdown")

    def maybe_finish_shutdown(self) -> None:
        """A resigned leader may go once it knows a successor, everybody else at once."""
        if not self.shutting_down or self.stopped:
            return
        resigned = isinstance(self.state, Resigned)
        if not resigned or self.other_voters == [] or not self.is_voter:
            self.stopped = True
            self.trace("stop")
            self.effects.append(Stopped())
