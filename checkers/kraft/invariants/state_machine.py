"""State machines: I23 StateMachineAgreement, I25 ListenerOrder, C12 TransactionAtomic, I29
NoIllegalState."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.rule import judges, rule


@rule(
    "C12",
    "TransactionAtomic",
    "Metadata transactions begin and end alternately, and no snapshot contains a part of one.",
    "T2 T6",
    nothing="no metadata transaction in this run",
)
@judges("I19", "I23", "I25", "I29")
def check(evidence: Evidence, report: Report) -> None:
    """Judge what nodes applied, in which order, and the resulting states."""
    report.held("I29", evidence.trace.kinds.get("start", 0))
    _deliveries(evidence, report)
    _log(evidence, report)


def _deliveries(evidence: Evidence, report: Report) -> None:
    """I25: a listener begins at 0 or where a snapshot ends."""
    ends = {end for end, _ in evidence.trace.snapshots}
    ends |= {snapshot.id[0] for snapshot in evidence.log.snapshots}
    for base, event in evidence.trace.first_deliveries:
        if base not in ends:
            report.broken(
                "I25",
                f"{event.node} delivers offset {base} first after its start, which is neither "
                "offset 0 nor the end of a snapshot.",
                [event],
            )


def _log(evidence: Evidence, report: Report) -> None:
    """I23: the committed log has no contradictions; C12: its transactions are complete."""
    log, replayed = evidence.log, Controller.of(evidence).replay
    report.held("I23", replayed.records)
    report.held("C12", replayed.transactions)
    for offset, why in replayed.refusals:
        report.broken(
            "I23", f"The committed record at offset {offset} contradicts those before it: {why}."
        )
    for why in replayed.transaction_errors:
        report.broken("C12", f"Metadata transactions do not begin and end alternately: {why}.")
    for snapshot in log.snapshots:
        for first, last in replayed.open_ranges:
            if first < snapshot.id[0] <= last:
                report.broken(
                    "C12",
                    f"{snapshot.where}: snapshot {snapshot.id} ends inside the metadata "
                    f"transaction of offsets {first} to {last}.",
                )
