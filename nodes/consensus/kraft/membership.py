"""Changing the voters one at a time (KIP-853): add, remove, update; and kraft.version 0 → 1.

Invariants (I26): a change adds, removes or updates one voter, so the majorities of the sets before
and after it overlap, whichever leaders follow. A leader accepts a change only if it has committed a
record of its own epoch, its latest VotersRecord is committed, and no other change is in flight. The
new set is in force from the moment it is appended.

A change that is given up (lost leadership, timeout) may still be committed later: its client has to
treat the answer as indeterminate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.nodes.consensus.effects import Reply
from kraftwreck.nodes.consensus.kraft.leader import Leader, VoterChange
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
)
from kraftwreck.nodes.consensus.kraft.replication import Replication
from kraftwreck.nodes.consensus.kraft.voters import (
    LISTENER,
    MAX_KRAFT_VERSION,
    MIN_KRAFT_VERSION,
    STATIC,
    Voter,
    VoterSet,
)
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS, LEADER_CHANGE

MS = 1000
CAUGHT_UP_WINDOW_MS = 3_600_000
"""A voter to be added must have caught up within this time."""

ControlRecord = tuple[int, Mapping[str, Any]]


# --- the first records of an epoch --------------------------------------------------------------


def own_voter(replica: Replication) -> Voter:
    """Return this node's up-to-date entry for the voter set."""
    known = replica.voter_set.get(replica.node_id)
    endpoints = known.endpoints if known is not None else ()
    if replica.config.listener is not None:
        others = tuple(e for e in endpoints if e[0] != LISTENER)
        endpoints = ((LISTENER, replica.config.listener), *others)
    return Voter(
        replica.node_id,
        replica.config.directory_id,
        endpoints,
        MIN_KRAFT_VERSION,
        MAX_KRAFT_VERSION,
    )


def epoch_records(replica: Replication, leader: Leader) -> list[ControlRecord]:
    """Return the control records that begin an epoch.

    These are LeaderChange, and the voters if the log has none yet or has outdated data of this
    leader.
    """
    records: list[ControlRecord] = [
        (
            LEADER_CHANGE,
            {
                "version": 0,
                "leader_id": replica.node_id,
                "voters": [{"voter_id": v} for v in replica.voters],
                "granting_voters": [{"voter_id": v} for v in leader.granting],
            },
        )
    ]
    if replica.kraft_version == 0:
        leader.known_voters = replica.voter_set.with_voter(own_voter(replica))
        return records
    voters = replica.voter_set.with_voter(own_voter(replica))
    if replica.history.offset == STATIC or voters != replica.voter_set:
        records.append((KRAFT_VERSION, {"version": 0, "kraft_version": replica.kraft_version}))
        records.append((KRAFT_VOTERS, voters.record()))
    return records


# --- requests -----------------------------------------------------------------------------------


def add_voter(replica: Replication, token: int, request: AddRaftVoterRequest) -> int:
    """Begin to add a voter; return an error to answer now, or NONE: the answer comes later."""
    error = _not_possible(replica)
    if error != errors.NONE:
        return error
    voter = Voter(request.voter_id, request.directory, request.endpoints)
    if request.voter_id < 0 or request.directory == NO_DIRECTORY or not _reachable(voter):
        return errors.INVALID_REQUEST
    if replica.voter_set.get(request.voter_id) is not None:
        return errors.DUPLICATE_VOTER
    leader = replica.state
    assert isinstance(leader, Leader)
    change = VoterChange("add", token, voter, _deadline(replica), request.ack_when_committed)
    leader.change = change
    if not replica.send(voter.voter_id, ApiVersionsRequest()):
        replica.links.forget(voter.voter_id)
        replica.send(voter.voter_id, ApiVersionsRequest())
    return errors.NONE


def remove_voter(replica: Replication, token: int, request: RemoveRaftVoterRequest) -> int:
    """Append the voter set without a voter; return an error to answer now, or NONE."""
    error = _not_possible(replica)
    if error != errors.NONE:
        return error
    voter = replica.voter_set.get(request.voter_id)
    if voter is None or voter.directory != request.directory:
        return errors.VOTER_NOT_FOUND
    if len(replica.voter_set) == 1:
        return errors.INVALID_REQUEST
    leader = replica.state
    assert isinstance(leader, Leader)
    leader.change = VoterChange("remove", token, voter, _deadline(replica))
    _append_voters(replica, leader, replica.voter_set.without(voter.voter_id))
    return errors.NONE


def update_voter(replica: Replication, request: UpdateRaftVoterRequest) -> int:
    """Update a voter's endpoints and versions from its request; return the error to answer."""
    leader = replica.state
    assert isinstance(leader, Leader)
    known = replica.voter_set.get(request.voter_id)
    versions = (request.min_kraft_version, request.max_kraft_version)
    voter = Voter(request.voter_id, request.directory, request.endpoints, *versions)
    if leader.change is not None or replica.high_watermark < 0:
        return errors.REQUEST_TIMED_OUT
    if not _reachable(voter) or not versions[0] <= replica.kraft_version <= versions[1]:
        return errors.INVALID_REQUEST
    if known is None or not known.is_replica(request.voter_id, request.directory):
        return errors.VOTER_NOT_FOUND
    leader.heard_from(request.voter_id, request.directory, replica.now)
    if replica.kraft_version == 0:
        leader.known_voters = (leader.known_voters or replica.voter_set).with_voter(voter)
        return errors.NONE
    if replica.history.offset >= replica.high_watermark:
        return errors.REQUEST_TIMED_OUT
    if voter != known:
        _append_voters(replica, leader, replica.voter_set.with_voter(voter))
    return errors.NONE


