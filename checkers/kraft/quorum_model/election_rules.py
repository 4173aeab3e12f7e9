"""Rules over elections and voters: (quorum, replica, event) -> what is wrong, None if nothing is.

``replica`` has the state before the part of the event that a rule is called on. Rules without a
time limit only: these are proofs, whatever machine the events come from.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.quorum_model.quorum import Found, Quorum
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY, Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import (
    CANDIDATE,
    LEADER,
    RESIGNED,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import WriteQuorumState


def leader_in(replica: Replica, event: TraceEvent) -> int:
    """Return the leader that the event reports: the node itself if it leads."""
    return replica.id if event.state == LEADER else event.leader


def ballot(event: TraceEvent) -> tuple[int, int]:
    """Return (epoch, candidate) of the vote that the event reports."""
    if event.kind == "grant":
        return event.detail["epoch"], event.detail["candidate"]
    return event.epoch, event.voted


def vote_is_kept(voter: int, candidate: int, voted: int, leader: int) -> bool:
    """Return whether a position in the epoch of a vote has it; only a leader's own is gone."""
    return voted == candidate or leader == voter


def vote_is_saved(voter: int, epoch: int, candidate: int, saved: WriteQuorumState | None) -> bool:
    """I3: whether the quorum state on a voter's disk keeps the vote, or is of a newer epoch."""
    if saved is None or saved.epoch != epoch:
        return saved is not None and saved.epoch > epoch
    return vote_is_kept(voter, candidate, saved.voted_id, saved.leader_id)


# --- leaders and epochs ----------------------------------------------------------------------


