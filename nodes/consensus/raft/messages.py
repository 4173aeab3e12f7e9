"""The RPCs of Raft: RequestVote, AppendEntries, InstallSnapshot.

Raft's indexes are record offsets here, and every bound is exclusive. ``prev_offset`` is the end of
the log before the first entry, ``prev_term`` the term of the record before that end (0 for an empty
log). ``leader_commit`` is the first offset that is not committed. An entry is a record batch: all
its records have one term and are committed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestVoteRequest:
    """RequestVote: ``last_term`` and ``last_offset`` describe the end of the candidate's log.

    ``term`` of a pre-vote is the term after the candidate's own one.
    """

    cluster_id: str
    term: int
    candidate_id: int
    last_term: int
    last_offset: int
    pre_vote: bool


@dataclass(slots=True)
class RequestVoteResponse:
    """Response to RequestVote; ``term`` is the voter's own term."""

    term: int
    granted: bool


@dataclass(slots=True)
class AppendEntriesRequest:
    """AppendEntries: ``entries`` are whole record batches; none for a heartbeat."""

    cluster_id: str
    term: int
    leader_id: int
    prev_offset: int
    prev_term: int
    leader_commit: int
    entries: bytes = field(repr=False)


@dataclass(slots=True)
class AppendEntriesResponse:
    """Response to AppendEntries.

    On success the follower's log equals the leader's up to ``match_offset``. On failure
    ``conflict_term`` is the term of the follower's record before ``prev_offset`` and
    ``conflict_offset`` the first offset of that term. With ``conflict_term`` -1 the follower's log
    ends at ``conflict_offset``.
    """

    term: int
    success: bool
    match_offset: int = -1
    conflict_term: int = -1
    conflict_offset: int = -1


@dataclass(slots=True)
class InstallSnapshotRequest:
    """InstallSnapshot: ``data`` is the piece at ``position`` of a file of ``size`` bytes.

    The snapshot covers all records below ``end_offset``; ``end_term`` is the term of the last one.
    """

    cluster_id: str
    term: int
    leader_id: int
    end_offset: int
    end_term: int
    size: int
    position: int
    data: bytes = field(repr=False)


@dataclass(slots=True)
class InstallSnapshotResponse:
    """Response to InstallSnapshot: ``position`` is the next one that the follower needs.

    It equals the size once the follower's log covers all records below the snapshot's end.
    """

    term: int
    position: int


Request = RequestVoteRequest | AppendEntriesRequest | InstallSnapshotRequest
Response = RequestVoteResponse | AppendEntriesResponse | InstallSnapshotResponse
