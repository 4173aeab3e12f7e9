"""The invariants of liveness and of the controller; see :mod:`checkers.kraft.invariants.table`."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants import (
    admin,
    controller,
    liveness,
    requests,
    sessions,
    state_machine,
)
from kraftwreck.checkers.kraft.invariants.invariant import Invariant

LIVENESS = (
    Invariant(
        "L1",
        "LeaderFollowed",
        "Within 30 s after the last fault all nodes follow one leader.",
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
        "No node stays prospective or candidate.",
        "T4",
        (liveness.check,),
    ),
    Invariant(
        "L5",
        "OperationsEnd",
        "Operations that begin after the last fault end.",
        "T5",
        (liveness.check,),
    ),
    Invariant(
        "L6",
        "ReconfigurationEnds",
        "A change of voters is eventually committed.",
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
        "No node sends more than 20,000 requests a second to one peer.",
        "T1",
        (liveness.check,),
    ),
)
CONTROLLER = (
    Invariant(
        "C1",
        "BrokerEpochUnique",
        "The broker epoch of a new incarnation is the offset of its registration and above "
        "all earlier ones. The same incarnation keeps its epoch.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C2",
        "BrokerEpochFencing",
        "A request with a stale broker epoch is refused and leaves no record.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C3",
        "FencedNotInIsr",
        "A broker that is fenced or shutting down leads no partition, is in no ISR except as "
        "its last member, and joins none.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C4",
        "LeaderInIsr",
        "A partition's leader is active and in the ISR, the ISR is a subset of the replicas, "
        "and only a partition without a possible leader has none.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C5",
        "LeaderEpochRule",
        "Leader epochs increase with every election and every removed replica, and for no "
        "other reason.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C6",
        "UncleanOnlyIfAllowed",
        "A leader from outside ISR and ELR needs permission, and marks the partition as "
        "recovering.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C7",
        "ElrDisjoint",
        "ISR and ELR are disjoint. The ELR contains only registered replicas, and an ISR of "
        "at least min.insync.replicas, or a change of that setting, empties it. Replicas "
        "removed below min.insync.replicas enter it. The last known leader is kept until a "
        "leader is elected.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C8",
        "AlterPartitionCAS",
        "An accepted ISR was proposed by the leader of exactly the state that it replaced.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C9",
        "AckedIsCommitted",
        "Every acknowledged change is in the committed log (and in every later read: checker "
        "committed).",
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
        "No topic id and no producer id is given twice.",
        "T1 T6",
        (controller.check, requests.check),
    ),
    Invariant(
        "C12",
        "TransactionAtomic",
        "Metadata transactions begin and end alternately, and no snapshot contains a part of one.",
        "T2 T6",
        (state_machine.check,),
    ),
    Invariant(
        "C14",
        "ReassignmentSane",
        "Replicas come through adding and go through removing. A reassignment ends once the "
        "added replicas are in sync, and also the remaining ones where more go than come.",
        "T6",
        (controller.check,),
    ),
    Invariant(
        "C16",
        "SessionFencing",
        "A silent broker is fenced within its session timeout and some periods, also after a "
        "failover.",
        "T1 T4 T6",
        (controller.check, sessions.check),
    ),
)
