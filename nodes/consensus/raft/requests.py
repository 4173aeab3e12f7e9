"""Handlers of Raft's requests (figure 2 of the Raft paper, figure 13 for InstallSnapshot)."""

from __future__ import annotations

from kraftwreck.nodes.consensus.containment import contained
from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ContradictionError,
    FatalError,
    FlushLog,
    Reply,
)
from kraftwreck.nodes.consensus.raft import snapshots
from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    InstallSnapshotRequest,
    InstallSnapshotResponse,
    Request,
    RequestVoteRequest,
    RequestVoteResponse,
    Response,
)
from kraftwreck.nodes.consensus.raft.replica import MS, RaftReplica
from kraftwreck.nodes.consensus.raft.states import Follower, Leader
from kraftwreck.nodes.log.batch import (
    BatchError,
    BatchHeader,
    parse_header,
    split_batches,
    verify_crc,
)

Entry = tuple[bytes, BatchHeader]


def handle_request(replica: RaftReplica, token: int, message: Request) -> None:
    """Handle one request completely and queue its response; reject a contradiction."""
    name = type(message).__name__
    if contained(replica, name, lambda: _handle(replica, token, message)) is not None:
        replica.effects.append(Abandon(token))


def _handle(replica: RaftReplica, token: int, message: Request) -> None:
    if message.cluster_id != replica.config.cluster_id:
        raise ContradictionError(f"a request for cluster {message.cluster_id!r}")
    response: Response
    if isinstance(message, RequestVoteRequest):
        response = _request_vote(replica, message)
    elif isinstance(message, AppendEntriesRequest):
        response = _append_entries(replica, message)
    elif isinstance(message, InstallSnapshotRequest):
        response = _install_snapshot(replica, message)
    else:
        raise TypeError(f"{type(message).__name__} is not served")
    replica.effects.append(Reply(token, response))


# --- RequestVote --------------------------------------------------------------------------


def _request_vote(replica: RaftReplica, request: RequestVoteRequest) -> RequestVoteResponse:
    if request.candidate_id not in replica.config.members:
        raise ContradictionError(f"candidate {request.candidate_id} is not a member")
    if request.candidate_id == replica.node_id:
        raise ContradictionError("a request for votes in this member's own name")
    replica.check_reach(request.term)
    up_to_date = (request.last_term, request.last_offset) >= replica.log_end
    if request.pre_vote:
        granted = _pre_vote(replica, request, up_to_date)
        return RequestVoteResponse(replica.term, granted)
    if request.term < replica.term:
        return RequestVoteResponse(replica.term, False)
    if request.term > replica.term:
        replica.become_follower(request.term)
    granted = replica.voted_for in (-1, request.candidate_id) and up_to_date
    if granted:
        replica.grant_vote(request.candidate_id)
    return RequestVoteResponse(replica.term, granted)


def _pre_vote(replica: RaftReplica, request: RequestVoteRequest, up_to_date: bool) -> bool:
    """Whether this member would vote for the candidate; nothing changes (thesis 9.6)."""
    state = replica.state
    if isinstance(state, Leader):
        return False
    heard_at = state.heard_at if isinstance(state, Follower) else -1
    if heard_at >= 0 and replica.now < heard_at + replica.config.election_timeout_ms * MS:
        return False  # It must not disrupt a leader that this member hears (thesis 4.2.3).
    if request.term < replica.term or not up_to_date:
        return False
    return request.term > replica.term or replica.voted_for in (-1, request.candidate_id)


# --- AppendEntries ------------------------------------------------------------------------


