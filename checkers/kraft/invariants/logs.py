"""Logs and what of them is committed: I7 EpochInLog, I8 LogMatching, I9 LeaderCompleteness,
I10 CommittedStable, I11 CommittedOnMajority, I12 CurrentEpochCommit, I13 MonotonicHW, I14
NoTruncateBelowHW, D7 LeaderEpochCache."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.evidence import NO_IMAGES, NO_TRACE, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report


def check(evidence: Evidence, report: Report) -> None:
    """Count the facts of the passes over traces and disks; judge what messages add."""
    trace, chain, on_disk = evidence.trace, evidence.trace.chain, evidence.disks.facts
    for invariant in ("I7", "I8", "I9", "I10", "I11", "I12", "I13", "I14"):
        if not trace.count:
            report.unseen(invariant, NO_TRACE)
    report.unseen("D7", NO_IMAGES if not evidence.run.images else "no leader-epoch-checkpoint")
    appended, advanced = trace.kinds.get("append", 0), trace.kinds.get("hw", 0)
    report.held("I7", appended + on_disk.get("I7", 0))
    report.held("I8", appended + on_disk.get("I8", 0))
    report.held("I9", sum(election.compared for election in chain.elections))
    report.unseen("I9", "no leader was elected after a commit")
    report.held("I10", len(chain.committed) + on_disk.get("I10", 0))
    report.held("I11", on_disk.get("I11", 0) + trace.facts("I11"))
    report.unseen("I11", "events of different nodes have no order, and final disks are missing")
    report.held("I12", trace.steps.get("leader-hw", 0))
    report.held("I13", advanced)
    report.held("I14", advanced + trace.kinds.get("truncate", 0) + trace.kinds.get("install", 0))
    report.held("D7", on_disk.get("D7", 0))
    _exposed(evidence, report)


def _exposed(evidence: Evidence, report: Report) -> None:
    """I12: no answer has a high watermark before the epoch's first record is committed."""
    starts = {
        (evidence.trace.tracks[election.node].id, election.epoch): election
        for election in evidence.trace.chain.elections
    }
    for message in evidence.of("Fetch"):
        answer = message.response
        if answer is None or answer.error or answer.partition_error or answer.high_watermark < 0:
            continue
        election = starts.get((message.replier, answer.leader_epoch))
        if election is None:
            continue
        report.held("I12")
        if answer.high_watermark <= election.epoch_start:
            report.broken(
                "I12",
                f"{election.node} sends {evidence.name(message.asker)} the high watermark "
                f"{answer.high_watermark} in epoch {election.epoch}, which begins at offset "
                f"{election.epoch_start}.",
                [election.event],
            )
