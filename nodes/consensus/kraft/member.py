"""The parts of a replica common to all states: identity, voters, clocks, outgoing messages."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.consensus.effects import Effect, Send, Trace, WriteQuorumState
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.epochs import EpochLimit
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import NO_HIGH_WATERMARK, Request
from kraftwreck.nodes.consensus.kraft.states import (
    NEVER,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from kraftwreck.nodes.consensus.kraft.voters import VoterHistory, VoterSet
from kraftwreck.nodes.consensus.links import Links
from kraftwreck.nodes.consensus.log import ReplicatedLog
from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import decode_batch
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS, decode_control

State = Unattached | Prospective | Candidate | Follower | Leader | Resigned
MS: Final = 1000
FIRST_BOOTSTRAP_ID: Final = -2
"""Destination of the first bootstrap server; the next ones count down."""


class Member:
    """One node of the quorum, voter or observer.

    The voter set in force is the latest one **appended** (KIP-853): :meth:`voters_changed` is
    called whenever the log's end moves over one.
    """

    def __init__(self, config: QuorumConfig, now: int, wall_ms: int) -> None:
        self.config = config
        self.node_id = config.node_id
        self.now = now
        self.wall_ms = wall_ms
        self.effects: list[Effect] = []
        self.epoch = 0
        self.epoch_limit = EpochLimit(0, now)
        self.high_watermark = NO_HIGH_WATERMARK
        self.log = ReplicatedLog()
        self.snapshots: list[SnapshotFile] = []
        self.links = Links(config)
        self.probe_at = 0
        self.join_at = 0
        self.state: State = Unattached(deadline=NEVER)
        self.history = VoterHistory(VoterSet.static(config.voters))
        self.note_voters()

    # --- voters ---------------------------------------------------------------------------

    @property
    def voter_set(self) -> VoterSet:
        """The voter set in force, committed or not."""
        return self.history.latest

    @property
    def kraft_version(self) -> int:
        """The level of the feature ``kraft.version`` in force, committed or not."""
        return self.history.level

    def note_voters(self) -> None:
        """Store the current voters, and whether this node is one."""
        self.voters = self.history.latest.ids
        self.is_voter = self.history.latest.has(self.node_id, self.config.directory_id)
        self.other_voters = [v for v in self.voters if v != self.node_id]
        """All voters but this node."""

    def read_control(self, batch: bytes) -> bool:
        """Take voter sets and kraft.version from a control batch; True if it holds any."""
        found = False
        for offset, key, value in decode_batch(batch)[1]:
            kind, fields = decode_control(key, value)
            if kind == KRAFT_VOTERS:
                self.history.add_voters(offset, VoterSet.from_record(fields))
                found = True
            elif kind == KRAFT_VERSION:
                self.history.add_level(offset, fields["kraft_version"])
                found = True
        return found

    def voters_changed(self) -> None:
        """Apply the voter set in force; called whenever it may have changed."""
        self.note_voters()
        state = self.state
        if isinstance(state, Leader):
            state.set_voters(self.voter_set, self.now)
        elif isinstance(state, Follower) and state.deadline == NEVER and self.is_voter:
            state.deadline = self.fetch_deadline()
        self.trace_voters()

    def trace_voters(self) -> None:
        """Trace the voter set in force."""
        self.trace(
            "voters",
            {
                "voters": self.voter_set.described(),
                "offset": self.history.offset,
                "kraft_version": self.kraft_version,
            },
        )

    # --- clocks and random delays -------------------------------------------------------

    def election_deadline(self, *, resigned: bool = False) -> int:
        """Return a fresh election deadline, uniform in [T, 2T).

        Never for an observer, unless it resigns: it may have removed itself from the voters.
        """
        if not self.is_voter and not resigned:
            return NEVER
        timeout = self.config.election_timeout_ms * MS
        config = self.config
        jitter = draw_below(
            timeout, config.seed, config.node_id, "election", config.incarnation, self.now // 50_000
        )
        return self.now + timeout + jitter

    def fetch_deadline(self) -> int:
        """Return when a follower's fetch timeout expires."""
        return self.now + self.config.fetch_timeout_ms * MS

    # --- simple properties ------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads the current epoch."""
        return isinstance(self.state, Leader)

    @property
    def leader_id(self) -> int:
        """The leader of the current epoch as far as known, -1 otherwise."""
        return self.state.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader of the current epoch listens, None if not known."""
        state = self.state
        if isinstance(state, Leader):
            return self.config.listener or self.voter_set.endpoint(self.node_id)
        if isinstance(state, (Follower, Prospective)) and state.leader_endpoint is not None:
            return state.leader_endpoint
        return self.voter_set.endpoint(state.leader_id)

    def trace(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Trace a transition that has just happened."""
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

        A resigned node stays on disk as the leader of its epoch. Otherwise it could vote for
        another node in the same epoch after the next restart.
        """
        state = self.state
        leader_id = self.node_id if isinstance(state, Resigned) else state.leader_id
        self.effects.append(
            WriteQuorumState(
                self.epoch,
                leader_id,
                state.voted_id,
                state.voted_directory,
                self.voters,
                self.kraft_version,
            )
        )

    # --- outgoing messages --------------------------------------------------------------

    def send(self, destination: int, message: Request) -> bool:
        """Send unless a request to ``destination`` is in flight or backing off; True when sent."""
        endpoint = self.endpoint_of(destination)
        if endpoint is None:
            return False
        correlation = self.links.open(destination, self.now)
        if correlation is None:
            return False
        self.effects.append(Send(destination, correlation, message, endpoint))
        return True

    def endpoint_of(self, destination: int) -> Endpoint | None:
        """Return the endpoint of ``destination``: a node id or a bootstrap server."""
        if destination <= FIRST_BOOTSTRAP_ID:
            return self.config.bootstrap_servers[FIRST_BOOTSTRAP_ID - destination]
        if destination == self.leader_id:
            return self.leader_endpoint
        state = self.state
        if isinstance(state, Leader) and state.change is not None:
            voter = state.change.voter
            if voter.voter_id == destination:
                return voter.endpoint
        return self.voter_set.endpoint(destination)

    def bootstrap_ids(self) -> list[int]:
        """Return the nodes that may know the leader: the other voters and the bootstrap servers."""
        servers = [
            FIRST_BOOTSTRAP_ID - position
            for position, server in enumerate(self.config.bootstrap_servers)
            if server != self.config.listener
        ]
        return self.other_voters + servers
