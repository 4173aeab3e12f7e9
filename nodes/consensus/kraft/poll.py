"""Time-driven actions of a replica, by state, and the deadline of the next one."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.consensus.kraft import membership, snapshots
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.member import State
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import (
    NEVER,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from kraftwreck.nodes.draw import draw

_MS = 1000
OBSERVER_SESSION_US: Final = 300_000_000
"""How long a leader remembers a silent observer."""
PROBE_INTERVAL_MS: Final = 100
"""Pause between a replica's requests to random voters while it cannot reach a leader."""


def poll(replica: Replica) -> None:
    """Do everything that is due at ``replica.now``; idempotent at one instant."""
    now = replica.now
    replica.links.expire(now)
    if now >= replica.clean_at:
        replica.clean_at = now + replica.config.clean_interval_ms * _MS
        snapshots.clean(replica)
    if replica.shutting_down:
        replica.maybe_finish_shutdown()
    before = None
    while before is not replica.state:
        before = replica.state
        if isinstance(before, Leader):
            _leader(replica, before)
        elif isinstance(before, Follower):
            _follower(replica, before)
        elif isinstance(before, Unattached):
            _unattached(replica, before)
        elif isinstance(before, Resigned):
            _resigned(replica, before)
        else:
            _nominee(replica, before)


def deadline(replica: Replica) -> int:
    """Return when :func:`poll` is next needed, microseconds."""
    state = replica.state
    now = replica.now
    links = replica.links
    wake = links.next_event()
    if replica.clean_at < wake:
        wake = replica.clean_at
    if now < replica.probe_at < wake:
        wake = replica.probe_at
    if isinstance(state, Leader):
        wake = min(wake, state.check_quorum_deadline, state.drain_at, replica.parked.next_deadline)
        if state.change is not None:
            wake = min(wake, state.change.deadline)
        period = replica.config.fetch_timeout_ms * _MS // 2
        progress = state.voters
        for voter in replica.other_voters:
            last = progress[voter].last_fetch
            if last < 0 or last + period < wake:  # Most fetched a moment ago.
                due = _begin_due(state, voter, period)
                if due < wake and links.is_open(voter):
                    wake = due
        return wake
    if now < replica.join_at < wake and _wants_to_tell(replica, state):
        wake = replica.join_at
    if replica.shutting_down and isinstance(state, Resigned):
        return wake  # It has no deadline: a new leader, or the end of the process, ends it.
    return wake if wake < state.deadline else state.deadline


def _leader(replica: Replica, leader: Leader) -> None:
    now = replica.now
    if now >= leader.check_quorum_deadline:
        replica.resign("check-quorum")
        return
    if leader.pending and (
        now >= leader.drain_at or leader.pending_bytes >= replica.config.batch_max_bytes
    ):
        replica.drain(leader)
    replica.parked.expire(replica)
    membership.expire(replica, leader)
    if leader.observers:
        leader.forget_silent_observers(now - OBSERVER_SESSION_US)
    period = replica.config.fetch_timeout_ms * _MS // 2
    silent = max(now - period, -1)  # -1: never fetched, silent even right after boot
    for voter in replica.other_voters:
        # Most fetched a moment ago.
        if leader.voters[voter].last_fetch <= silent and now >= _begin_due(leader, voter, period):
            request = BeginQuorumEpochRequest(
                replica.config.cluster_id,
                voter,
                _directory(replica, voter),
                replica.node_id,
                replica.epoch,
                replica.leader_endpoint,
            )
            if replica.send(voter, request):
                leader.voters[voter].last_begin = now


def _begin_due(leader: Leader, voter: int, period: int) -> int:
    progress = leader.voters[voter]
    heard = progress.last_fetch
    if progress.last_begin > heard:
        heard = progress.last_begin
    return heard + period if heard >= 0 else 0


def _follower(replica: Replica, follower: Follower) -> None:
    overdue = replica.now >= follower.deadline
    if overdue and not replica.is_voter:
        # An observer keeps fetching but does not block an election: it may be a voter by a record
        # that it has not fetched yet, and its vote may be needed.
        follower.deadline = NEVER
        follower.has_fetched = False
    elif overdue:
        replica.become_prospective()
        return
    if not replica.links.idle:
        return
    reachable = replica.endpoint_of(follower.leader_id) is not None
    if reachable and replica.links.is_ready(follower.leader_id, replica.now):
        replica.send(follower.leader_id, _follower_request(replica, follower))
    else:
        # The leader does not answer, or it was known from the voter set only and has left it.
        _fetch_from_anybody(replica)


