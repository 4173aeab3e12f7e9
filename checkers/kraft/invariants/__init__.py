"""The invariants of a KRaft cluster by their ids, judged by all evidence of a run.

:mod:`checkers.kraft.invariants.table` lists them. The result of each is one of four: checked, with
a number of facts; broken; suspected, by a limit in time that proves nothing on hosts; or not
checked, with the reason. An invariant without evidence is never called valid.

Sources: Ongaro and Ousterhout 2014; KIP-500, KIP-595, KIP-630, KIP-631, KIP-853, KIP-966, KIP-996;
the invariants of Kafka's RaftEventSimulationTest and of Vanlightly's TLA+ specifications.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.checkers.kraft.invariants.disks import missing
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.table import TABLE
from kraftwreck.checkers.kraft.rule import GROUPS
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import compares_nodes
from kraftwreck.histories.verdict import CheckerResult

ALONE: Final = ("I1", "I3", "I6", "I7", "I8", "I9", "I10", "I11", "I14")
"""Rules that the records of some nodes can prove broken whatever the others recorded."""


@compares_nodes(*ALONE)
def check(run: RunData) -> CheckerResult:
    """Valid iff traces and final disk images are complete and break no invariant."""
    evidence, report = Evidence(run), Report(run.test)
    report.take(evidence.trace.findings)
    doubts = missing(run)
    if evidence.trace.missing is not None:
        doubts.append(evidence.trace.missing)
    elif not evidence.trace.chain.committed:
        doubts.append("no high watermark was ever seen")
    for rule in TABLE:
        if rule.steps:
            report.held(rule.id, evidence.trace.facts(rule.id))
    for group, ids in GROUPS.items():
        try:
            group(evidence, report)
        except Exception as error:
            # An evaluation that fails must hide neither itself nor what the others found.
            text = f"{type(error).__name__}: {error}"
            doubts.append(f"{', '.join(ids)} could not be judged ({text})")
            for invariant in ids:
                report.unseen(invariant, text)
    for rule in TABLE:
        report.unseen(rule.id, evidence.why_unseen(rule))
    capture = run.capture
    if capture is not None and capture.dropped:
        doubts.append(f"{capture.dropped} captured messages were dropped")
    chain = evidence.trace.chain
    return report.findings.judged(
        "; ".join(doubts) or None,
        {
            "events": evidence.trace.count,
            "elections": len(chain.elections),
            "batches": len(chain.batches),
            "epochs_with_leader": len(evidence.trace.leaders),
            "committed_batches": len(chain.committed),
            "high_watermark": evidence.high_watermark,
            "disk_images": len(run.images),
            "messages": len(capture.messages) if capture is not None else None,
            "broken": dict(report.findings.counts),
            "suspected": dict(report.findings.suspected),
            "invariants": {each.id: {"name": each.name, **report.of(each.id)} for each in TABLE},
        },
    )
