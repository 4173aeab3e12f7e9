"""Every invariant: its id, what it says, what it is judged by, and what judges it.

Evidence: T1 captured messages, T2 disk images, T4 the nodes' traces, T5 the clients'
history, T6 the decoded records of the committed log. Statements follow KRaft's KIPs; the
ids are those of docs/invariants.md.
"""

from __future__ import annotations

from typing import Final

from checkers.invariants import (
    broker_life,
    fetches,
    leadership,
    logs,
    membership,
    snapshots,
    state_machine,
    votes,
)
from checkers.invariants.invariant import Group, Invariant
from checkers.invariants.table_answers import ANSWERS
from checkers.invariants.table_controller import CONTROLLER, LIVENESS

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
        "A node, with one disk, votes for one candidate in an epoch, restarts included.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I3",
        "VotePersisted",
        "A granted vote is on the voter's disk, or a newer epoch or the epoch's leader is.",
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
        "A leader has the votes of a majority of the voters, and they gave them.",
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
        "Epochs never fall along a log, and each begins with its leader's LeaderChange record.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I8",
        "LogMatching",
        "Two logs with the same batch (offset, epoch) are the same up to and with it.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I9",
        "LeaderCompleteness",
        "A leader's log holds all that was committed in older epochs.",
        "T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I10",
        "CommittedStable",
        "What was committed at an offset stays, the same on every node.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I11",
        "CommittedOnMajority",
        "What lies below a high watermark is held by a majority of the voters in force.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I12",
        "CurrentEpochCommit",
        "A leader tells no high watermark before its epoch's first record is committed.",
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
        "No log is cut below its high watermark, nor ends below it.",
        "T2 T4",
        (logs.check,),
        True,
    ),
    Invariant(
        "I15",
        "RestartNotLeader",
        "Nobody starts as leader; a leader was a candidate just before.",
        "T4",
        (leadership.check,),
        True,
    ),
    Invariant(
        "I16",
        "PrevoteHarmless",
        "Asking for pre-votes raises no epoch.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I17",
        "LeaderStickiness",
        "A follower that has fetched from its leader of late grants no pre-vote of that epoch.",
        "T1 T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I18",
        "CheckQuorum",
        "A leader that no majority fetches from, or that was deposed, stops within 1.5 fetch "
        "time-outs.",
        "T1 T4",
        (leadership.check,),
        True,
    ),
    Invariant(
        "I19",
        "SnapshotConsistency",
        "A snapshot holds the state that the log before its end gives, on every node.",
        "T2 T4 T6",
        (snapshots.check, state_machine.check),
        True,
    ),
    Invariant(
        "I20",
        "SnapshotValidId",
        "A snapshot is whole, named by the end of a committed batch and its epoch, and names the "
        "voters in force there.",
        "T2 T4",
        (snapshots.check,),
        True,
    ),
    Invariant(
        "I21",
        "SnapshotAtLogStart",
        "A log that does not begin at 0 has a snapshot that reaches its beginning.",
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
        "The metadata offset a broker tells never goes back, is committed, and was applied by it, "
        "and no more long before.",
        "T1 T4",
        (state_machine.check, broker_life.check),
    ),
    Invariant(
        "I25",
        "ListenerOrder",
        "Committed batches are delivered once, in order, below the high watermark, from 0 or the "
        "end of a snapshot on; a controller claims only after the start of its epoch.",
        "T4",
        (state_machine.check,),
        True,
    ),
    Invariant(
        "I26",
        "VoterChangeOneAtATime",
        "Voters change one at a time, after the change before is committed, and in an epoch of "
        "which something is.",
        "T4 T6",
        (membership.check,),
        True,
    ),
    Invariant(
        "I27",
        "ObserverNotCounted",
        "Only voters, with the disk they are known by, count for elections and commits.",
        "T4",
        (votes.check,),
        True,
    ),
    Invariant(
        "I28",
        "FetchValidity",
        "An answer to Fetch is the one the leader's log calls for.",
        "T1 T4",
        (fetches.check,),
    ),
    Invariant(
        "I29",
        "NoIllegalState",
        "No node dies of an illegal state.",
        "T4",
        (state_machine.check,),
        True,
    ),
    Invariant(
        "D7",
        "LeaderEpochCache",
        "leader-epoch-checkpoint says of the batches in the log what they say.",
        "T2",
        (logs.check,),
    ),
)
TABLE: Final[tuple[Invariant, ...]] = SAFETY + LIVENESS + CONTROLLER + ANSWERS
GROUPS: Final[tuple[Group, ...]] = tuple(
    dict.fromkeys(group for invariant in TABLE for group in invariant.checks)
)
