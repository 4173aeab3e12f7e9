"""The invariants judged by the checkers' own account of the metadata; see
:mod:`checkers.invariants.table`."""

from __future__ import annotations

from checkers.invariants import (
    active_controller,
    answers,
    broker_life,
    commit_delay,
    image_states,
    membership_answers,
    quorum_answers,
    resignations,
    retention,
    timely_elections,
    unasked,
    unasked_settings,
    voter_sets,
)
from checkers.invariants.invariant import Invariant

ANSWERS = (
    Invariant(
        "I30",
        "ImageIsReplay",
        "What a node tells of its image is what the committed records give.",
        "T4 T6",
        (image_states.check,),
    ),
    Invariant(
        "I31",
        "VotersOfOwnLog",
        "A node counts by the voters of its own log's last record of them, appended or cut.",
        "T2 T4",
        (voter_sets.check,),
    ),
    Invariant(
        "I32",
        "AddedOnceCaughtUp",
        "Who is made a voter has fetched from the leader that does it, in its epoch.",
        "T1 T4",
        (voter_sets.check,),
    ),
    Invariant(
        "I33",
        "AnswersByPosition",
        "An answer of the quorum is the one that its giver's epoch, state, vote and log call for.",
        "T1 T4",
        (quorum_answers.check,),
    ),
    Invariant(
        "L9",
        "CommitIsHeard",
        "In quiet times followers that fetch no snapshot hear of most commits, and where else to "
        "go, within some round trips.",
        "T4",
        (commit_delay.check,),
    ),
    Invariant(
        "L10",
        "LeaderGivesUpForCause",
        "A leader resigns for want of a majority only if none fetched records or a snapshot from "
        "it of late.",
        "T1 T4",
        (resignations.check,),
    ),
    Invariant(
        "L11",
        "SnapshotsKeptAsNeeded",
        "Old snapshots go when the retention says so, and none while somebody fetches it.",
        "T1 T4",
        (retention.check,),
    ),
    Invariant(
        "L12",
        "ElectionsByTime",
        "Partitions that the controller's own elections could help wait for no more than a few of "
        "them.",
        "T4 T6",
        (timely_elections.check,),
    ),
    Invariant(
        "C15",
        "ReplicaPlacement",
        "New replicas are spread over brokers and racks, unfenced ones first, and leaders go "
        "round.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C17",
        "VoterChangeCommitted",
        "A change of voters is told to be done once its record is committed.",
        "T1 T6",
        (voter_sets.check,),
    ),
    Invariant(
        "C18",
        "RefusalsAreTrue",
        "A request is refused for a reason that some state between it and its answer gives, and "
        "is done only where none does.",
        "T1 T6",
        (answers.check, active_controller.check),
    ),
    Invariant(
        "C19",
        "DoneAsAsked",
        "What is told to be done is in the committed log as it was asked for.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C20",
        "ReadsAreCommitted",
        "An answer to a read shows one committed state: of the time it took, or that the node had "
        "taken in.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C21",
        "NothingUnasked",
        "The committed log creates no topic, and changes no configuration and no feature level, "
        "that nobody asked for.",
        "T5 T6",
        (unasked.check, unasked_settings.check),
    ),
    Invariant(
        "C22",
        "MembershipAnswered",
        "Who changes or describes the quorum is answered by the voters that the leader counts by, "
        "and changes just the voter that is named; upgrades are not refused in vain.",
        "T1 T4",
        (membership_answers.check,),
    ),
    Invariant(
        "C23",
        "BrokerLifeAsTold",
        "A broker recovers once it has applied its registration, is in service once it is "
        "unfenced, and ends its shutdown once it is fenced.",
        "T4 T6",
        (broker_life.check,),
    ),
    Invariant(
        "C24",
        "FailedControllerYields",
        "A controller that an operation fails for a reason nobody foresaw gives up its lead.",
        "T4",
        (active_controller.check_failed,),
    ),
)
