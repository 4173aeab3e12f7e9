"""The rules over steps of replicas: (quorum, replica, event) -> what is wrong, None if nothing is.

``replica`` has the state before the part of the event that a rule is called on. Rules without a
time limit only: these are proofs, whatever machine the events come from.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.quorum_model.quorum import Quorum
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY, Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import (
    CANDIDATE,
    LEADER,
    RESIGNED,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent

Found = str | tuple[str, list[TraceEvent]] | list[str] | None
INJECTED = "a defect that was put in"
"""Text in the error of an operation that the simulator let fail."""


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


# --- leaders and epochs ----------------------------------------------------------------------


@rule(
    "I1",
    "ElectionSafety",
    "At most one node leads an epoch.",
    "T1 T2 T4",
    on=("new-leader",),
)
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
    "I16",
    "PrevoteHarmless",
    "A request for pre-votes raises no epoch.",
    "T1 T4",
    on=("pre-votes",),
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


# --- logs ------------------------------------------------------------------------------------


@rule(
    "I7",
    "EpochInLog",
    "Epochs never decrease along a log, and each begins with its leader's LeaderChange record.",
    "T2 T4",
    on=("append",),
)
def epochs_go_up_along_a_log(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base, epoch, by = event.detail["base"], event.detail["epoch"], event.detail["by"]
    led = by == LEADER
    if epoch > event.epoch or (led and epoch != event.epoch):
        return f"{replica.name} appends a batch of epoch {epoch} as {by} in epoch {event.epoch}."
    if not replica.epochs:
        return None
    before = replica.epochs[-1]
    if epoch < before:
        return f"{replica.name} appends a batch of epoch {epoch} after one of epoch {before}."
    if led and replica.epoch_start_of == epoch > before and base != replica.epoch_start:
        return (
            f"{replica.name}: the first batch of epoch {epoch} is at offset {base}, not at the "
            f"epoch's start {replica.epoch_start}."
        )
    return None


@rule(
    "I8",
    "LogMatching",
    "Two logs with the same batch (offset, epoch) are identical up to that batch.",
    "T2 T4",
    on=("append",),
)
def log_has_no_holes(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base = event.detail["base"]
    if replica.end is None or base == replica.end:
        return None
    return f"{replica.name} appends at offset {base} although its log ends at {replica.end}."


@rule(
    "I9",
    "LeaderCompleteness",
    "A leader's log holds every batch that was committed in older epochs.",
    "T4",
    on=("election",),
)
def leader_has_all_commits(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    assert quorum.election is not None
    return quorum.chain.lacking(quorum.election)


@rule(
    "I10",
    "CommittedStable",
    "A committed batch stays at its offset and is the same on every node.",
    "T2 T4",
    on=("truncate",),
)
def committed_batch_is_not_cut(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    """A follower of an older leader may cut what a newer epoch committed without it."""
    first, committed = replica.first_at(event.leo), quorum.chain.committed
    for place in range(len(replica.bases) if first is None else first, len(replica.bases)):
        known = committed.get(replica.bases[place])
        if (
            known is not None
            and known.id[1] == replica.epochs[place]
            and known.crc == replica.crcs[place]
            and known.at_epoch <= event.epoch
        ):
            return (
                f"{replica.name} truncates its log to {event.leo}, and with it the batch at offset "
                f"{known.id[0]}, which {known.where} had committed in epoch {known.at_epoch}.",
                [each for each in (known.event, event) if each is not None],
            )
    return None


@rule(
    "I11",
    "CommittedOnMajority",
    "A majority of the voters in force holds every record below a high watermark.",
    "T2 T4",
    on=("first-commit",),
)
def commit_is_on_a_majority(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    total, count = len(replica.voters) or quorum.voters, quorum.holders(replica.voters)
    if 2 * count > total:
        return None
    return (
        f"{event.node}: the high watermark {event.hw} passes offset {quorum.committing[0]}, which "
        f"only {count} of {total} voters hold."
    )


@rule(
    "I12",
    "CurrentEpochCommit",
    "A leader exposes no high watermark before the first record of its epoch is committed.",
    "T1 T4",
    on=("leader-hw", "elected"),
)
def leader_commits_its_epoch_first(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    start = event.detail["epoch_start"] if event.kind == "elected" else replica.epoch_start
    if not 0 <= event.hw <= start:
        return None
    return (
        f"{replica.name}, leader of epoch {event.epoch} since offset {start}, sets the high "
        f"watermark to {event.hw} before its own first record is committed."
    )


@rule(
    "I13",
    "MonotonicHW",
    "The high watermark of a process never goes back.",
    "T4",
    on=("new-hw",),
)
def high_watermark_goes_up(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    if event.hw >= replica.max_hw:
        return None
    return f"{replica.name}: the high watermark went back from {replica.max_hw} to {event.hw}."


@rule(
    "I14",
    "NoTruncateBelowHW",
    "No log is truncated below its high watermark, and none ends below it.",
    "T2 T4",
    on=("new-end",),
)
def log_reaches_its_high_watermark(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    high = max(event.hw, replica.max_hw)
    if event.leo >= high:
        return None
    if event.kind == "truncate":
        return f"{replica.name} truncates its log to {event.leo}, below its high watermark {high}."
    if event.kind == "install":
        return (
            f"{replica.name} replaces its log by a snapshot up to {event.leo}, below its high "
            f"watermark {high}."
        )
    return f"{replica.name}: high watermark {high} is beyond its log end {event.leo}."


# --- snapshots and states --------------------------------------------------------------------


@rule(
    "I20",
    "SnapshotValidId",
    "A snapshot is complete, is named by the end and epoch of a committed batch, and contains the"
    " voters in force there.",
    "T2 T4",
    on=("snapshot",),
)
def snapshot_is_below_the_high_watermark(
    quorum: Quorum, replica: Replica, event: TraceEvent
) -> Found:
    end = event.detail["end"]
    if end <= replica.max_hw or event.detail.get("by") == "fetched":
        return None
    return (
        f"{replica.name} made the snapshot ({end}, {event.detail['epoch']}) above its high "
        f"watermark {replica.max_hw}."
    )


@rule("I20", on=("named",))
def snapshot_is_named_by_a_commit(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    end, epoch = event.detail["end"], event.detail["epoch"]
    found = quorum.chain.epoch_before(end)
    if found is None and quorum.over and end > quorum.high_watermark >= 0 and not quorum.gaps:
        return (
            f"{replica.name} has the snapshot ({end}, {epoch}) ({event.kind}) above every high "
            f"watermark, the highest being {quorum.high_watermark}."
        )
    if found is None or found == epoch:
        return None
    held = f"a batch of epoch {found} ends" if found >= 0 else "no batch ends"
    return (
        f"{replica.name} has the snapshot ({end}, {epoch}) ({event.kind}), where {held} in the "
        "committed log."
    )


@rule(
    "I22",
    "LeaderNeverLoadsSnapshot",
    "No leader fetches or installs a snapshot.",
    "T1 T4",
    on=("install", "load"),
)
def leader_takes_no_snapshot(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    # The snapshot present at start may be loaded late: a single voter leads at once.
    if event.state != LEADER or (event.kind == "load" and not replica.loaded):
        return None
    what = "replaces its log by" if event.kind == "install" else "loads"
    return (
        f"{replica.name}, leader of epoch {event.epoch}, {what} the snapshot "
        f"({event.detail['end']}, {event.detail['epoch']})."
    )


def applied_to(event: TraceEvent) -> tuple[int, int]:
    """Return (end offset, epoch) of the records in the state that the event reports."""
    detail = event.detail
    return detail["end"] if "end" in detail else detail["offset"] + 1, detail["epoch"]


def _differs(quorum: Quorum, event: TraceEvent) -> Found:
    end, epoch = applied_to(event)
    first = quorum.digests[end, epoch]
    if first.detail["digest"] == event.detail["digest"]:
        return None
    return (
        f"{first.node} ({first.kind}) and {event.node} ({event.kind}) hold different states up to "
        f"offset {end}.",
        [first, event],
    )


@rule(
    "I19",
    "SnapshotConsistency",
    "A snapshot holds the state that the log before its end produces, on every node.",
    "T2 T4 T6",
    on=("snapshot-digest",),
)
def snapshots_hold_one_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    return _differs(quorum, event)


@rule(
    "I23",
    "StateMachineAgreement",
    "The committed log can be replayed, and all nodes hold the same state at an offset.",
    "T4 T6",
    on=("image-digest",),
)
def images_hold_one_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    return _differs(quorum, event)


@rule(
    "I25",
    "ListenerOrder",
    "Committed batches are delivered once, in order, below the high watermark, from 0 or from the "
    "end of a snapshot. A controller becomes active only after the start of its epoch.",
    "T4",
    on=("commit",),
)
def delivers_in_order(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    base, last, due = event.detail["base"], event.detail["last"], replica.delivered
    if due is not None and due >= 0 and base != due:
        return f"{replica.name} delivers offset {base} to its state machine, but {due} is next."
    if last >= event.hw:
        return f"{replica.name} delivers up to offset {last}, beyond its high watermark {event.hw}."
    return None


@rule("I25", on=("claim",))
def claims_after_applying(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    start, applied = event.detail["epoch_start"], replica.delivered or 0
    if event.state != LEADER:
        return f"{replica.name} becomes active controller in state {event.state}."
    if not 0 <= applied <= start:
        return None
    return (
        f"{replica.name} becomes active controller of epoch {event.epoch} having applied up to "
        f"{applied}, not past the epoch's start {start}."
    )


# --- voters ----------------------------------------------------------------------------------


@rule(
    "I26",
    "VoterChangeOneAtATime",
    "Voters change one at a time, after the previous change is committed, and in an epoch that "
    "has committed a record.",
    "T4 T6",
    on=("voter-change",),
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
    if replica.voters_offset >= max(event.hw, 0):
        found.append(
            f"{told} while those of offset {replica.voters_offset} were not committed (high "
            f"watermark {event.hw})."
        )
    if replica.epoch_start_of == event.epoch and event.hw <= replica.epoch_start:
        found.append(f"{told} before anything of its epoch {event.epoch} was committed.")
    asked = quorum.voter_requests
    if asked is not None and replica.level >= 1:
        found += [
            f"{told} without a request: voter {voter}, from {sorted(before)} to {sorted(now)}."
            for voter, disk in sorted(changed)
            if (replica.name, voter, disk, now.get(voter) == disk) not in asked
        ]
    return found


# --- failures --------------------------------------------------------------------------------


@rule(
    "I29",
    "NoIllegalState",
    "No node ends because of an illegal state, or refuses a contradictory message.",
    "T4",
    on=("fatal", "contradiction", "defect"),
)
def no_illegal_state(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    reason = event.detail.get("reason", "no reason")
    if event.kind == "fatal":
        return f"{replica.name} stopped by an illegal state: {reason}."
    return f"{replica.name} refused {event.detail.get('in')} ({event.kind}): {reason}."


@rule(
    "C24",
    "FailedControllerYields",
    "A controller resigns when an operation fails for an unforeseen reason.",
    "T4",
    on=("failed-operation",),
)
def failed_controller_yields(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    failed_in = event.detail["epoch"]
    if event.state != LEADER or event.epoch != failed_in:
        return None
    return (
        f"{replica.name} could not carry out {event.detail.get('api')} "
        f"({event.detail.get('error')}), and still leads epoch {failed_in}."
    )


@rule("controller-error", on=("controller-error",))
def controllers_do_not_fail(quorum: Quorum, replica: Replica, event: TraceEvent) -> Found:
    error = event.detail.get("error")
    if INJECTED in str(error) and event.detail.get("epoch") is not None:
        return None  # The failure was injected: only its consequences are judged.
    return f"{replica.name} failed to carry out {event.detail.get('api')}: {error}."
