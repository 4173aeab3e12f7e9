"""Time-driven actions of a member, by state, and the deadline of the next one."""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.links import NEVER
from kraftwreck.nodes.consensus.raft import snapshots
from kraftwreck.nodes.consensus.raft.messages import AppendEntriesRequest, RequestVoteRequest
from kraftwreck.nodes.consensus.raft.replica import MS, RaftReplica
from kraftwreck.nodes.consensus.raft.states import (
    Candidate,
    Leader,
    PreCandidate,
    Progress,
)


def poll(replica: RaftReplica) -> None:
    """Do everything that is due at ``replica.now``; idempotent at one instant."""
    if replica.shutting_down:
        return
    now = replica.now
    replica.links.expire(now)
    state = replica.state
    if isinstance(state, Leader):
        if now >= _quorum_deadline(replica, state):
            replica.trace("resign", {"reason": "check-quorum"})
            replica.become_follower(replica.term)
    elif now >= state.deadline:
        replica.campaign()
    state = replica.state
    if isinstance(state, Leader):
        replica.flush_as_leader(state)
        replica.confirm_reads(state)
        for peer in replica.peers:
            if now >= _send_due(replica, state, state.progress[peer]):
                _replicate(replica, state, peer)
    elif isinstance(state, PreCandidate | Candidate):
        _request_votes(replica, state)


def deadline(replica: RaftReplica) -> int:
    """Return when :func:`poll` is next needed, microseconds."""
    if replica.shutting_down:
        return NEVER
    state = replica.state
    wake = replica.links.next_event()
    if not isinstance(state, Leader):
        return min(wake, state.deadline)
    wake = min(wake, _quorum_deadline(replica, state))
    for peer in replica.peers:
        if replica.links.is_open(peer):
            wake = min(wake, _send_due(replica, state, state.progress[peer]))
    return wake


def _quorum_deadline(replica: RaftReplica, leader: Leader) -> int:
    """Return when a leader that hears no majority steps down (thesis 6.2)."""
    if not replica.config.check_quorum or not replica.peers:
        return NEVER
    limit = replica.config.election_timeout_ms * MS
    return leader.heard_majority_at(replica.now) + limit


def _send_due(replica: RaftReplica, leader: Leader, progress: Progress) -> int:
    """Return when the next request to a follower is due: at once if there is something to send."""
    behind = progress.next_offset < replica.log.end_offset or progress.transfer is not None
    if behind or (leader.reads and progress.round_sent < leader.reads[-1].round):
        return replica.now
    return progress.sent_at + replica.config.heartbeat_ms * MS


def _replicate(replica: RaftReplica, leader: Leader, peer: int) -> None:
    if not replica.links.is_ready(peer, replica.now):
        return
    progress = leader.progress[peer]
    log = replica.log
    before = log.epoch_before(progress.next_offset)
    if progress.transfer is not None or before is None:
        if progress.transfer is None and progress.next_offset >= log.start_offset:
            raise FatalError(f"no term before {progress.next_offset}")
        replica.send(peer, snapshots.next_piece(replica, progress))
    else:
        request = AppendEntriesRequest(
            replica.config.cluster_id,
            replica.term,
            replica.node_id,
            progress.next_offset,
            before,
            replica.commit_offset,
            log.read(progress.next_offset, replica.config.append_max_bytes),
        )
        replica.send(peer, request)
    progress.sent_at = replica.now
    progress.round_sent = leader.round
    leader.round_begun = True


def _request_votes(replica: RaftReplica, state: PreCandidate | Candidate) -> None:
    """Request the votes that are still missing; one that was rejected stays rejected."""
    pre_vote = isinstance(state, PreCandidate)
    for peer in replica.peers:
        if peer in state.granted or peer in state.rejected:
            continue
        if replica.links.is_ready(peer, replica.now):
            request = RequestVoteRequest(
                replica.config.cluster_id,
                replica.term + 1 if pre_vote else replica.term,
                replica.node_id,
                *replica.log_end,
                pre_vote,
            )
            replica.send(peer, request)