@rule("I1", "ElectionSafety", "At most one node leads an epoch.", "T1 T2 T4", on=("new-leader",))
def epoch_has_one_leader(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    leader = leader_in(replica, event)
    known, first = quorum.leaders.get(event.epoch, (leader, event))
    if known == leader:
        return None
    return (
        f"Epoch {event.epoch} has two leaders: {known} (reported by {first.node}) and {leader} "
        f"(reported by {event.node}).",
        [first, event],
    )


@rule(
    "I6",
    "MonotonicEpoch",
    "A node's epoch never goes back, in memory or on disk.",
    "T2 T4",
    on=("new-epoch",),
)
def epoch_goes_up(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    if event.epoch >= replica.epoch:
        return None
    return f"{replica.name} went back from epoch {replica.epoch} to {event.epoch}."


@rule(
    "I15",
    "RestartNotLeader",
    "No node starts as leader; a leader was a candidate immediately before.",
    "T4",
    on=("process",),
)
def process_starts_without_lead(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    return f"{replica.name} starts as a leader." if event.state == LEADER else None


@rule("I15", on=("new-epoch", "new-state"))
def leader_was_candidate(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    last = replica.last
    if event.state != LEADER or not replica.state or last is None:
        return None
    if replica.state == CANDIDATE and last.epoch == event.epoch:
        return None
    return (
        f"{replica.name} became leader of epoch {event.epoch} coming from state {replica.state} "
        f"of epoch {last.epoch}, without being a candidate."
    )


@rule(
    "I16", "PrevoteHarmless", "A request for pre-votes raises no epoch.", "T1 T4", on=("pre-votes",)
)
def pre_votes_raise_no_epoch(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    last = replica.last
    if last is None or event.kind != "state" or event.epoch <= last.epoch:
        return None
    return (
        f"{replica.name} went from epoch {last.epoch} to {event.epoch} only to request pre-votes."
    )


# --- votes -----------------------------------------------------------------------------------


@rule(
    "I2",
    "VoteOnce",
    "A node with one disk votes for one candidate in an epoch, also across restarts.",
    "T1 T4",
    on=("new-vote",),
)
def epoch_has_one_vote(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    epoch, candidate = ballot(event)
    known, first = replica.votes.get(epoch, (candidate, event))
    if known == candidate:
        return None
    return (
        f"{replica.name} voted for {known} and for {candidate} in epoch {epoch}.",
        [first, event],
    )


@rule(
    "I3",
    "VotePersisted",
    "A granted vote is on the voter's disk, or a newer epoch is, or the leader of that epoch.",
    "T2 T4 T7",
    on=("restart",),
    nothing="no vote was followed by a restart or a disk image",
)
def vote_survives_a_restart(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    vote = replica.votes.get(event.epoch)
    if vote is None or event.state == RESIGNED or event.kind != "start":
        return None
    if vote_is_kept(replica.id, vote[0], event.voted, event.leader):
        return None
    return (
        f"{replica.name} voted for {vote[0]} in epoch {event.epoch}, but starts with its vote "
        f"given to {event.voted}.",
        [vote[1], event],
    )


@rule(
    "I4",
    "VoteUpToDate",
    "A vote goes to a candidate whose log is at least as new as the voter's, and candidates state "
    "the end of their own log.",
    "T4 T7",
    on=("grant",),
)
def vote_goes_to_a_newer_log(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    detail = event.detail
    theirs = detail["candidate_last_epoch"], detail["candidate_last_offset"]
    ours = detail["last_epoch"], max(detail["last_offset"], event.leo)
    if theirs >= ours:
        return None
    vote, last = (detail["epoch"], detail["candidate"]), replica.last
    if not detail["pre"] and last is not None and (last.epoch, last.voted) == vote:
        return None  # A repeated request gets the same vote again, whatever was fetched since.
    return (
        f"{replica.name}, whose log ends at (epoch {ours[0]}, offset {ours[1]}), votes for "
        f"{detail['candidate']}, whose log ends at (epoch {theirs[0]}, offset {theirs[1]})."
    )


@rule(
    "I5",
    "LeaderHasMajority",
    "A leader has the votes of a majority of the voters, and these voters granted them.",
    "T4",
    on=("elected",),
)
def leader_has_a_majority(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    voters = set(replica.voters or event.detail["voters"])
    votes = set(event.detail["granting"]) & voters
    if 2 * len(votes) > len(voters):
        return None
    return (
        f"{replica.name} became leader of epoch {event.epoch} with votes of {sorted(votes)} out of "
        f"{sorted(voters)}: no majority."
    )


@rule(
    "I27",
    "ObserverNotCounted",
    "Only voters, with their registered disks, count for elections and commits.",
    "T4",
    on=("elected",),
)
def only_voters_vote(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    voters = set(replica.voters or event.detail["voters"])
    others = set(event.detail["granting"]) - voters
    if not others:
        return None
    return (
        f"{replica.name} became leader of epoch {event.epoch} with votes of {sorted(others)}, which"
        f" are no voters; the voters are {sorted(voters)}."
    )


@rule("I5", on=("counted",))
def counted_vote_was_given(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    """``replica`` is a voter whose vote the ``event`` of another node counts."""
    epoch, candidate = event.epoch, quorum.tracks[event.node].id
    if replica.gap or not replica.incarnation or candidate in replica.votes_in(epoch).values():
        return None
    vote = replica.votes.get(epoch)
    said = f"voted for {vote[0]}" if vote else "did not vote"
    return (
        f"{event.node} became leader of epoch {epoch} counting the vote of {replica.name}, which "
        f"{said} in that epoch.",
        [event, *([vote[1]] if vote else [])],
    )


@rule("I27", on=("counted",))
def counted_vote_is_of_the_right_disk(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    leader = quorum.tracks[event.node]
    given = replica.votes_in(event.epoch)
    assert quorum.election is not None
    wanted = quorum.election.voters.get(replica.id, NO_DIRECTORY)
    if wanted != NO_DIRECTORY and None not in given and given.get(wanted) != leader.id:
        other = next((disk for disk, chosen in given.items() if chosen == leader.id), None)
        if other is not None:
            return (
                f"{event.node} became leader of epoch {event.epoch} counting the vote of "
                f"{replica.name}'s disk {other}; the voter is its disk {wanted}."
            )
    disk = quorum.ballots.get((replica.id, event.epoch, leader.id), leader.directory)
    if disk is None or leader.directory in (None, disk):
        return None
    return (
        f"{event.node} became leader of epoch {event.epoch} counting the vote of {replica.name}, "
        f"which was for its disk {disk}; it has disk {leader.directory}."
    )


# --- voters ----------------------------------------------------------------------------------


@rule(
    "I26",
    "VoterChangeOneAtATime",
    "Voters change one at a time, after the previous change is committed, and in an epoch that "
    "has committed a record.",
    "T4 T6",
    on=("voter-change",),
    nothing="no voter was added or removed",
)
def voters_change_one_at_a_time(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    """A leader changes one voter at a time, as requested, once the change before is committed."""
    before, now = quorum.changed_voters(replica, event)
    changed, offset = before.items() ^ now.items(), event.detail["offset"]
    told, found = f"{replica.name} changed the voters at offset {offset}", []
    if not now:
        found.append(f"{told} and left none.")
    if len(changed) > 1:
        found.append(f"{told} by more than one: from {sorted(before)} to {sorted(now)}.")
    found += _beside_uncommitted(replica, event)
    if replica.epoch_start_of == event.epoch and event.hw <= replica.epoch_start:
        found.append(f"{told} before anything of its epoch {event.epoch} was committed.")
    asked = quorum.voter_requests
    if asked is not None and replica.level:
        found += [
            f"{told} without a request: voter {voter}, from {sorted(before)} to {sorted(now)}."
            for voter, disk in sorted(changed)
            if (replica.name, voter, disk, now.get(voter) == disk) not in asked
        ]
    return found


@rule("I26", on=("voter-update",))
def voters_are_updated_one_at_a_time(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    """New endpoints of a voter are a change, too, except in the first records of an epoch."""
    begun = replica.epoch_start_of == event.epoch and event.hw > replica.epoch_start
    return _beside_uncommitted(replica, event) if begun else None


def _beside_uncommitted(replica: Replica, event: TraceEvent) -> list[str]:
    if replica.voters_offset < max(event.hw, 0):
        return []
    return [
        f"{replica.name} changed the voters at offset {event.detail['offset']} while those of "
        f"offset {replica.voters_offset} were not committed (high watermark {event.hw})."
    ]
