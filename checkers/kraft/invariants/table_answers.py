"""The invariants judged by the checkers' own model of the metadata; see
:mod:`checkers.kraft.invariants.table`."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants import (
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
    unrequested,
    voter_sets,
)
from kraftwreck.checkers.kraft.invariants.invariant import Invariant

ANSWERS = (
    Invariant(
        "I30",
        "ImageIsReplay",
        "A node's reported image is the result of replaying the committed records.",
        "T4 T6",
        (image_states.check,),
    ),
    Invariant(
        "I31",
        "VotersOfOwnLog",
        "A node uses the voters of the last voters record in its own log, also after appends "
        "and truncations.",
        "T2 T4",
        (voter_sets.check,),
    ),
    Invariant(
        "I32",
        "AddedOnceCaughtUp",
        "A node is added as a voter only after it has fetched from the current leader.",
        "T1 T4",
        (voter_sets.check,),
    ),
    Invariant(
        "I33",
        "AnswersByPosition",
        "A quorum response matches its sender's epoch, role, vote and log.",
        "T1 T4",
        (quorum_answers.check,),
    ),
    Invariant(
        "L9",
        "CommitIsHeard",
        "In quiet times, followers that fetch no snapshot learn of most commits, and of a new"
        " leader, within some round trips.",
        "T4",
        (commit_delay.check,),
    ),
    Invariant(
        "L10",
        "LeaderGivesUpForCause",
        "A leader resigns for lack of a majority only if no majority recently fetched records"
        " or a snapshot from it.",
        "T1 T4",
        (resignations.check,),
    ),
    Invariant(
        "L11",
        "SnapshotsKeptAsNeeded",
        "Old snapshots are deleted by the retention rules, and never while a node fetches them.",
        "T1 T4",
        (retention.check,),
    ),
    Invariant(
        "L12",
        "ElectionsByTime",
        "Partitions that an election by the controller would help wait for only a few of them.",
        "T4 T6",
        (timely_elections.check,),
    ),
    Invariant(
        "C15",
        "ReplicaPlacement",
        "New replicas are spread over brokers and racks, unfenced brokers first, and leaders "
        "rotate.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C17",
        "VoterChangeCommitted",
        "A change of voters is acknowledged only once its record is committed.",
        "T1 T6",
        (voter_sets.check,),
    ),
    Invariant(
        "C18",
        "RefusalsAreTrue",
        "A refusal gives a reason that held in some state between the request and its answer."
        " A request is done only where no such reason held.",
        "T1 T6",
        (answers.check, active_controller.check),
    ),
    Invariant(
        "C19",
        "DoneAsAsked",
        "An acknowledged change is in the committed log exactly as requested.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C20",
        "ReadsAreCommitted",
        "A read returns one committed state: one within its duration, or one that the node "
        "had applied.",
        "T1 T6",
        (answers.check,),
    ),
    Invariant(
        "C21",
        "NothingUnasked",
        "The committed log creates no topic, and changes no configuration and no feature "
        "level, without a request.",
        "T5 T6",
        (unrequested.check_topics, unrequested.check_settings),
    ),
    Invariant(
        "C22",
        "MembershipAnswered",
        "Requests about the quorum are answered from the leader's voters and change only the "
        "named voter. Valid kraft.version upgrades succeed.",
        "T1 T4",
        (membership_answers.check,),
    ),
    Invariant(
        "C23",
        "BrokerLifeAsTold",
        "A broker recovers once it has applied its registration, serves once it is unfenced, "
        "and ends its shutdown once it is fenced.",
        "T4 T6",
        (broker_life.check,),
    ),
    Invariant(
        "C24",
        "FailedControllerYields",
        "A controller resigns when an operation fails for an unforeseen reason.",
        "T4",
        (active_controller.check_failed,),
    ),
)