def _unattached(replica: Replica, state: Unattached) -> None:
    if replica.now >= state.deadline:
        replica.become_prospective()
        return
    if replica.links.idle:
        _fetch_from_anybody(replica)


def _fetch_from_anybody(replica: Replica) -> None:
    """Fetch from a random ready voter at a steady pace, to learn the leader.

    The winner of an election also announces itself.
    """
    now = replica.now
    if now < replica.probe_at:
        return
    ready = [v for v in replica.bootstrap_ids() if replica.links.is_ready(v, now)]
    if ready:
        config = replica.config
        choice = draw(config.seed, config.node_id, "bootstrap", config.incarnation, now)
        replica.send(ready[choice % len(ready)], _fetch_request(replica))
        replica.probe_at = now + PROBE_INTERVAL_MS * _MS


def _directory(replica: Replica, voter_id: int) -> bytes:
    voter = replica.voter_set.get(voter_id)
    return voter.directory if voter is not None else NO_DIRECTORY


def _follower_request(replica: Replica, follower: Follower) -> Request:
    """Return the next request to the leader: join or update the voters, snapshot, or records."""
    if replica.now >= replica.join_at and _wants_to_tell(replica, follower):
        replica.join_at = replica.now + 2 * replica.config.fetch_timeout_ms * _MS
        return _tell(replica)
    if follower.download is not None:
        return snapshots.request_piece(replica, follower.download)
    return _fetch_request(replica)


def _wants_to_tell(replica: Replica, state: State) -> bool:
    """Whether the voter set has outdated data of this node, or lacks it (KIP-853)."""
    if not isinstance(state, Follower) or replica.config.listener is None:
        return False
    if not replica.is_voter:
        return replica.config.auto_join and replica.kraft_version >= 1
    if replica.kraft_version == 0:
        return not state.has_updated
    return membership.own_voter(replica) != replica.voter_set.get(replica.node_id)


def _tell(replica: Replica) -> Request:
    config = replica.config
    own = membership.own_voter(replica)
    if replica.is_voter:
        return UpdateRaftVoterRequest(
            config.cluster_id,
            replica.epoch,
            own.voter_id,
            own.directory,
            own.endpoints,
            own.min_version,
            own.max_version,
        )
    other = replica.voter_set.get(replica.node_id)
    if other is not None:
        # The same id with another directory: the previous disk of this node.
        return RemoveRaftVoterRequest(config.cluster_id, other.voter_id, other.directory)
    timeout = config.request_timeout_ms
    return AddRaftVoterRequest(
        config.cluster_id, timeout, own.voter_id, own.directory, own.endpoints, False
    )


def _fetch_request(replica: Replica) -> FetchRequest:
    config = replica.config
    return FetchRequest(
        config.cluster_id,
        config.node_id,
        config.directory_id,
        config.fetch_max_wait_ms,
        config.fetch_max_bytes,
        replica.epoch,
        replica.log.end_offset,
        replica.log.last_epoch,
        replica.high_watermark,
    )


def _nominee(replica: Replica, nominee: Prospective | Candidate) -> None:
    if replica.now >= nominee.deadline:
        if isinstance(nominee, Candidate):
            replica.become_prospective()
        else:
            replica.leave_prospective()
        return
    if replica.has_lost(nominee):
        return
    config = replica.config
    for voter in replica.other_voters:
        if voter not in nominee.granted and voter not in nominee.rejected:
            replica.send(
                voter,
                VoteRequest(
                    config.cluster_id,
                    voter,
                    replica.epoch,
                    config.node_id,
                    config.directory_id,
                    _directory(replica, voter),
                    replica.log.last_epoch,
                    replica.log.end_offset,
                    isinstance(nominee, Prospective),
                ),
            )


def _resigned(replica: Replica, resigned: Resigned) -> None:
    if replica.now >= resigned.deadline and not replica.shutting_down:
        replica.become_unattached(replica.epoch + 1)
        return
    for voter in sorted(resigned.unacknowledged):
        replica.send(
            voter,
            EndQuorumEpochRequest(
                replica.config.cluster_id,
                replica.node_id,
                replica.epoch,
                resigned.successors,
                replica.config.listener or replica.voter_set.endpoint(replica.node_id),
            ),
        )
