"""Trace conformance: an executable reference model of the protocol judges every trace event.

The model is small and was written from the specification of KRaft (KIP-595, KIP-630,
KIP-853, KIP-996), not from the nodes. :mod:`~checkers.kraft.quorum_model.transitions` defines
the next transitions of one replica, :mod:`~checkers.kraft.quorum_model.causes` the relations
between replicas. Every event of a trace is one transition, which is accepted or an anomaly. An
event must not change any state that its kind does not change. Transitions that break a rule with
an id are anomalies of the checker ``invariants``.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.recorded.trace import quorum_model
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import compares_nodes
from kraftwreck.histories.verdict import CheckerResult


@compares_nodes()
def check(run: RunData) -> CheckerResult:
    """Valid iff the reference model accepts every transition of every node.

    ``stats`` has the number of checked ``transitions``, by kind. A trace cannot be judged
    across lost lines: these are counted as ``gaps``. Without a trace the verdict is
    ``unknown``.
    """
    model = quorum_model(run)
    if not model.count:
        return CheckerResult(valid="unknown", error="there is no trace")
    return CheckerResult(
        valid=not model.refused.anomalies,
        anomalies=model.refused.anomalies,
        stats={
            "transitions": model.count,
            "gaps": len(model.gaps),
            "kinds": dict(sorted(model.kinds.items())),
            "counts": model.refused.counts,
        },
    )
