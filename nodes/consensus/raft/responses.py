"""Handlers of responses. A response to a request of an earlier state is never seen here."""

from __future__ import annotations

from kraftwreck.nodes.consensus.containment import contained
from kraftwreck.nodes.consensus.effects import ContradictionError
from kraftwreck.nodes.consensus.raft import snapshots
from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesResponse,
    InstallSnapshotResponse,
    RequestVoteResponse,
    Response,
)
from kraftwreck.nodes.consensus.raft.replica import RaftReplica
from kraftwreck.nodes.consensus.raft.states import Candidate, Leader, PreCandidate, Progress


def handle_response(
    replica: RaftReplica, source: int, correlation: int, message: Response | None
) -> None:
    """Handle the response to request ``correlation`` (None: the transport failed)."""
    if not replica.links.close(source, correlation):
        return
    if message is None:
        replica.links.failed(source, replica.now)
        return
    what = f"{type(message).__name__} of node {source}"
    if contained(replica, what, lambda: _handle(replica, source, message)) is not None:
        replica.links.refused(source, replica.now)


def _handle(replica: RaftReplica, source: int, message: Response) -> None:
    if message.term > replica.term:
        replica.check_reach(message.term)
        replica.become_follower(message.term)
        return
    state = replica.state
    if isinstance(state, PreCandidate | Candidate):
        if not isinstance(message, RequestVoteResponse):
            raise ContradictionError(f"{type(message).__name__} in an election")
        replica.links.succeeded(source)
        if message.granted:
            state.granted.add(source)
            replica.count_votes()
        else:
            state.rejected.add(source)
    elif isinstance(state, Leader):
        _leader(replica, state, source, message)


def _leader(replica: RaftReplica, leader: Leader, source: int, message: Response) -> None:
    progress = leader.progress[source]
    if message.term < replica.term:
        raise ContradictionError(f"term {message.term} in a response to term {replica.term}")
    if isinstance(message, AppendEntriesResponse):
        _appended(replica, progress, message)
    elif isinstance(message, InstallSnapshotResponse):
        snapshots.acknowledged(progress, message.position)
    else:
        raise ContradictionError("a vote in answer to a leader's request")
    # Also a failed consistency check shows that the follower accepts this leader.
    replica.links.succeeded(source)
    progress.heard_at = replica.now
    progress.round_acked = progress.round_sent
    replica.advance_commit(leader)
    replica.confirm_reads(leader)


def _appended(replica: RaftReplica, progress: Progress, message: AppendEntriesResponse) -> None:
    end = replica.log.end_offset
    if message.success:
        if not 0 <= message.match_offset <= end:
            raise ContradictionError(f"match offset {message.match_offset}, the log ends at {end}")
        progress.match_offset = max(progress.match_offset, message.match_offset)
        progress.next_offset = max(progress.match_offset, message.match_offset)
        return
    if not 0 <= message.conflict_offset < progress.next_offset:
        raise ContradictionError(
            f"conflict at {message.conflict_offset} before {progress.next_offset}"
        )
    progress.next_offset = max(progress.match_offset, _next(replica, progress, message))


def _next(replica: RaftReplica, progress: Progress, message: AppendEntriesResponse) -> int:
    """Return the next offset to send after a failed check: at most one round a term.

    If the leader has entries of the conflicting term, logs can agree up to the last one of them;
    otherwise only before the follower's first entry of that term.
    """
    log = replica.log
    following = message.conflict_offset
    if message.conflict_term >= 0 and log.first_offset_of(message.conflict_term) is not None:
        following = log.end_offset_for_epoch(message.conflict_term)[0]
    following = min(following, progress.next_offset - 1)
    held = log.header_at(following)  # Entries are sent whole.
    return following if held is None else held.base_offset
