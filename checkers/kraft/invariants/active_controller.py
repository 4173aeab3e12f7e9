"""C18: the active controller never answers NOT_CONTROLLER.

NOT_CONTROLLER means that nothing was done and that another controller must be asked. A controller
that claimed its epoch before the request arrived, and leads it until the answer, must not send it.
Even a request that timed out may still be carried out.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.standing import Standing
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER
from kraftwreck.checkers.kraft.rule import judges
from kraftwreck.nodes.protocol import errors

_PARTS = {
    "AlterConfigs": "responses",
    "CreatePartitions": "results",
    "CreateTopics": "topics",
    "DeleteTopics": "responses",
    "DescribeConfigs": "results",
    "IncrementalAlterConfigs": "responses",
}
"""Where answers without a top-level error have the errors of their parts."""

_OF_NODES = frozenset(("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot"))
"""The most frequent messages; controllers do not answer them."""


@judges("C18")
def check(evidence: Evidence, report: Report) -> None:
    """Judge NOT_CONTROLLER by the position of the node that sent it."""
    if not evidence.captured or evidence.trace.gaps or evidence.run.capture is None:
        return
    claims = {(e.node, e.epoch): at for at, e in evidence.dated(evidence.trace.claims)}
    failed = {e.node for e in evidence.run.events if e.kind == "controller-error"}
    asked = (m for api, of in evidence.messages.items() if api not in _OF_NODES for m in of)
    for message in asked:
        answer = message.response
        if not message.is_exchange or not isinstance(answer, dict):
            continue
        if not _refuses(message.api, answer):
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
                f"{node} answers {message.api} with NOT_CONTROLLER after "
                f"{(message.time - message.sent) / 1e9:.2f} s, although it was the active "
                f"controller of epoch {stood[0].epoch} all the time.",
            )


def _refuses(api: str, answer: dict[str, Any]) -> bool:
    code = answer.get("error_code")
    if code is not None:
        return bool(code == errors.NOT_CONTROLLER)
    parts = answer.get(_PARTS.get(api, ""))
    return bool(parts and parts[0].get("error_code") == errors.NOT_CONTROLLER)
