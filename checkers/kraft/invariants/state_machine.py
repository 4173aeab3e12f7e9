"""State machines: I23 StateMachineAgreement, I24 AppliedMonotonic, I25 ListenerOrder, C12
TransactionAtomic, I29 NoIllegalState."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.rule import judges, rule


@rule(
    "I24",
    "AppliedMonotonic",
    "A broker's reported metadata offset is committed, applied, recent, and never decreases. A "
    "broker is unfenced once it has reported that it applied its own registration.",
    "T1 T4 T6",
    nothing="no broker sent a heartbeat",
)
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
    _applied(evidence, report)


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


def _applied(evidence: Evidence, report: Report) -> None:
    """I24: a broker's reported metadata offset never decreases, and is committed."""
    reached: dict[tuple[int, int], int] = {}
    # Heartbeats may overtake each other in the network, so only the order of sending counts.
    for message in sorted(evidence.of("BrokerHeartbeat"), key=lambda message: message.sent):
        body = message.request
        if body is None:
            continue
        report.held("I24")
        key, offset = (body["broker_id"], body["broker_epoch"]), body["current_metadata_offset"]
        sent = message.sent >= 0 and not evidence.own_inputs  # Those have the time of arrival.
        if sent and offset < reached.get(key, offset):
            report.broken(
                "I24",
                f"Broker {key[0]} (epoch {key[1]}) reports metadata offset {offset} after "
                f"{reached[key]}.",
            )
        if sent:
            reached[key] = max(offset, reached.get(key, offset))
        if offset >= evidence.high_watermark >= 0 and not evidence.trace.gaps:
            report.broken(
                "I24",
                f"Broker {key[0]} (epoch {key[1]}) reports metadata offset {offset}, although the "
                f"highest high watermark of the run is {evidence.high_watermark}.",
            )
