"""The invariants of liveness and of the controller; see :mod:`checkers.invariants.table`."""

from __future__ import annotations

from checkers.invariants import admin, controller, liveness, requests, sessions, state_machine
from checkers.invariants.invariant import Invariant

LIVENESS = (
    Invariant(
        "L1",
        "LeaderFollowed",
        "Within 30 s after the last fault all follow one leader.",
        "T4",
        (liveness.check,),
        True,
    ),
    Invariant(
        "L2",
        "Commits",
        "The leader's high watermark does not stay below its log end.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L3",
        "BrokersCatchUp",
        "Brokers reach the high watermark.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L4",
        "NoEndlessCandidacy",
        "Nobody stays prospective or candidate.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L5",
        "OperationsEnd",
        "What clients begin after the last fault ends.",
        "T5",
        (liveness.check,),
    ),
    Invariant(
        "L6",
        "ReconfigurationEnds",
        "A change of voters is committed in the end.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L7",
        "LeaderStays",
        "Without faults there are no more than three elections in ten seconds.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L8",
        "NoBusyLoop",
        "Nobody sends more than 20,000 requests a second to one node.",
        "T1",
        (liveness.check,),
    ),
)
CONTROLLER = (
    Invariant(
        "C1",
        "BrokerEpochUnique",
        "A new incarnation's broker epoch is the offset it registered at, above all before; the "
        "same incarnation keeps its own.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C2",
        "BrokerEpochFencing",
        "A request of a stale broker epoch is refused and leaves no record.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C3",
        "FencedNotInIsr",
        "A broker that is fenced or shutting down leads nothing, is in no ISR but as the last "
        "member, and joins none.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C4",
        "LeaderInIsr",
        "A leader is active and in the ISR, which is part of the replicas; there is none only "
        "where nobody could lead.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C5",
        "LeaderEpochRule",
        "Leader epochs go up with every choice of a leader and every removed replica, and for no "
        "other reason.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C6",
        "UncleanOnlyIfAllowed",
        "A leader from outside of ISR and ELR needs leave, and marks the partition as recovering.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C7",
        "ElrDisjoint",
        "ISR and ELR do not meet, and a large enough ISR, or another least number, empties the "
        "ELR, which is a part of the replicas, and of the registered brokers; who leaves an ISR "
        "that gets too small is in it, and who led last is remembered until somebody leads.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C8",
        "AlterPartitionCAS",
        "An accepted ISR was proposed by the leader of just the state it replaced.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C9",
        "AckedIsCommitted",
        "What a client was told is done is in the committed log (and in every later read: "
        "checker committed).",
        "T5 T6",
        (controller.check, admin.check),
    ),
    Invariant(
        "C10",
        "AdminLinearizable",
        "A live topic has one TopicRecord (and operations are linearizable: checkers committed "
        "and linearizable).",
        "T5 T6",
        (controller.check, admin.check),
    ),
    Invariant(
        "C11",
        "IdUnique",
        "Topic ids and producer ids are given once.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C12",
        "TransactionAtomic",
        "Metadata transactions begin and end in turn, and no snapshot shows a part of one.",
        "T2 T6",
        (state_machine.check,),
    ),
    Invariant(
        "C14",
        "ReassignmentSane",
        "Replicas come by way of adding and go by way of removing, and a reassignment ends once "
        "those added are in sync, and those that stay where more go than come.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C16",
        "SessionFencing",
        "A silent broker is fenced within its session time-out and some periods, after a failover "
        "too.",
        "T1 T4 T6",
        (controller.check, sessions.check),
    ),
)
