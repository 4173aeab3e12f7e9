"""Handlers of quorum RPCs, with Kafka's order of checks (KRAFT RPCs 52-54, 1).

Each handler returns the answer, or None when a Fetch was parked.
"""

from __future__ import annotations

from kraftwreck.nodes.consensus.containment import CONTRADICTION, contained
from kraftwreck.nodes.consensus.effects import Abandon, Reply
from kraftwreck.nodes.consensus.kraft import election, membership, snapshots
from kraftwreck.nodes.consensus.kraft.fetches import Parked, answer, fetch_error, validate
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    QuorumResponse,
    RemoveRaftVoterRequest,
    Request,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import Follower
from kraftwreck.nodes.protocol import errors

_MS = 1000
_ABOUT_EPOCHS = (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest)


def handle_request(replica: Replica, token: int, message: Request) -> None:
    """Handle one RPC completely and queue its answer; ``containment`` defines rejections."""
    name = type(message).__name__
    refused = contained(replica, name, lambda: _handle(replica, token, message))
    if refused == CONTRADICTION and isinstance(message, _ABOUT_EPOCHS):
        replica.effects.append(Reply(token, _refusal(replica, message)))
    elif refused is not None:
        replica.effects.append(Abandon(token))


def _refusal(replica: Replica, message: Request) -> QuorumResponse:
    """Return an answer with a top-level error, which is not fatal for Apache Kafka either."""
    error, leader, epoch = errors.INVALID_REQUEST, replica.leader_id, replica.epoch
    if isinstance(message, VoteRequest):
        return VoteResponse(error, errors.NONE, leader, epoch, False)
    if isinstance(message, BeginQuorumEpochRequest):
        return BeginQuorumEpochResponse(error, errors.NONE, leader, epoch)
    return EndQuorumEpochResponse(error, errors.NONE, leader, epoch)


def _handle(replica: Replica, token: int, message: Request) -> None:
    response: QuorumResponse | None
    if isinstance(message, FetchRequest):
        response = _fetch(replica, token, message)
    elif isinstance(message, VoteRequest):
        response = _vote(replica, message)
    elif isinstance(message, BeginQuorumEpochRequest):
        response = _begin_quorum_epoch(replica, message)
    elif isinstance(message, EndQuorumEpochRequest):
        response = _end_quorum_epoch(replica, message)
    elif isinstance(message, FetchSnapshotRequest):
        snapshots.send_reply(replica, token, message)
        response = None
    elif isinstance(message, AddRaftVoterRequest | RemoveRaftVoterRequest):
        response = _voter_change(replica, token, message)
    elif isinstance(message, UpdateRaftVoterRequest):
        response = _update_voter(replica, message)
    else:
        raise TypeError(f"{type(message).__name__} is not served")
    if response is not None:
        replica.effects.append(Reply(token, response))


def _wrong_cluster(replica: Replica, cluster_id: str | None) -> bool:
    return cluster_id is not None and cluster_id != replica.config.cluster_id


def _is_other_voter(replica: Replica, voter_id: int, directory: bytes) -> bool:
    """Whether the request names a voter key that is not this node's (-1: names none)."""
    if voter_id >= 0 and voter_id != replica.node_id:
        return True
    return directory not in (NO_DIRECTORY, replica.config.directory_id)


# --- Vote -----------------------------------------------------------------------------------


def _vote(replica: Replica, request: VoteRequest) -> VoteResponse:
    def reply(partition_error: int, *, granted: bool = False, error: int = 0) -> VoteResponse:
        return VoteResponse(
            error,
            partition_error,
            replica.leader_id,
            replica.epoch,
            granted,
            replica.leader_endpoint,
        )

    if _wrong_cluster(replica, request.cluster_id):
        return reply(0, error=errors.INCONSISTENT_CLUSTER_ID)
    newest_allowed = request.epoch if request.pre_vote else request.epoch - 1
    if (
        request.last_offset < 0
        or request.last_epoch < 0
        or request.last_epoch > newest_allowed
        or request.candidate_id < 0
    ):
        return reply(errors.INVALID_REQUEST)
    if request.epoch < replica.epoch:
        return reply(errors.FENCED_LEADER_EPOCH)
    if request.epoch > replica.epoch:
        replica.check_reach(request.epoch)
        replica.become_unattached(request.epoch)
    if _is_other_voter(replica, request.voter_id, request.voter_directory):
        return reply(errors.INVALID_VOTER_KEY)
    own = (replica.log.last_epoch, replica.log.end_offset)
    granted = election.grants(replica.state, request, own)
    if granted:
        if not request.pre_vote:
            replica.grant_vote(request.candidate_id, request.candidate_directory)
        replica.trace(
            "grant",
            {
                "epoch": request.epoch,
                "candidate": request.candidate_id,
                "pre": request.pre_vote,
                "candidate_last_epoch": request.last_epoch,
                "candidate_last_offset": request.last_offset,
                "last_epoch": own[0],
                "last_offset": own[1],
            },
        )
    return reply(errors.NONE, granted=granted)


# --- BeginQuorumEpoch, EndQuorumEpoch ---------------------------------------------------------


