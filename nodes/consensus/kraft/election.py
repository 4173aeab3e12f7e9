"""The rules for granting votes and for deciding an election (KIP-595, KIP-996)."""

from __future__ import annotations

from kraftwreck.nodes.consensus.kraft.leader import Leader, majority
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY, VoteRequest
from kraftwreck.nodes.consensus.kraft.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)


def is_won(voters: int, granted: int) -> bool:
    """Whether ``granted`` votes are a majority of ``voters``."""
    return granted >= majority(voters)


def is_lost(voters: int, rejected: int) -> bool:
    """Whether a majority can no longer be reached after ``rejected`` rejections."""
    return voters - rejected < majority(voters)


def is_up_to_date(candidate: tuple[int, int], own: tuple[int, int]) -> bool:
    """Whether a log ending at ``(last epoch, end offset)`` is at least as new as ours."""
    return candidate >= own


def grants(
    state: Unattached | Prospective | Candidate | Follower | Leader | Resigned,
    request: VoteRequest,
    own: tuple[int, int],
) -> bool:
    """Decide a vote; ``own`` is this log's ``(last epoch, end offset)``.

    The table of KIP-996: a pre-vote is granted to any candidate with an up-to-date log, unless this
    node has a leader it fetches from; a real vote is given once per epoch.
    """
    up_to_date = is_up_to_date((request.last_epoch, request.last_offset), own)
    if isinstance(state, Leader):
        return False
    if request.pre_vote:
        if isinstance(state, Follower):
            return up_to_date and not state.has_fetched
        return up_to_date
    if not isinstance(state, Unattached | Prospective):
        return False
    if state.voted_id >= 0:
        return state.voted_id == request.candidate_id and state.voted_directory in (
            NO_DIRECTORY,
            request.candidate_directory,
        )
    if state.leader_id >= 0:
        return False
    return up_to_date
