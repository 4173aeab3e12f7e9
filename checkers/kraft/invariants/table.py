"""Every invariant: its id, its statement, its evidence and its check.

Evidence: T1 captured messages, T2 disk images, T4 the nodes' traces, T5 the clients'
history, T6 the decoded records of the committed log. Statements follow KRaft's KIPs; the
ids are those of docs/invariants.md.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.checkers.kraft.invariants import (
    broker_life,
    fetches,
    leadership,
    logs,
    membership,
    snapshots,
    state_machine,
    votes,
)
from kraftwreck.checkers.kraft.invariants.invariant import Group, Invariant
from kraftwreck.checkers.kraft.invariants.table_answers import ANSWERS
from kraftwreck.checkers.kraft.invariants.table_controller import CONTROLLER, LIVENESS

SAFETY = (
    Invariant(
        "I1",
        "ElectionSafety",
        "At most one node leads an epoch.",
        "T1 T2 T4",
        (leadership.check,),
        True,
    ),
    Invariant(
        "I2",
        "VoteOnce",
        "A node with one disk votes for one candidate in an epoch, also across restarts.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I3",
        "VotePersisted",
        "A granted vote is on the voter's disk, or a newer epoch is, or the leader of that epoch.",
        "T2 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I4",
        "VoteUpToDate",
        "A vote goes to a candidate whose log is at least as new as the voter's.",
        "T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I5",
        "LeaderHasMajority",
        "A leader has the votes of a majority of the voters, and these voters granted them.",
        "T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I6",
        "MonotonicEpoch",
        "A node's epoch never goes back, in memory or on disk.",
        "T2 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I7",
        "EpochInLog",
        "Epochs never decrease along a log, and each begins with its leader's LeaderChange record.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I8",
        "LogMatching",
        "Two logs with the same batch (offset, epoch) are identical up to that batch.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I9",
        "LeaderCompleteness",
        "A leader's log holds every batch that was committed in older epochs.",
        "T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I10",
        "CommittedStable",
        "A committed batch stays at its offset and is the same on every node.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I11",
        "CommittedOnMajority",
        "A majority of the voters in force holds every record below a high watermark.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I12",
        "CurrentEpochCommit",
        "A leader exposes no high watermark before the first record of its epoch is committed.",
        "T1 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I13",
        "MonotonicHW",
        "The high watermark of a process never goes back.",
        "T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I14",
        "NoTruncateBelowHW",
        "No log is truncated below its high watermark, and none ends below it.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I15",
        "RestartNotLeader",
        "No node starts as leader; a leader was a candidate immediately before.",
        "T4",
        (leadership.check,),
        True,
    ),
    Invariant(
        "I16",
        "PrevoteHarmless",
        "A request for pre-votes raises no epoch.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I17",
        "LeaderStickiness",
        "A follower that has recently fetched from its leader grants no pre-vote of that epoch.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I18",
        "CheckQuorum",
        "A leader without a majority of fetching voters, or with a successor, stops within "
        "1.5 fetch timeouts.",
        "T1 T4",
        (leadership.check,),
        True,
    ),
    Invariant(
        "I19",
        "SnapshotConsistency",
        "A snapshot holds the state that the log before its end produces, on every node.",
        "T2 T4 T6",
        (snapshots.check, state_machine.check),
        True,
    ),
    Invariant(
        "I20",
        "SnapshotValidId",
        "A snapshot is complete, is named by the end and epoch of a committed batch, and "
        "contains the voters in force there.",
        "T2 T4",
        (snapshots.check,),
        True,
    ),
    Invariant(
        "I21",
        "SnapshotAtLogStart",
        "A log that does not begin at 0 has a snapshot that reaches its first offset.",
        "T2",
        (snapshots.check,),
        True,
    ),
    Invariant(
        "I22",
        "LeaderNeverLoadsSnapshot",
        "No leader fetches or installs a snapshot.",
        "T1 T4",
        (snapshots.check,),
        True,
    ),
    Invariant(
        "I23",
        "StateMachineAgreement",
        "The committed log can be replayed, and all nodes hold the same state at an offset.",
        "T4 T6",
        (state_machine.check,),
        True,
    ),
    Invariant(
        "I24",
        "AppliedMonotonic",
        "A broker's reported metadata offset is committed, applied, recent, and never decreases.",
        "T1 T4",
        (state_machine.check, broker_life.check),
    ),
    Invariant(
        "I25",
        "ListenerOrder",
        "Committed batches are delivered once, in order, below the high watermark, from 0 or "
        "from the end of a snapshot. A controller becomes active only after the start of its "
        "epoch.",
        "T4",
        (state_machine.check,),
        True,
    ),
    Invariant(
        "I26",
        "VoterChangeOneAtATime",
        "Voters change one at a time, after the previous change is committed, and in an epoch"
        " that has committed a record.",
        "T4 T6",
        (membership.check,),
        True,
    ),
    Invariant(
        "I27",
        "ObserverNotCounted",
        "Only voters, with their registered disks, count for elections and commits.",
        "T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I28",
        "FetchValidity",
        "A Fetch response matches the leader's log.",
        "T1 T4",
        (fetches.check,),
    ),
    Invariant(
        "I29",
        "NoIllegalState",
        "No node ends because of an illegal state, or refuses a contradictory message.",
        "T4",
        (state_machine.check,),
        True,
    ),
    Invariant(
        "D7",
        "LeaderEpochCache",
        "leader-epoch-checkpoint lists the epochs of the batches in the log.",
        "T2",
        (logs.check,),
    ),
)
TABLE: Final[tuple[Invariant, ...]] = SAFETY + LIVENESS + CONTROLLER + ANSWERS
GROUPS: Final[tuple[Group, ...]] = tuple(
    dict.fromkeys(group for invariant in TABLE for group in invariant.checks)
)
