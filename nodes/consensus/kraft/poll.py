"""What a replica does as time passes, by state; and when it next wants to be woken."""

from __future__ import annotations

from typing import Final

from nodes.consensus.kraft.leader import Leader
from nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    VoteRequest,
)
from nodes.consensus.kraft.replica import Replica
from nodes.consensus.kraft.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from nodes.draw import draw

_MS = 1000
PROBE_INTERVAL_MS: Final = 100
"""How often a replica that cannot reach a leader asks around."""


def poll(replica: Replica) -> None:
    """Do everything that is due at ``replica.now``; idempotent at one instant."""
    replica.links.expire(replica.now)
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
    wake = replica.links.next_event()
    if replica.probe_at > replica.now:
        wake = min(wake, replica.probe_at)
    if isinstance(state, Leader):
        wake = min(wake, state.check_quorum_deadline, state.drain_at, replica.parked.next_deadline)
        period = replica.config.fetch_timeout_ms * _MS // 2
        for voter in replica.other_voters:
            if replica.links.is_open(voter):
                wake = min(wake, _begin_due(state, voter, period))
        return wake
    return min(wake, state.deadline)


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
    period = replica.config.fetch_timeout_ms * _MS // 2
    for voter in replica.other_voters:
        if now >= _begin_due(leader, voter, period):
            request = BeginQuorumEpochRequest(
                replica.config.cluster_id, voter, NO_DIRECTORY, replica.node_id, replica.epoch
            )
            if replica.send(voter, request):
                leader.voters[voter].last_begin = now


def _begin_due(leader: Leader, voter: int, period: int) -> int:
    progress = leader.voters[voter]
    heard = max(progress.last_fetch, progress.last_begin)
    return heard + period if heard >= 0 else 0


def _follower(replica: Replica, follower: Follower) -> None:
    if replica.now >= follower.deadline:
        replica.become_prospective()
        return
    if not replica.links.idle:
        return
    if replica.links.is_ready(follower.leader_id, replica.now):
        replica.send(follower.leader_id, _fetch_request(replica))
    else:
        _fetch_from_anybody(replica)


def _unattached(replica: Replica, state: Unattached) -> None:
    if replica.now >= state.deadline:
        replica.become_prospective()
        return
    if replica.links.idle:
        _fetch_from_anybody(replica)


def _fetch_from_anybody(replica: Replica) -> None:
    """Ask a random ready voter who leads, at a steady pace: the winner also announces itself."""
    now = replica.now
    if now < replica.probe_at:
        return
    ready = [v for v in replica.other_voters if replica.links.is_ready(v, now)]
    if ready:
        config = replica.config
        choice = draw(config.seed, config.node_id, "bootstrap", config.incarnation, now)
        replica.send(ready[choice % len(ready)], _fetch_request(replica))
        replica.probe_at = now + PROBE_INTERVAL_MS * _MS


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
                    NO_DIRECTORY,
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
                replica.config.cluster_id, replica.node_id, replica.epoch, resigned.successors
            ),
        )
