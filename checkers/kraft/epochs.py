"""At most one leader per epoch, and no leader long after its successor (I1, KAFKA-15489).

Claims of leadership come from the nodes' traces, from answers to clients, and from the
LeaderChange records in disk images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.deposed import Claim, bound_ns, claims, stale_leaders
from kraftwreck.checkers.kraft.limits import RESIGNATION
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.disk_log import disk_logs
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import CheckerResult

_KINDS = frozenset({"I1"})


class _Seats:
    """Per epoch, the first leader seen and its evidence."""

    def __init__(self, test: Mapping[str, Any]) -> None:
        self.by_epoch: dict[int, tuple[int, str, TraceEvent | None, list[int]]] = {}
        self.findings = Findings(test)

    def seat(
        self,
        epoch: int,
        leader: int,
        how: str,
        event: TraceEvent | None = None,
        operations: list[int] | None = None,
    ) -> None:
        known = self.by_epoch.setdefault(epoch, (leader, how, event, operations or []))
        if known[0] != leader:
            self.findings.add(
                "I1",
                f"Epoch {epoch} has two leaders: {known[0]} ({known[1]}) and {leader} ({how}).",
                [e for e in (known[2], event) if e is not None],
                [*known[3], *(operations or [])],
            )


def check(run: RunData) -> CheckerResult:
    """Valid iff every epoch has one leader and deposed leaders stop within the bound."""
    facts = quorum_model(run)
    told = claims(run.calls)
    seats = _Seats(run.test)
    for epoch, (leader, event) in facts.leaders.items():
        seats.seat(epoch, leader, f"traced by {event.node}", event)
    for claim in told:
        asked = f"claimed to a client by node {claim.leader}"
        seats.seat(claim.epoch, claim.leader, asked, None, claim.call.indices)
    for log in disk_logs(run):
        where = f"LeaderChange record on {log.image.node}'s disk, {log.image.label}"
        for batch in log.fresh:
            if batch.leader is not None:
                seats.seat(batch.epoch, batch.leader, where)
    by_trace, by_client = stale_leaders(run, facts, told)
    for stale in by_trace + by_client:
        seats.findings.add(
            "stale-leader", stale.explanation, stale.events, stale.operations, RESIGNATION
        )
    anomalies = facts.findings.of(_KINDS) + seats.findings.anomalies
    doubt = missing_traces(run, facts)
    if not seats.by_epoch:
        doubt = "no leader was ever seen: nothing was checked"
    return CheckerResult(
        valid=False if anomalies else "unknown" if doubt else True,
        anomalies=anomalies,
        suspicions=seats.findings.suspicions,
        stats=_stats(seats, told, run),
        error=doubt,
    )


def _stats(seats: _Seats, told: list[Claim], run: RunData) -> dict[str, object]:
    return {
        "epochs_with_leader": len(seats.by_epoch),
        "highest_epoch": max(seats.by_epoch, default=-1),
        "claims_told_to_clients": len(told),
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
