"""Brokers' own state compared with the committed log: C23 BrokerLifeAsTold, and I24.

A broker serves once the controller has unfenced it. It begins recovery once it has applied its own
registration, and ends its controlled shutdown once it is fenced (KIP-631). The offset in its
heartbeats is one that it has applied.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.controller_model.state import NEVER, StateHistory
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import GAPS, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import (
    CLOCKS_NS,
    FENCED_NS,
    MS,
    SHUT_DOWN,
    UNFENCED,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.checkers.suspicion import Limit
from kraftwreck.histories.trace import TraceEvent

RECOVERY, RUNNING, STOPPED = "recovery", "running", "stopped"


@rule(
    "C23",
    "BrokerLifeAsTold",
    "A broker recovers once it has applied its registration, serves once it is unfenced, and ends"
    " its shutdown once it is fenced.",
    "T4 T6",
    nothing="no broker in this run",
)
@rule(
    "I24",
    "AppliedAsReported",
    "A broker's reported metadata offset is the one that it has applied. A broker is unfenced once"
    " it has reported that it applied its own registration.",
    "T1 T4 T6",
    nothing="no broker sent a heartbeat",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge C23, and I24 for brokers with traces."""
    if evidence.trace.gaps:
        report.unseen("C23", GAPS)
        report.unseen("I24", GAPS)
    if evidence.trace.gaps or not evidence.trace.count:
        return
    told = [e for e in evidence.run.events if e.kind == "broker"]
    commits = Commits.of(evidence)
    lives = {(e.node, e.detail.get("broker_epoch")): e.incarnation for e in told}
    _offsets(evidence, report, commits, lives)
    history = Controller.of(evidence).history
    if not told or not Controller.of(evidence).is_whole(report, "C23"):
        return
    ids = {name: number for number, name in evidence.names.items()}
    for event in told:
        at = evidence.moment(event)
        if at is not None and event.node in ids:
            wrong, limit = _life(event, ids[event.node], at, commits, history)
            report.held("C23")
            if wrong is not None:
                report.broken("C23", f"{event.node} {wrong}", [event], limit=limit)


def _life(
    event: TraceEvent, broker_id: int, at: int, commits: Commits, history: StateHistory
) -> tuple[str | None, Limit | None]:
    """Return what is wrong with a broker's state at ``at`` (ns), and the limit this depends on."""
    state, epoch = event.detail.get("state"), event.detail.get("broker_epoch", -1)
    if state == RECOVERY:
        # Both events are in the trace of one process: no time between them is needed.
        end, _ = commits.taken(event.node, at, event.incarnation)
        if end > epoch:
            return None, None
        return f"recovers, but has applied its metadata only up to {end} (epoch {epoch}).", None
    if state not in (RUNNING, STOPPED) or (state == STOPPED and "reason" in event.detail):
        return None, None
    until = at + CLOCKS_NS
    versions = history.brokers.get(broker_id, NEVER)
    stood = [
        (broker, end)
        for end, _, broker in versions.since(-1, commits.committed(until))
        if broker is not None and broker.epoch == epoch
    ]
    if state == RUNNING and all(broker.fenced for broker, _ in stood):
        return f"is in service (epoch {epoch}), but no record has unfenced it.", UNFENCED
    if state == STOPPED and stood and not stood[-1][0].fenced:
        asked = next((i for i, (broker, _) in enumerate(stood) if broker.stopping), None)
        fenced = asked is None or any(broker.fenced for broker, _ in stood[asked:])
        since = commits.when(stood[-1][1])
        # A fenced broker may be unfenced again by a late heartbeat.
        if not fenced or (since is not None and until - since > FENCED_NS):
            return f"ends its shutdown (epoch {epoch}), but no record has fenced it.", SHUT_DOWN
    return None, None


def _offsets(
    evidence: Evidence, report: Report, commits: Commits, lives: dict[tuple[str, object], int]
) -> None:
    """I24: a broker reports the offset that it has applied, which is committed in any case.

    ``lives`` are the incarnations of brokers by the epoch they report. Other heartbeats are those
    of clients, which a broker forwards.
    """
    for message in evidence.of("BrokerHeartbeat"):
        body, node = message.request, evidence.name(message.asker)
        if body is None:
            continue
        report.held("I24")
        offset = body["current_metadata_offset"]
        if offset >= evidence.high_watermark >= 0:
            report.broken(
                "I24",
                f"Broker {body['broker_id']} (epoch {body['broker_epoch']}) reports metadata offset"
                f" {offset}, although the highest high watermark of the run is"
                f" {evidence.high_watermark}.",
            )
        life = lives.get((node, body["broker_epoch"]))
        if life is None or body["broker_id"] != message.asker or message.sent < 0:
            continue
        if evidence.own_inputs:
            continue  # Hosts record when a heartbeat arrived, by another clock than the broker's.
        # The next incarnation may have begun within the millisecond, at a lower offset.
        end, _ = commits.taken(node, message.sent + MS, life)
        if offset >= end:
            report.broken(
                "I24",
                f"{node} reports metadata offset {offset}, but has applied what lies below {end}.",
            )
        least, of = commits.taken(node, message.sent - commits.blur)
        if of == life and offset < least - 1:
            report.broken(
                "I24",
                f"{node} reports metadata offset {offset}, but had applied what lies below {least}"
                " before.",
            )
