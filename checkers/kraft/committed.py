"""Committed metadata is never lost.

Client view: an acknowledged change is in every later complete read and in the final reads of every
node (C19 judges whether the log holds it). Node view: no offset below any high watermark ever held
two values, in the traces and on the disks (I8, I9, I10, I11, I14). If either view is missing the
result is ``unknown``.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft import topics
from kraftwreck.checkers.kraft.epochs import missing_traces
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.disk_log import StoredLog, disk_logs
from kraftwreck.checkers.kraft.recorded.disk_pass import disk_pass
from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import FINAL, RunData
from kraftwreck.histories.verdict import CheckerResult

_KINDS = frozenset({"I8", "I9", "I10", "I11", "I14"})
_ON_DISK = _KINDS | {"I3", "I6", "I7"}


def check(run: RunData) -> CheckerResult:
    """Judge both views; see the module."""
    facts = quorum_model(run)
    logs = disk_logs(run)
    disk = disk_pass(run).findings
    client, doubts, numbers = topics.check(run.calls, run.nodes)
    anomalies = client.anomalies + facts.findings.of(_KINDS) + disk.of(_ON_DISK)
    doubts += _missing(run, facts, logs)
    stats: dict[str, Any] = {
        **numbers,
        "committed_batches": len(facts.chain.committed),
        "high_watermark": facts.high_watermark,
        "disk_images": len(logs),
        "broken": {
            **{k: n for k, n in facts.findings.counts.items() if k in _KINDS},
            **{k: n for k, n in disk.counts.items() if k in _ON_DISK},
            **client.counts,
        },
    }
    return CheckerResult(
        valid=False if anomalies else "unknown" if doubts else True,
        anomalies=anomalies,
        stats=stats,
        error="; ".join(doubts) or None,
    )


def _missing(run: RunData, facts: QuorumModel, logs: list[StoredLog]) -> list[str]:
    """Return what the node view lacks."""
    doubts = []
    imaged = {log.image.node for log in logs if log.image.label == FINAL}
    without = [name for name in run.nodes if name not in imaged]
    if without:
        doubts.append(f"no final disk image of {', '.join(without)}")
    doubts += [
        f"the {log.image.label} image of {log.image.node} is damaged ({log.damage})"
        for log in logs
        if log.damage is not None and log.image.label == FINAL
    ]
    traces = missing_traces(run, facts)
    if traces is not None:
        doubts.append(traces)
    elif not facts.chain.committed:
        doubts.append("no high watermark was ever seen")
    return doubts
