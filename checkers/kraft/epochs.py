"""At most one leader per epoch, and no leader long after its successor (I1, KAFKA-15489).

Claims of leadership come from the nodes' traces and messages, from answers to clients, and from
the LeaderChange records in disk images.
"""

from __future__ import annotations

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.deposed import Claim, bound_ns, claims, stale_leaders
from kraftwreck.checkers.kraft.limits import RESIGNATION
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.disk_log import disk_logs
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import CheckerResult

_KINDS = frozenset({"I1"})


class Seats:
    """Per epoch, the first leader seen and its evidence; ``findings`` has I1 by all claims."""

    def __init__(self) -> None:
        self.by_epoch: dict[int, tuple[int, str, TraceEvent | None, list[int]]] = {}
        self.findings = Findings()
        self.claimed: list[Claim] = []
        """Claims in answers to clients."""
        self.messages = 0
        """How many different claims messages between nodes made."""

    def seat(
        self,
        epoch: int,
        leader: int,
        how: str,
        event: TraceEvent | None = None,
        operations: list[int] | None = None,
    ) -> None:
        """I1: take in a claim that ``leader`` leads the epoch."""
        known = self.by_epoch.setdefault(epoch, (leader, how, event, operations or []))
        if known[0] != leader:
            self.findings.add(
                "I1",
                f"Epoch {epoch} has two leaders: {known[0]} ({known[1]}) and {leader} ({how}).",
                [e for e in (known[2], event) if e is not None],
                [*known[3], *(operations or [])],
            )


def seats(run: RunData) -> Seats:
    """Return the leaders of all epochs by all evidence, gathered once for all checkers."""
    return run.derived("seats", _seated)


def _seated(run: RunData) -> Seats:
    found = Seats()
    for epoch, (leader, event) in quorum_model(run).leaders.items():
        found.seat(epoch, leader, f"traced by {event.node}", event)
    found.claimed = claims(run.calls)
    for claim in found.claimed:
        told = f"claimed to a client by node {claim.leader}"
        found.seat(claim.epoch, claim.leader, told, None, claim.call.indices)
    for log in disk_logs(run):
        where = f"LeaderChange record on {log.image.node}'s disk, {log.image.label}"
        for batch in log.fresh:
            if batch.leader is not None:
                found.seat(batch.epoch, batch.leader, where)
    by_message = {
        (*seat, message.api)
        for message in (run.capture.messages if run.capture is not None else ())
        if (seat := _claim_in(message)) is not None
    }
    found.messages = len(by_message)
    for epoch, leader, api in sorted(by_message):
        found.seat(epoch, leader, f"message {api}")
    return found


def _claim_in(message: Message) -> tuple[int, int] | None:
    """Return (epoch, leader) that a message between nodes claims, None if none."""
    request, answer = message.request, message.response
    if message.api in ("BeginQuorumEpoch", "EndQuorumEpoch") and request is not None:
        return request.leader_epoch, request.leader_id
    if message.api != "Fetch" or answer is None or isinstance(answer, dict):
        return None
    right = answer.error == answer.partition_error == 0
    return (answer.leader_epoch, answer.leader_id) if right else None


def check(run: RunData) -> CheckerResult:
    """Valid iff every epoch has one leader and deposed leaders stop within the bound."""
    facts, found = quorum_model(run), seats(run)
    findings = Findings(run.test)
    for stale in stale_leaders(run, facts, found.claimed):
        findings.add("stale-leader", stale.explanation, [], stale.operations, RESIGNATION)
    anomalies = facts.findings.of(_KINDS) + found.findings.anomalies + findings.anomalies
    doubt = missing_traces(run, facts)
    if not found.by_epoch:
        doubt = "no leader was ever seen: nothing was checked"
    return CheckerResult(
        valid=False if anomalies else "unknown" if doubt else True,
        anomalies=anomalies,
        suspicions=findings.suspicions,
        stats=_stats(found, run),
        error=doubt,
    )


def _stats(found: Seats, run: RunData) -> dict[str, object]:
    return {
        "epochs_with_leader": len(found.by_epoch),
        "highest_epoch": max(found.by_epoch, default=-1),
        "claims_told_to_clients": len(found.claimed),
        "disk_images": len(run.images),
        "stale_leader_bound_s": bound_ns(run.test) / 1e9,
    }


def missing_traces(run: RunData, facts: QuorumModel) -> str | None:
    """Return what the traces lack, None if nothing."""
    silent = [name for name in run.nodes if facts.tracks[name].incarnation == 0]
    if silent:
        return f"no trace of {', '.join(silent)}"
    if facts.gaps:
        more = f" (and {len(facts.gaps) - 1} more gaps)" if len(facts.gaps) > 1 else ""
        return f"the trace is incomplete: {facts.gaps[0]}{more}"
    return None
