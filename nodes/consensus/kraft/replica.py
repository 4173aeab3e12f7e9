"""One replica of the metadata log: its states and the transitions between them.

``Replica`` performs transitions. Modules ``requests`` and ``responses`` handle messages, ``poll``
handles timeouts. All of it is pure: the replica collects effects in ``effects``, and the shell
carries them out, durable ones first.

Correctness rests on these rules, each at the one place named:
* one vote per epoch, remembered for ever: ``grant_vote`` and every transition write quorum-state
  before a message that depends on it is sent (persist before you speak);
* a new leader commits nothing before its own LeaderChange record: ``leader.high_watermark``;
* a restarted leader does not lead again in its old epoch: ``_initial_state``.
"""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import (
    ContradictionError,
    DropSnapshot,
    FatalError,
    Stopped,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.epochs import MAX_EPOCH, EpochLimit
from kraftwreck.nodes.consensus.kraft import election, membership
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.member import MS, State
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY, NO_HIGH_WATERMARK
from kraftwreck.nodes.consensus.kraft.replication import Replication
from kraftwreck.nodes.consensus.kraft.states import (
    NEVER,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)


class Replica(Replication):
    """A voter (or observer) of the quorum as a pure state machine."""

    # --- start ------------------------------------------------------------------------

    def start(self) -> None:
        """Enter the state that quorum-state and the log allow, durably."""
        self.state = self._initial_state(self._recovered)
        self.epoch_limit = EpochLimit(self.epoch, self.now)
        self.write_quorum_state()
        started = {
            "incarnation": self.config.incarnation,
            "directory": self.config.directory_id.hex(),
            "last_epoch": self.log.last_epoch,
        }
        self.trace("start", started)
        self.trace_voters()
        self.announce()
        if self.is_voter and len(self.voters) == 1:
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
            deadline = self.election_deadline(resigned=True)
            return Resigned(deadline, successors=(), unacknowledged=others)
        if saved.leader_id in self.voters:
            # Before the own vote: a candidate that lost follows the winner and may already hold
            # records of this epoch, so it must not request votes in it again.
            return Follower(
                self.fetch_deadline(), saved.leader_id, saved.voted_id, saved.voted_directory
            )
        own = (self.node_id, self.config.directory_id)
        voted = (saved.voted_id, saved.voted_directory)
        lost = saved.leader_id >= 0 or self.log.last_epoch >= self.epoch
        if self.is_voter and voted in (own, (self.node_id, NO_DIRECTORY)) and not lost:
            # A candidate that lost must not request votes again in an epoch of its log.
            return Candidate(
                self.election_deadline(), self.node_id, self.config.directory_id, {self.node_id}
            )
        return Unattached(
            self.election_deadline(), saved.leader_id, saved.voted_id, saved.voted_directory
        )

    # --- transitions --------------------------------------------------------------------

    def _enter(self, state: State, *, durable: bool) -> None:
        before = self.state
        self.state = state
        self.links.clear()
        if isinstance(before, Follower) and before.download is not None:
            # Pieces of two leaders' snapshots must never meet in one file.
            self.effects.append(DropSnapshot(before.download.end_offset, before.download.epoch))
        if durable:
            self.write_quorum_state()
        self.trace("state", {"from": before.name})
        if isinstance(before, Leader):
            self.parked.fail_all(self)
            membership.give_up(self, before)
        self.announce()

    def _raise_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise FatalError(f"epoch may not go back from {self.epoch} to {epoch}")
        if epoch > MAX_EPOCH:
            raise FatalError(f"there is no epoch after {self.epoch}: format a new cluster")
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
        keeps = self.is_voter and inherited != NEVER
        deadline = inherited if keeps else self.election_deadline()
        self._enter(Unattached(deadline), durable=True)

    def become_follower(self, epoch: int, leader_id: int, endpoint: Endpoint | None) -> None:
        """Follow ``leader_id``, which listens at ``endpoint``, in ``epoch``."""
        if leader_id == self.node_id:
            raise FatalError(f"node {self.node_id} cannot follow itself in epoch {epoch}")
        same_epoch = epoch == self.epoch
        self._raise_epoch(epoch)
        before = self.state
        voted = (before.voted_id, before.voted_directory) if same_epoch else (-1, NO_DIRECTORY)
        follower = Follower(self.fetch_deadline(), leader_id, *voted, leader_endpoint=endpoint)
        self._enter(follower, durable=True)

    def become_prospective(self) -> None:
        """Start a pre-vote; nothing durable changes and the epoch stays."""
        before = self.state
        if isinstance(before, Leader | Prospective | Resigned) or not self.is_voter:
            raise FatalError(f"{before.name} cannot become prospective")
        state = Prospective(
            self.election_deadline(),
            before.leader_id,
            before.voted_id,
            before.voted_directory,
            granted={self.node_id},
            leader_endpoint=self.leader_endpoint,
        )
        self._enter(state, durable=False)
        self.maybe_advance_election()

    def become_candidate(self) -> None:
        """Raise the epoch and vote for itself, durably, before requesting votes."""
        if not isinstance(self.state, Prospective):
            raise FatalError(f"{self.state.name} cannot become candidate")
        self._raise_epoch(self.epoch + 1)
        state = Candidate(
            self.election_deadline(), self.node_id, self.config.directory_id, {self.node_id}
        )
        self._enter(state, durable=True)
        self.maybe_advance_election()

    def become_leader(self) -> None:
        """Lead the epoch won: append LeaderChange; until it is replicated, no high watermark."""
        state = self.state
        if not isinstance(state, Candidate):
            raise FatalError(f"{state.name} cannot become leader")
        start = self.log.end_offset
        if not self.is_voter:
            raise FatalError("only a voter can lead")
        leader = Leader(
            self.node_id,
            self.voter_set,
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
        self.append_control(leader, membership.epoch_records(self, leader))

    def resign(self, reason: str) -> None:
        """Stop leading this epoch and announce it to the voters."""
        leader = self.state
        if not isinstance(leader, Leader):
            return
        state = Resigned(
            self.election_deadline(resigned=True),
            leader.successors(),
            set(self.other_voters),
        )
        self._enter(state, durable=False)
        self.trace("resign", {"reason": reason})

    def leave_prospective(self) -> None:
        """Give up the pre-vote: follow the known leader again, or wait."""
        state = self.state
        if not isinstance(state, Prospective):
            raise FatalError(f"{state.name} is not prospective")
        endpoint = self.leader_endpoint
        if state.leader_id >= 0 and endpoint is not None:
            self.become_follower(self.epoch, state.leader_id, endpoint)
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
        """Make the next transition when a pre-vote or an election is decided."""
        state = self.state
        if isinstance(state, Prospective):
            if election.is_won(len(self.voters), len(state.granted)):
                self.become_candidate()
            elif self.has_lost(state):
                self.leave_prospective()
        elif isinstance(state, Candidate) and election.is_won(len(self.voters), len(state.granted)):
            self.become_leader()

    def learn(self, leader_id: int, epoch: int, endpoint: Endpoint | None = None) -> None:
        """Adopt leader and epoch as another node reports them (maybeTransition).

        A leader is followed only if its address is known: ``endpoint``, or the voter set's. Raises
        :class:`ContradictionError`, with nothing changed, for two leaders in one epoch, for a claim
        that this node leads, and for an epoch beyond the limit.
        """
        if epoch < self.epoch:
            return
        if leader_id == self.node_id and not self.is_voter:
            # The leader had this node's id and another disk; this replica is not the leader
            # (KIP-853).
            leader_id = -1
        if leader_id >= 0 and endpoint is None:
            endpoint = self.voter_set.endpoint(leader_id)
        if epoch > self.epoch:
            if leader_id == self.node_id:
                raise ContradictionError(f"told to lead epoch {epoch}, which was never won")
            self.check_reach(epoch)
            if leader_id >= 0 and endpoint is not None:
                self.become_follower(epoch, leader_id, endpoint)
            else:
                self.become_unattached(epoch)
            return
        state = self.state
        if leader_id < 0:
            return
        if leader_id == state.leader_id and not isinstance(state, Unattached):
            if isinstance(state, Follower) and state.leader_endpoint is None:
                state.leader_endpoint = endpoint
            return
        if leader_id == self.node_id:
            if isinstance(state, Resigned):
                return
            raise ContradictionError(f"told to lead epoch {epoch}, which was never won")
        known = self.node_id if isinstance(state, Resigned) else state.leader_id
        if known not in (-1, leader_id):
            raise ContradictionError(f"two leaders in epoch {epoch}: {known} and {leader_id}")
        if endpoint is not None:
            self.become_follower(epoch, leader_id, endpoint)

    def check_reach(self, epoch: int) -> None:
        """Raise :class:`ContradictionError` for an epoch that no quorum can have reached."""
        most = self.epoch_limit.at(self.now)
        if epoch > most:
            raise ContradictionError(
                f"epoch {epoch} is out of reach: this node is in {self.epoch} and believes in "
                f"epochs up to {most}"
            )

    def high_watermark_advanced(self) -> None:
        """Answer the client of a voter change that is now committed; resign if it was removed."""
        leader = self.state
        if isinstance(leader, Leader) and membership.committed(self, leader):
            self.resign("removed from the voters")

    def stop(self) -> None:
        """Shut down gracefully: at once, or, as leader, after announcing it to the voters."""
        self.shutting_down = True
        self.resign("shutdown")

    def maybe_finish_shutdown(self) -> None:
        """Finish the shutdown; a resigned leader waits until it knows a successor."""
        if not self.shutting_down or self.stopped:
            return
        resigned = isinstance(self.state, Resigned)
        if not resigned or self.other_voters == [] or not self.is_voter:
            self.stopped = True
            self.trace("stop")
            self.effects.append(Stopped())
