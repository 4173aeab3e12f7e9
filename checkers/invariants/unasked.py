"""Topics without a request: C21 NothingUnasked."""

from __future__ import annotations

from kraftwreck.checkers.invariants.controller import Controller
from kraftwreck.checkers.invariants.evidence import NO_LOG, Evidence
from kraftwreck.checkers.invariants.report import Report

WORKLOADS = ("leader", "metadata", "partitions", "register", "requests")
"""Workloads whose operations name the topics that they create."""


def check(evidence: Evidence, report: Report) -> None:
    """Judge C21: some operation asked for every topic that was created."""
    run, history = evidence.run, Controller.of(evidence).history
    if not history.ends:
        report.unseen("C21", NO_LOG)
    report.unseen("C21", "no topic was created")
    if run.test.get("workload") not in WORKLOADS:
        return
    asked = {call.key for call in run.calls if call.f == "create"}
    asked |= {f"register-{call.key}" for call in run.calls if call.f in ("write", "cas")}
    probes = [call.argument for call in run.calls if call.f == "ask"]
    asked |= {str(probe["name"]) for probe in probes if probe["creates"]}
    for name, versions in history.topics.items():
        report.held("C21")
        if name not in asked:
            end = next(end for end, _, _ in versions.since(-1, 1 << 62))
            report.broken("C21", f"Topic {name} is created below offset {end} without a request.")