def _begin_quorum_epoch(
    replica: Replica, request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    def reply(partition_error: int, error: int = 0) -> BeginQuorumEpochResponse:
        return BeginQuorumEpochResponse(
            error, partition_error, replica.leader_id, replica.epoch, replica.leader_endpoint
        )

    if _wrong_cluster(replica, request.cluster_id):
        return reply(0, errors.INCONSISTENT_CLUSTER_ID)
    if request.leader_epoch < replica.epoch:
        return reply(errors.FENCED_LEADER_EPOCH)
    if request.leader_id < 0:
        return reply(errors.INVALID_REQUEST)
    replica.learn(request.leader_id, request.leader_epoch, request.leader_endpoint)
    if _is_other_voter(replica, request.voter_id, request.voter_directory):
        return reply(errors.INVALID_VOTER_KEY)
    return reply(errors.NONE)


def _end_quorum_epoch(replica: Replica, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    def reply(partition_error: int, error: int = 0) -> EndQuorumEpochResponse:
        return EndQuorumEpochResponse(
            error, partition_error, replica.leader_id, replica.epoch, replica.leader_endpoint
        )

    if _wrong_cluster(replica, request.cluster_id):
        return reply(0, errors.INCONSISTENT_CLUSTER_ID)
    if request.leader_epoch < replica.epoch:
        return reply(errors.FENCED_LEADER_EPOCH)
    if request.leader_id < 0:
        return reply(errors.INVALID_REQUEST)
    replica.learn(request.leader_id, request.leader_epoch, request.leader_endpoint)
    state = replica.state
    if isinstance(state, Follower) and state.leader_id == request.leader_id and replica.is_voter:
        own = {(replica.node_id, NO_DIRECTORY), (replica.node_id, replica.config.directory_id)}
        places = [i for i, key in enumerate(request.successors) if key in own]
        position = places[0] if places else -1
        delay_ms = successor_delay_ms(
            position, len(request.successors), replica.config.election_backoff_max_ms
        )
        state.ended(replica.now + delay_ms * _MS)
    return reply(errors.NONE)


def successor_delay_ms(position: int, count: int, backoff_max_ms: int) -> int:
    """Return how long the ``position``-th of ``count`` preferred successors waits."""
    if position == 0:
        return 0
    if position < 0 or position >= count:
        return backoff_max_ms
    return min(backoff_max_ms, (backoff_max_ms >> (count - 1)) << (position - 1))


# --- Fetch ------------------------------------------------------------------------------------


def _fetch(replica: Replica, token: int, request: FetchRequest) -> FetchResponse | None:
    if _wrong_cluster(replica, request.cluster_id):
        return fetch_error(replica, 0, errors.INCONSISTENT_CLUSTER_ID)
    if (
        request.max_wait_ms < 0
        or request.fetch_offset < 0
        or request.last_fetched_epoch < 0
        or request.last_fetched_epoch > request.current_leader_epoch
        or request.replica_id == replica.node_id
    ):
        return fetch_error(replica, errors.INVALID_REQUEST)
    if request.current_leader_epoch < replica.epoch:
        return fetch_error(replica, errors.FENCED_LEADER_EPOCH)
    if request.current_leader_epoch > replica.epoch:
        return fetch_error(replica, errors.UNKNOWN_LEADER_EPOCH)
    leader = replica.state
    if not isinstance(leader, Leader):
        return fetch_error(replica, errors.NOT_LEADER_OR_FOLLOWER)
    if replica.shutting_down:
        return fetch_error(replica, errors.BROKER_NOT_AVAILABLE)
    # Only a valid fetch offset is an acknowledgement (KAFKA-13141): noted before the answer is
    # read, so that the answer already carries the high watermark this fetch made known.
    verdict = validate(replica, request.fetch_offset, request.last_fetched_epoch)
    valid = verdict.is_valid
    advanced = False
    if valid and request.replica_id >= 0:
        leader.record_fetch(
            request.replica_id,
            request.directory,
            request.fetch_offset,
            replica.log.end_offset,
            replica.now,
            replica.wall_ms,
        )
        advanced = replica.advance_high_watermark(leader)
    if advanced:
        if replica.state is not leader:  # The commit removed this node from the voters.
            return fetch_error(replica, errors.NOT_LEADER_OR_FOLLOWER)
        replica.parked.complete(replica, high_watermark_changed=True)
    response = answer(replica, request, verdict)
    if (
        response.records
        or not valid
        or request.max_wait_ms == 0
        or response.high_watermark > request.high_watermark
    ):
        return response
    deadline = replica.now + request.max_wait_ms * _MS
    replica.parked.park(replica, Parked(token, request, deadline, response))
    return None


# --- voter changes ----------------------------------------------------------------------------


def _voter_change(
    replica: Replica, token: int, request: AddRaftVoterRequest | RemoveRaftVoterRequest
) -> VoterChangeResponse | None:
    if _wrong_cluster(replica, request.cluster_id):
        return VoterChangeResponse(errors.INCONSISTENT_CLUSTER_ID)
    if isinstance(request, AddRaftVoterRequest):
        error = membership.add_voter(replica, token, request)
    else:
        error = membership.remove_voter(replica, token, request)
    return VoterChangeResponse(error) if error != errors.NONE else None


def _update_voter(replica: Replica, request: UpdateRaftVoterRequest) -> VoterChangeResponse:
    def reply(error: int) -> VoterChangeResponse:
        return VoterChangeResponse(
            error, errors.NONE, replica.leader_id, replica.epoch, replica.leader_endpoint
        )

    if _wrong_cluster(replica, request.cluster_id):
        return reply(errors.INCONSISTENT_CLUSTER_ID)
    if request.current_leader_epoch < replica.epoch:
        return reply(errors.FENCED_LEADER_EPOCH)
    if request.current_leader_epoch > replica.epoch:
        return reply(errors.UNKNOWN_LEADER_EPOCH)
    if not isinstance(replica.state, Leader):
        return reply(errors.NOT_LEADER_OR_FOLLOWER)
    if replica.shutting_down:
        return reply(errors.BROKER_NOT_AVAILABLE)
    return reply(membership.update_voter(replica, request))
