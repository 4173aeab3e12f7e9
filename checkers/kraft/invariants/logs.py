"""High watermarks that leaders send to followers: I12 CurrentEpochCommit."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.quorum_model.fetching import is_served
from kraftwreck.checkers.kraft.rule import judges


@judges("I12")
def check(evidence: Evidence, report: Report) -> None:
    """I12: no answer has a high watermark before the epoch's first record is committed."""
    for message in evidence.of("Fetch"):
        answer = message.response
        if answer is None or not is_served(answer) or answer.high_watermark < 0:
            continue
        election = evidence.elections.get((message.replier, answer.leader_epoch))
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
