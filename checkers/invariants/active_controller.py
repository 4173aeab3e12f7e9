"""C18: who is the active controller does not say that it is none.

NOT_CONTROLLER means that nothing was done and that somebody else must be asked. Of the controller
that claimed its epoch before a request came in, and leads it until it is answered, that is never
true: a request that took too long may have been carried out yet.
"""

from __future__ import annotations

from typing import Any

from checkers.invariants.evidence import NO_TRACE, Evidence
from checkers.invariants.report import Report
from checkers.invariants.standing import LEADER, STEP_NS, Standing
from nodes.protocol import errors

_PARTS = {
    "AlterConfigs": "responses",
    "CreatePartitions": "results",
    "CreateTopics": "topics",
    "DeleteTopics": "responses",
    "DescribeConfigs": "results",
    "IncrementalAlterConfigs": "responses",
}
"""Where answers without an error of their own have the errors of their parts."""

_OF_NODES = frozenset(("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot"))
"""Most of all messages, which controllers do not answer."""


def check(evidence: Evidence, report: Report) -> None:
    """Judge NOT_CONTROLLER by where its giver stood."""
    if not evidence.captured or evidence.trace.gaps or evidence.run.capture is None:
        return
    claims: dict[tuple[str, int], int] = {}
    for claim in evidence.trace.claims:
        at = evidence.moment(claim)
        if at is not None:
            claims[claim.node, claim.epoch] = at
    failed = {e.node for e in evidence.run.events if e.kind == "controller-error"}
    asked = (m for api, of in evidence.messages.items() if api not in _OF_NODES for m in of)
    for message in asked:
        answer = message.response
        if message.sent < 0 or not isinstance(answer, dict) or not _refuses(message.api, answer):
            continue
        node = evidence.name(message.replier)
        stood = Standing.of(evidence).positions(message)
        if (
            node in failed
            or not stood
            or {(at.state, at.epoch) for at in stood} != {(LEADER, stood[0].epoch)}
        ):
            continue
        claimed = claims.get((node, stood[0].epoch))
        if claimed is not None and claimed + STEP_NS < message.sent:
            report.broken(
                "C18",
                f"{node} answers {message.api} with NOT_CONTROLLER, "
                f"{(message.time - message.sent) / 1e9:.2f} s after it was asked; all the while it "
                f"was the active controller of epoch {stood[0].epoch}.",
            )


def check_failed(evidence: Evidence, report: Report) -> None:
    """C24 was judged with the trace: count what was there to judge."""
    report.unseen("C24", "no operation failed" if evidence.trace.count else NO_TRACE)
    report.held("C24", evidence.trace.failed_operations)


def _refuses(api: str, answer: dict[str, Any]) -> bool:
    code = answer.get("error_code")
    if code is not None:
        return bool(code == errors.NOT_CONTROLLER)
    parts = answer.get(_PARTS.get(api, ""))
    return bool(parts and parts[0].get("error_code") == errors.NOT_CONTROLLER)
