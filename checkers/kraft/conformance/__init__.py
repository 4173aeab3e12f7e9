"""Trace conformance: an executable reference model of the protocol judges every trace event.

The model is small and was written from the specification of KRaft (KIP-595, KIP-630,
KIP-853, KIP-996), not from the nodes. :mod:`~checkers.kraft.conformance.replica_model` defines
the next transitions of one replica, :mod:`~checkers.kraft.conformance.quorum_model` the relations
between replicas. Every event of a trace is one transition, which is accepted or an anomaly. An
event must not change any state that its kind does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.conformance.quorum_model import QuorumModel
from kraftwreck.checkers.kraft.conformance.replica_model import ReplicaModel
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import compares_nodes
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import CheckerResult

NONCONFORMANT = "nonconformant"


@compares_nodes
def check(run: RunData) -> CheckerResult:
    """Valid iff the reference model accepts every transition of every node.

    ``stats`` has the number of checked ``transitions``, by kind. A trace cannot be judged
    across lost lines: these are counted as ``gaps``. Without a trace the verdict is
    ``unknown``.
    """
    return check_events(run.nodes, run.events)


def check_events(nodes: Sequence[str], events: Sequence[TraceEvent]) -> CheckerResult:
    """As :func:`check`, for the trace ``events``; the id of a node is its place, from 1."""
    if not events:
        return CheckerResult(valid="unknown", error="there is no trace")
    findings = Findings()
    models = {name: ReplicaModel(name, number) for number, name in enumerate(nodes, start=1)}
    quorum = QuorumModel({model.id: name for name, model in models.items()})
    kinds: dict[str, int] = {}
    for event in events:
        model = models.get(event.node)
        if model is None:
            model = models[event.node] = ReplicaModel(event.node, -1)
        broken = model.step(event)
        if broken is not None:
            before = [model.last] if model.last is not None else []
            findings.add(NONCONFORMANT, f"{event.node}: {broken}", [*before, event])
        quorum.step(model, event)
        model.accept(event)
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
    for text, proof in quorum.finish():
        findings.add(NONCONFORMANT, text, proof)
    return CheckerResult(
        valid=not findings.anomalies,
        anomalies=findings.anomalies,
        stats={
            "transitions": len(events),
            "gaps": sum(model.gaps for model in models.values()),
            "kinds": dict(sorted(kinds.items())),
            "counts": findings.counts,
        },
    )