def _accept_leader(
    replica: RaftReplica, request: AppendEntriesRequest | InstallSnapshotRequest
) -> Follower | None:
    """Follow the sender and restart the election timer; None if its term is over."""
    if request.leader_id not in replica.config.members or request.leader_id == replica.node_id:
        raise ContradictionError(f"leader {request.leader_id} is not another member")
    if request.term < replica.term:
        return None
    replica.check_reach(request.term)
    if request.term == replica.term and replica.leader_id not in (-1, request.leader_id):
        known = replica.leader_id
        raise ContradictionError(
            f"two leaders in term {request.term}: {known} and {request.leader_id}"
        )
    state = replica.state
    if (
        not isinstance(state, Follower)
        or request.term > replica.term
        or state.leader_id != request.leader_id
    ):
        replica.become_follower(request.term, request.leader_id)
    follower = replica.state
    assert isinstance(follower, Follower)
    follower.deadline = replica.election_deadline()
    follower.heard_at = replica.now
    return follower


def _append_entries(replica: RaftReplica, request: AppendEntriesRequest) -> AppendEntriesResponse:
    entries = _entries(replica, request)
    if _accept_leader(replica, request) is None:
        return AppendEntriesResponse(replica.term, False)
    log = replica.log
    if request.prev_offset > log.end_offset:
        return AppendEntriesResponse(replica.term, False, -1, -1, log.end_offset)
    if request.prev_offset >= log.start_offset:
        own = log.epoch_before(request.prev_offset)
        assert own is not None, "the log has an epoch before any of its ends"
        held = log.header_at(request.prev_offset)
        if own != request.prev_term or (held and held.base_offset != request.prev_offset):
            first = log.first_offset_of(own)
            conflict = log.start_offset if first is None else first
            return AppendEntriesResponse(replica.term, False, -1, own, conflict)
    # Records below the log start are in a snapshot: committed, so the leader has the same.
    match = max(request.prev_offset, log.start_offset)
    if entries:
        match = max(match, entries[-1][1].last_offset + 1)
        _store(replica, entries)
    # Not the log's end: entries after those of this request may be another leader's.
    replica.set_commit(max(replica.commit_offset, min(request.leader_commit, match)))
    return AppendEntriesResponse(replica.term, True, match)


def _entries(replica: RaftReplica, request: AppendEntriesRequest) -> list[Entry]:
    """Return the batches of a request, all checked. Raises ContradictionError."""
    expected, term, total = request.prev_offset, request.prev_term, 0
    if expected < 0 or term < 0 or request.leader_commit < 0:
        raise ContradictionError("a negative offset or term")
    entries: list[Entry] = []
    try:
        for batch in split_batches(request.entries):
            header = parse_header(batch)
            if header.base_offset != expected:
                raise ContradictionError(f"entry {header.base_offset} where {expected} follows")
            if not term <= header.epoch <= request.term:
                raise ContradictionError(f"entry of term {header.epoch} after one of {term}")
            if not verify_crc(batch):
                raise ContradictionError(f"entry {header.base_offset} has a wrong checksum")
            entries.append((batch, header))
            expected, term, total = header.last_offset + 1, header.epoch, total + len(batch)
    except BatchError as error:
        raise ContradictionError(str(error)) from error
    if total != len(request.entries):
        raise ContradictionError("a part of an entry")
    return entries


def _store(replica: RaftReplica, entries: list[Entry]) -> None:
    """Append the entries that are not here, durably; truncate at the first conflict only."""
    log = replica.log
    appended = False
    for batch, header in entries:
        if header.last_offset < log.start_offset:
            continue
        held = log.header_at(header.base_offset)
        if held is not None:
            if held.epoch == header.epoch:
                if held.crc != header.crc:
                    raise FatalError(f"two entries {held.base_offset} of term {held.epoch}")
                continue
            replica.truncate(header.base_offset)
        replica.append(batch, header, "follower")
        appended = True
    if appended:
        replica.effects.append(FlushLog())


# --- InstallSnapshot ----------------------------------------------------------------------


def _install_snapshot(
    replica: RaftReplica, request: InstallSnapshotRequest
) -> InstallSnapshotResponse:
    snapshots.check(request)
    follower = _accept_leader(replica, request)
    if follower is None:
        return InstallSnapshotResponse(replica.term, 0)
    return InstallSnapshotResponse(replica.term, snapshots.receive(replica, follower, request))
