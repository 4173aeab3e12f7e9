"""Voters: I26 VoterChangeOneAtATime."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.rule import judges


@judges("I26")
def check(evidence: Evidence, report: Report) -> None:
    """Judge the VotersRecords of the committed log; the trace has shown their timing."""
    before: dict[int, bytes] | None = None
    for offset, told in Controller.of(evidence).replay.voters:
        now = {voter["voter_id"]: bytes(voter["voter_directory_id"]) for voter in told}
        if before is not None and evidence.log.whole:
            changed = before.items() ^ now.items()
            if changed:
                report.held("I26")
            if len(changed) > 1:
                report.broken(
                    "I26",
                    f"The VotersRecord at offset {offset} changes more than one voter: from "
                    f"{sorted(before)} to {sorted(now)}.",
                )
        before = now
