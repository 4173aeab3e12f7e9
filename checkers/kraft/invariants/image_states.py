"""Images of the metadata: I30 ImageIsReplay.

Nodes that all make the same mistake agree with each other (I23). Therefore the image digests that
nodes report are compared with the committed records, replayed by the checkers' own model.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.image_digest import NoDigestError, digests
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.quorum_model.log_rules import applied_to
from kraftwreck.checkers.kraft.rule import rule

DIGITS = 32
"""Length of a digest; a text of another length cannot be compared."""


@rule(
    "I30",
    "ImageIsReplay",
    "A node's reported image is the result of replaying the committed records.",
    "T4 T6",
    nothing="no node reported a digest of its image",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge I30 by every reported digest."""
    history = Controller.of(evidence).history
    told = [
        (applied_to(event)[0], event)
        for event in evidence.trace.states
        if len(event.detail["digest"]) == DIGITS
    ]
    if not told or not history.ends:
        return
    if not history.whole or history.others:
        report.unseen("I30", "the committed log is not known completely")
        return
    known = [(end, event) for end, event in told if end <= history.reach]
    try:
        right = digests(history, [end for end, _ in known])
    except NoDigestError as error:
        report.unseen("I30", str(error))
        return
    for end, event in known:
        report.held("I30")
        if right[end] != event.detail["digest"]:
            report.broken(
                "I30",
                f"{event.node} ({event.kind}) holds another state up to offset {end} than the "
                "committed records give.",
                [event],
            )