def upgrade_fault(replica: Replication, level: int) -> str | None:
    """Return why kraft.version cannot be raised to ``level`` now, None if it can.

    Every voter must have reported its directory and that it supports the level (KRAFT 2.13).
    """
    leader = replica.state
    if not isinstance(leader, Leader):
        return "this node does not lead the quorum"
    if level == replica.kraft_version:
        return None
    if not replica.kraft_version < level <= MAX_KRAFT_VERSION:
        return f"kraft.version cannot go from {replica.kraft_version} to {level}"
    if leader.change is not None or replica.high_watermark < 0:
        return "a voter change is in flight, or this leader has committed nothing yet"
    voters = leader.known_voters
    for voter_id in replica.voters:
        voter = voters.get(voter_id) if voters is not None else None
        if voter is None or voter.directory == NO_DIRECTORY:
            return f"voter {voter_id} has not told its directory yet"
        if not voter.min_version <= level <= voter.max_version:
            return f"voter {voter_id} does not support kraft.version {level}"
    return None


def upgrade(replica: Replication, level: int) -> None:
    """Append the records that raise kraft.version; only where :func:`upgrade_fault` is None."""
    leader = replica.state
    if not isinstance(leader, Leader) or upgrade_fault(replica, level) is not None:
        raise ValueError(f"kraft.version cannot be raised to {level} now")
    if level == replica.kraft_version or leader.known_voters is None:
        return
    version = (KRAFT_VERSION, {"version": 0, "kraft_version": level})
    replica.append_control(leader, [version, (KRAFT_VOTERS, leader.known_voters.record())])


# --- progress of a change -----------------------------------------------------------------------


def api_versions_answered(
    replica: Replication, source: int, response: ApiVersionsResponse | None
) -> None:
    """Add the waiting voter if it has caught up, with the versions that it has just reported."""
    leader = replica.state
    if not isinstance(leader, Leader) or leader.change is None:
        return
    change = leader.change
    voter = change.voter
    if change.kind != "add" or change.offset >= 0 or voter.voter_id != source:
        return
    if response is None or response.error != errors.NONE:
        _finish(replica, leader, errors.REQUEST_TIMED_OUT)
        return
    low, high = response.min_kraft_version, response.max_kraft_version
    if not low <= replica.kraft_version <= high:
        _finish(replica, leader, errors.INVALID_REQUEST)
        return
    if not _has_caught_up(replica, leader, voter):
        _finish(replica, leader, errors.REQUEST_TIMED_OUT)
        return
    change.voter = Voter(voter.voter_id, voter.directory, voter.endpoints, low, high)
    _append_voters(replica, leader, replica.voter_set.with_voter(change.voter))
    if leader.change is change and not change.ack_when_committed:
        _answer(replica, change, errors.NONE)


def committed(replica: Replication, leader: Leader) -> bool:
    """Complete a voter change that is now below the high watermark.

    Return whether the committed voter set is without this leader, which then has to resign.
    """
    change = leader.change
    if change is not None and 0 <= change.offset < replica.high_watermark:
        _finish(replica, leader, errors.NONE)
    removed = replica.node_id not in leader.voters
    return removed and replica.history.offset < replica.high_watermark


def expire(replica: Replication, leader: Leader) -> None:
    """Give up a change that has timed out; its record stays in the log."""
    if leader.change is not None and leader.change.deadline <= replica.now:
        _finish(replica, leader, errors.REQUEST_TIMED_OUT)


def give_up(replica: Replication, leader: Leader) -> None:
    """Give up the change in flight, as this node no longer leads."""
    if leader.change is not None:
        _finish(replica, leader, errors.NOT_LEADER_OR_FOLLOWER)


def _finish(replica: Replication, leader: Leader, error: int) -> None:
    change, leader.change = leader.change, None
    if change is not None:
        _answer(replica, change, error)


def _answer(replica: Replication, change: VoterChange, error: int) -> None:
    if change.token is not None:
        replica.effects.append(Reply(change.token, VoterChangeResponse(error)))
        change.token = None


def _deadline(replica: Replication) -> int:
    return replica.now + replica.config.request_timeout_ms * MS


def _not_possible(replica: Replication) -> int:
    """Return why no voter can be added or removed now, NONE if one can (KRAFT 2.12)."""
    leader = replica.state
    if not isinstance(leader, Leader):
        return errors.NOT_LEADER_OR_FOLLOWER
    if replica.shutting_down:
        return errors.BROKER_NOT_AVAILABLE
    if leader.change is not None or replica.high_watermark < 0:
        return errors.REQUEST_TIMED_OUT
    if replica.kraft_version == 0:
        return errors.UNSUPPORTED_VERSION
    if replica.history.offset >= replica.high_watermark:
        return errors.REQUEST_TIMED_OUT
    return errors.NONE


def _reachable(voter: Voter) -> bool:
    return any(name == LISTENER for name, _ in voter.endpoints)


def _has_caught_up(replica: Replication, leader: Leader, voter: Voter) -> bool:
    progress = leader.observers.get((voter.voter_id, voter.directory))
    if progress is None or progress.last_caught_up_wall < 0:
        return False
    return replica.now - progress.last_fetch <= CAUGHT_UP_WINDOW_MS * MS


def _append_voters(replica: Replication, leader: Leader, voters: VoterSet) -> None:
    change = leader.change
    if change is not None:
        change.offset = leader.next_offset
    replica.append_control(leader, [(KRAFT_VOTERS, voters.record())])
