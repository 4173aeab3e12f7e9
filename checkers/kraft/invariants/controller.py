"""The committed metadata records, replayed once, and the rules that judge every step."""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.metadata_model import MetadataModel
from kraftwreck.checkers.kraft.controller_model.replay import Replay, Step, replay
from kraftwreck.checkers.kraft.controller_model.state import StateHistory
from kraftwreck.checkers.kraft.invariants.broker_rules import BrokerRules
from kraftwreck.checkers.kraft.invariants.eligible_rules import EligibleRules
from kraftwreck.checkers.kraft.invariants.evidence import GAPS, NOT_WHOLE, Evidence
from kraftwreck.checkers.kraft.invariants.partition_rules import PartitionRules
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.topic_rules import TopicRules
from kraftwreck.checkers.kraft.recorded.committed_log import Segment
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.checkers.kraft.rule import rule

NO_BROKER = "no broker registered in this run"
NO_PARTITION = "no partition was created or changed"


class Controller:
    """Findings about the controllers, from the committed log that they wrote."""

    def __init__(self, evidence: Evidence) -> None:
        self.report = Report()
        self.brokers = BrokerRules(self.report)
        self.partitions = PartitionRules(self.report, evidence.run)
        self.topics = TopicRules(self.report)
        self.eligible = EligibleRules(self.report)
        self.history = StateHistory()
        self._batch: StoredBatch | None = None
        self.report.proof = lambda: evidence.append_of(self._batch)
        self.replay: Replay = replay(evidence.log, self)
        gaps = bool(evidence.trace.gaps)
        lost = evidence.log.missing > 0 or not (gaps or self.history.whole)
        self._lacking = ", ".join([NOT_WHOLE] * lost + [GAPS] * gaps)
        """Why the history lacks states that the log went through; "" if it has each of them."""
        self.whole = not self._lacking

    @classmethod
    def of(cls, evidence: Evidence) -> Controller:
        """Return the replay of ``evidence``'s log, made once."""
        return evidence.run.derived("controller", lambda run: cls(evidence))

    def is_whole(self, report: Report, *ids: str) -> bool:
        """Return whether the history has each state that the log went through; if not, note why the
        rules ``ids`` judge nothing."""
        for invariant in () if self.whole or not self.history.ends else ids:
            report.unseen(invariant, self._lacking)
        return self.whole and bool(self.history.ends)

    # --- events of the replay -------------------------------------------------------------

    def begin(self, segment: Segment, model: MetadataModel) -> None:
        """Begin a part of the log."""
        self._batch = None
        self.history.begin(segment.start, segment.end)
        self.brokers.begin(model)
        self.partitions.begin(model)
        self.eligible.begin(model)

    def step(self, step: Step) -> None:
        """Judge a record that was applied."""
        self._batch = step.batch
        self.history.step(step)
        self.eligible.step(step)
        change = step.change
        if change is None:
            return
        if change.section == "partition":
            self.partitions.step(step, change)
        elif change.section == "broker":
            self.brokers.step(step, change)
            self.partitions.broker_changed(change)
        else:
            self.topics.step(step, change)
            if change.section == "topic":
                self.partitions.topic_changed(change)

    def batch_end(self, batch: StoredBatch, count: int, model: MetadataModel) -> None:
        """Judge a batch of which all records were applied."""
        self._batch = batch
        self.brokers.batch_end(batch, count, model)
        self.partitions.batch_end(batch, count, model)
        self.eligible.batch_end(batch, count, model)

    def refused(self, offset: int, name: str, why: str, batch: StoredBatch) -> bool:
        """Take in a record that contradicts the state; return whether a rule covers just that."""
        self._batch = batch
        return self.brokers.refused(offset, name, why) or self.topics.refused(offset, name, why)


@rule(
    "C1",
    "BrokerEpochUnique",
    "The broker epoch of a new incarnation is the offset of its registration and above all "
    "earlier ones. The same incarnation keeps its epoch.",
    "T6",
    nothing=NO_BROKER,
)
@rule(
    "C2",
    "BrokerEpochFencing",
    "A request with a stale broker epoch is refused and leaves no record.",
    "T1 T6",
    nothing=NO_BROKER,
)
@rule(
    "C3",
    "FencedNotInIsr",
    "A broker that is fenced or shutting down leads no partition, is in no ISR except as its last"
    " member, and joins none.",
    "T6",
    nothing=NO_BROKER,
)
@rule(
    "C4",
    "LeaderInIsr",
    "A partition's leader is active and in the ISR, the ISR is a subset of the replicas, and only"
    " a partition without a possible leader has none.",
    "T6",
    nothing=NO_PARTITION,
)
@rule(
    "C5",
    "LeaderEpochRule",
    "Leader epochs increase with every election and every removed replica, and for no other "
    "reason.",
    "T6",
    nothing=NO_PARTITION,
)
@rule(
    "C6",
    "UncleanOnlyIfAllowed",
    "A leader from outside ISR and ELR needs permission, and marks the partition as recovering.",
    "T6",
    nothing="no partition changed its leader",
)
@rule(
    "C7",
    "ElrDisjoint",
    "ISR and ELR are disjoint. The ELR contains only registered replicas, and an ISR of at least "
    "min.insync.replicas, or a change of that setting, empties it. Replicas removed below "
    "min.insync.replicas enter it. With the feature off none enters it, and a partition with an "
    "ISR has none. The last known leader is kept until a leader is elected.",
    "T6",
    nothing="no partition had eligible leader replicas",
)
@rule(
    "C8",
    "AlterPartitionCAS",
    "An accepted ISR was proposed by the leader of exactly the state that it replaced.",
    "T1 T6",
    nothing="no AlterPartition was requested and answered",
)
@rule(
    "C10",
    "AdminLinearizable",
    "A live topic has one TopicRecord, and no name that differs from another's in '.' and '_' only "
    "(and operations are linearizable: checkers topics and linearizable).",
    "T5 T6",
    nothing="no topic was created",
)
@rule("C11", "IdUnique", "No topic id and no producer id is given twice.", "T1 T6")
@rule(
    "C14",
    "ReassignmentSane",
    "Replicas come through adding and go through removing. A reassignment ends once the added "
    "replicas are in sync, and also the remaining ones where more go than come.",
    "T6",
    nothing="no reassignment in this run",
)
@rule(
    "C16",
    "SessionFencing",
    "A silent broker is fenced within its session timeout and some periods, also after a failover."
    " Heartbeats of a process that was replaced do not count.",
    "T1 T4 T6",
    nothing="no broker was unfenced in the part of the log that is left",
)
def check(evidence: Evidence, report: Report) -> None:
    """Report the results of the replay for C1 to C7, C10, C11 and C14."""
    controller = Controller.of(evidence)
    report.take(controller.report.findings)
    for invariant, facts in controller.report.facts.items():
        report.held(invariant, facts)
