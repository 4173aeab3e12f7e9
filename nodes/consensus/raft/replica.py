"""One member of a Raft group: its log, its promises, and the transitions between its states.

``RaftReplica`` performs transitions. Modules ``requests`` and ``responses`` handle messages,
``poll`` handles timeouts and sends, ``snapshots`` makes, sends and installs snapshots. All of it is
pure: effects are collected in ``effects``, and the shell carries out durable ones first.

The rules, each at the place named (docs/raft.md has the argument):

* election safety: one vote a term, durable before it is sent: :meth:`RaftReplica.persist`;
* leader append-only: a leader never truncates: :meth:`RaftReplica.truncate`;
* log matching: ``requests`` checks the entry before, and truncates at a conflict only;
* leader completeness: ``requests`` compares the ends of logs before it grants a vote, and a leader
  commits by counting members only entries of its own term: :meth:`RaftReplica.advance_commit`;
* state machine safety: nothing committed is truncated, the commit offset never decreases, and
  batches are delivered once and in order: :meth:`RaftReplica.truncate`, :meth:`set_commit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    ContradictionError,
    DropSnapshot,
    Effect,
    FatalError,
    FlushLog,
    InstallSnapshot,
    Send,
    Stopped,
    Trace,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.epochs import MAX_EPOCH, EpochLimit
from kraftwreck.nodes.consensus.links import Links
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.messages import Request
from kraftwreck.nodes.consensus.raft.states import (
    Candidate,
    Follower,
    Leader,
    PreCandidate,
    Progress,
    Read,
    State,
    majority,
)
from kraftwreck.nodes.consensus.recovered import Recovered, Snapshot
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import BatchHeader, encode_batch, parse_header
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control

MS: Final = 1000
NO_DIRECTORY: Final = bytes(16)


class RaftReplica:
    """A member of a Raft group as a pure state machine.

    ``committed`` holds the state machine's next input, in order: batches that became committed,
    and snapshots that replace all before. ``announcements`` holds the (leader id, term) changes
    that the listener has not seen. ``confirmed`` holds the numbers of reads that may be answered.
    The embedding service takes all three. ``snapshot`` is the newest one.
    """

    def __init__(self, config: RaftConfig, recovered: Recovered, now: int, wall_ms: int) -> None:
        self.config = config
        self.node_id = config.node_id
        self.peers = sorted(set(config.members) - {config.node_id})
        self.majority = majority(len(config.members))
        self.now = now
        self.wall_ms = wall_ms
        self.effects: list[Effect] = []
        self.committed: list[bytes | Snapshot] = []
        self.announcements: list[tuple[int, int]] = []
        self.confirmed: list[int] = []
        self.shutting_down = False
        self.links = Links(config)
        saved = recovered.quorum_state
        self.term = saved.epoch if saved else 0
        self.voted_for = saved.voted_id if saved else -1
        self.limit = EpochLimit(self.term, now)
        self.snapshot: Snapshot | None = None
        self._reads = 0
        self._announced = (-1, -1)
        self._load(recovered)
        self.commit_offset = self._delivered = self.log.start_offset
        self.state: State = Follower(self.election_deadline())

    def _load(self, recovered: Recovered) -> None:
        """Load snapshot and log; the state machine starts from the snapshot."""
        base = (0, 0)
        if recovered.snapshots:
            base = recovered.snapshots[-1].id
            self.snapshot = Snapshot(*base, recovered.latest)
            self.committed.append(self.snapshot)
        self.log = ReplicatedLog(recovered.batches, recovered.start_offset, base)
        if not self.log.start_offset <= base[0] <= self.log.end_offset:
            held = f"{self.log.start_offset} to {self.log.end_offset}"
            raise FatalError(f"the log holds {held}, which does not continue snapshot {base}")
        if self.log.start_offset < base[0]:
            if self.log.epoch_at(base[0] - 1) == base[1]:
                self.log.clean(base)
            else:
                # The process crashed between the end of a transfer and its installation.
                self.effects.append(InstallSnapshot(*base))
                self.log.restart(base[0], base)
        if self.log.last_epoch > self.term:
            raise FatalError(
                f"the log has term {self.log.last_epoch}, quorum-state only {self.term}"
            )

    # --- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin as a follower in the recovered term, whose vote it remembers."""
        detail = {"incarnation": self.config.incarnation, "last_epoch": self.log.last_epoch}
        self.trace("start", detail)
        self.announce()
        if not self.peers:
            self.campaign()

    def stop(self) -> None:
        """Stop: a leader steps down, and the others elect another one after their timeouts."""
        self.shutting_down = True
        if isinstance(self.state, Leader):
            self.become_follower(self.term)
        self.trace("stop")
        self.effects.append(Stopped())

    # --- transitions ----------------------------------------------------------------------

    def persist(self) -> None:
        """Make term and vote durable; every message of this step is sent after that."""
        self.effects.append(
            WriteQuorumState(
                self.term, -1, self.voted_for, NO_DIRECTORY, tuple(sorted(self.config.members))
            )
        )

    def check_reach(self, term: int) -> None:
        """Raise :class:`ContradictionError` for a term that no member can have reached."""
        most = self.limit.at(self.now)
        if term > most:
            raise ContradictionError(f"term {term} is out of reach: {self.term}, at most {most}")

    def _enter(self, state: State) -> None:
        before = self.state
        if isinstance(before, Follower) and before.download is not None:
            # Two leaders' snapshots of one end may differ in their bytes.
            download = before.download
            self.effects.append(DropSnapshot(download.end_offset, download.end_term))
        self.state = state
        self.links.clear()
        self.trace("state", {"from": before.name})
        self.announce()

    def become_follower(self, term: int, leader_id: int = -1) -> None:
        """Follow ``leader_id`` (-1: not known yet) in ``term``, the present or a newer one."""
        if term < self.term:
            raise FatalError(f"term may not go back from {self.term} to {term}")
        if leader_id == self.node_id:
            raise FatalError(f"node {self.node_id} cannot follow itself")
        if term > self.term:
            self.term = term
            self.voted_for = -1
            self.persist()
        before = self.state
        if isinstance(before, Leader) or leader_id >= 0:
            deadline = self.election_deadline()
        else:
            # Only a vote or the leader's own request restarts the election timer.
            deadline = before.deadline
        self._enter(Follower(deadline, leader_id))

    def campaign(self) -> None:
        """Start an election: a pre-vote first, if that is configured."""
        if self.config.pre_vote:
            self._enter(PreCandidate(self.election_deadline(), {self.node_id}))
            self.count_votes()
        else:
            self.become_candidate()

    def become_candidate(self) -> None:
        """Enter the next term and vote for itself, durably, before requesting votes."""
        if isinstance(self.state, Leader):
            raise FatalError("a leader does not campaign")
        if self.term >= MAX_EPOCH:
            raise FatalError(f"there is no term after {self.term}")
        self.term += 1
        self.voted_for = self.node_id
        self.persist()
        self._enter(Candidate(self.election_deadline(), {self.node_id}))
        self.count_votes()

    def count_votes(self) -> None:
        """Make the next transition once a majority has granted its votes."""
        state = self.state
        if isinstance(state, PreCandidate) and len(state.granted) >= self.majority:
            self.become_candidate()
        elif isinstance(state, Candidate) and len(state.granted) >= self.majority:
            self._become_leader(state)

    def _become_leader(self, candidate: Candidate) -> None:
        start = self.log.end_offset
        followers = {peer: Progress(start, self.now) for peer in self.peers}
        leader = Leader(self.node_id, start, followers, start)
        self._enter(leader)
        granting, voters = sorted(candidate.granted), sorted(self.config.members)
        detail = {"granting": granting, "voters": voters, "epoch_start": start}
        self.trace("elected", detail)
        no_op = {
            "version": 0,
            "leader_id": self.node_id,
            "voters": [{"voter_id": v} for v in voters],
            "granting_voters": [{"voter_id": v} for v in granting],
        }
        self._append_as_leader([encode_control(LEADER_CHANGE, no_op)], control=True)

    def grant_vote(self, candidate_id: int) -> None:
        """Cast the one vote of this term, durably, and give the candidate time."""
        if self.voted_for not in (-1, candidate_id):
            raise FatalError(f"term {self.term}: already voted for {self.voted_for}")
        if self.voted_for < 0:
            self.voted_for = candidate_id
            self.persist()
        if isinstance(self.state, Follower):
            self.state.deadline = self.election_deadline()
        else:
            self._enter(Follower(self.election_deadline()))

    # --- the log --------------------------------------------------------------------------

    def append_records(self, epoch: int, records: Sequence[bytes]) -> int:
        """Append records as one atomic entry; return the last offset they have.

        Raises ValueError unless this member leads ``epoch`` (a term) and is not shutting down.
        """
        if not isinstance(self.state, Leader) or epoch != self.term or self.shutting_down:
            raise ValueError(f"not the leader of term {epoch}")
        return self._append_as_leader([(None, record) for record in records], control=False)

    def _append_as_leader(
        self, records: Sequence[tuple[bytes | None, bytes | None]], *, control: bool
    ) -> int:
        base = self.log.end_offset
        batch = encode_batch(base, self.term, self.wall_ms, records, control=control)
        if len(batch) > self.config.batch_max_bytes:
            raise ValueError(f"batch of {len(batch)} bytes exceeds {self.config.batch_max_bytes}")
        self.append(batch, parse_header(batch), "leader")
        return self.log.end_offset - 1

    def append(self, batch: bytes, header: BatchHeader, by: str) -> None:
        """Append one batch; the caller flushes before it acknowledges or counts it."""
        if header.epoch > self.term:
            raise FatalError(f"entry of term {header.epoch} in term {self.term}")
        self.log.append(batch, header)
        self.effects.append(AppendLog(batch))
        self._trace_batch("append", header, by)

    def flush_as_leader(self, leader: Leader) -> None:
        """Flush what was appended, then count it as this member's share of a majority."""
        if leader.flushed_offset < self.log.end_offset:
            self.effects.append(FlushLog())
            leader.flushed_offset = self.log.end_offset
            self.advance_commit(leader)

    def truncate(self, end_offset: int) -> None:
        """Cut the log at ``end_offset``. A leader never does, and nothing committed is cut."""
        if isinstance(self.state, Leader):
            raise FatalError("a leader's log is append-only")
        if end_offset < self.commit_offset:
            raise FatalError(f"truncation to {end_offset} below the committed {self.commit_offset}")
        before = self.log.end_offset
        self.log.truncate(end_offset)
        self.effects.append(TruncateLog(self.log.end_offset))
        self.trace("truncate", {"from": before, "to": self.log.end_offset})

    # --- commit ---------------------------------------------------------------------------

    def advance_commit(self, leader: Leader) -> None:
        """Commit all that a majority has, up to an entry of this term (Raft 5.4.2, figure 8)."""
        offset = leader.replicated_offset()
        if offset > self.commit_offset and self.log.epoch_before(offset) == self.term:
            self.set_commit(offset)

    def set_commit(self, offset: int) -> None:
        """Raise the commit offset, and deliver the batches below it."""
        if not self.commit_offset <= offset <= self.log.end_offset:
            raise FatalError(f"commit offset {self.commit_offset} -> {offset}")
        if offset == self.commit_offset:
            return
        self.commit_offset = offset
        self.trace("hw")
        for batch, header in self.log.batches_between(self._delivered, offset):
            self.committed.append(batch)
            self._delivered = header.last_offset + 1
            self._trace_batch("commit", header)
        self.announce()

    def restart_at(self, snapshot: Snapshot) -> None:
        """Let log and state machine start at the end of an installed snapshot."""
        if snapshot.end_offset <= self.commit_offset:
            raise FatalError(f"snapshot {snapshot.end_offset} replaces committed records")
        self.log.restart(snapshot.end_offset, (snapshot.end_offset, snapshot.epoch))
        self.snapshot = snapshot
        self.committed.append(snapshot)
        self.commit_offset = self._delivered = snapshot.end_offset
        self.trace("install", {"end": snapshot.end_offset, "epoch": snapshot.epoch})

    # --- reads ----------------------------------------------------------------------------

    def read(self) -> int:
        """Begin a linearizable read; its number appears in ``confirmed`` when it may be served.

        It is confirmed in one round of heartbeats that begins later (ReadIndex, thesis 6.4). The
        caller is a leader that has committed an entry of its term. ValueError otherwise.
        """
        leader = self.state
        if not isinstance(leader, Leader) or not self.leads:
            raise ValueError("only a leader that has committed in its term serves reads")
        if leader.round_begun:
            leader.round += 1
            leader.round_begun = False
        self._reads += 1
        leader.reads.append(Read(self._reads, leader.round))
        return self._reads

    def confirm_reads(self, leader: Leader) -> None:
        """Confirm reads whose round a majority has acknowledged."""
        confirmed = leader.confirmed_round()
        while leader.reads and leader.reads[0].round <= confirmed:
            self.confirmed.append(leader.reads.popleft().number)

    # --- queries --------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this member leads and has committed an entry of its term."""
        state = self.state
        return isinstance(state, Leader) and self.commit_offset > state.term_start

    @property
    def leader_id(self) -> int:
        """The leader of the present term, -1 if it is not known."""
        return self.state.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, None if it is not known."""
        return self.config.members.get(self.leader_id)

    @property
    def log_end(self) -> tuple[int, int]:
        """``(last term, end offset)``: the order in which logs are more or less up to date."""
        return self.log.last_epoch, self.log.end_offset

    def election_deadline(self) -> int:
        """Return a fresh election deadline, uniform in [T, 2T), drawn by key."""
        config = self.config
        timeout = config.election_timeout_ms * MS
        jitter = draw_below(
            timeout, config.seed, config.node_id, "election", config.incarnation, self.now // 50_000
        )
        return self.now + timeout + jitter

    # --- messages and traces --------------------------------------------------------------

    def send(self, peer: int, request: Request) -> bool:
        """Send a request unless one is in flight to ``peer`` or a back-off runs."""
        correlation = self.links.open(peer, self.now)
        if correlation is None:
            return False
        self.effects.append(Send(peer, correlation, request, self.config.members[peer]))
        return True

    def announce(self) -> None:
        """Announce a leader change; a leader does so once an entry of its term is committed."""
        leader = -1 if isinstance(self.state, Leader) and not self.leads else self.leader_id
        change = (leader, self.term)
        if change != self._announced:
            self._announced = change
            self.announcements.append(change)

    def position(self) -> tuple[object, ...]:
        """Return values of which at least one differs after any externally visible change."""
        return id(self.state), self.term, len(self.effects), len(self.committed)

    def trace(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Trace a transition that has just happened."""
        leader, end = self.leader_id, self.log.end_offset
        self.effects.append(
            Trace(
                kind,
                self.state.name,
                self.term,
                leader,
                self.voted_for,
                end,
                self.commit_offset,
                detail or {},
            )
        )

    def _trace_batch(self, kind: str, header: BatchHeader, by: str | None = None) -> None:
        detail: dict[str, Any] = {
            "base": header.base_offset,
            "last": header.last_offset,
            "epoch": header.epoch,
            "crc": header.crc,
        }
        if by is not None:
            detail["by"] = by
        self.trace(kind, detail)
