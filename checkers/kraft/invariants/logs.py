"""Logs and what of them is committed: I7 EpochInLog, I8 LogMatching, I9 LeaderCompleteness,
I10 CommittedStable, I11 CommittedOnMajority, I12 CurrentEpochCommit, I13 MonotonicHW, I14
NoTruncateBelowHW, D7 LeaderEpochCache."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.rule import judges, rule


@rule(
    "D7",
    "LeaderEpochCache",
    "leader-epoch-checkpoint lists the epochs of the batches in the log.",
    "T2",
    nothing="no leader-epoch-checkpoint",
)
@judges("I7", "I8", "I10", "I11", "I12", "I14")
def check(evidence: Evidence, report: Report) -> None:
    """Judge what messages and disks add to the trace."""
    on_disk = evidence.disks.facts
    for invariant in ("I7", "I8", "I10", "I11", "D7"):
        report.held(invariant, on_disk.get(invariant, 0))
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
