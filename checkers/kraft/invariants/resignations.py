"""Leaders that resign without a reason: L10 LeaderGivesUpForCause.

The converse of I18: if a leader reports that it resigns because no majority fetched from it, then
no majority may have fetched records or a snapshot (KIP-630) within the last half of its timeout. A
single voter never resigns for that reason.
"""

from __future__ import annotations

from itertools import chain

from kraftwreck.checkers.kraft.invariants.evidence import NO_MESSAGES, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import GIVEN_UP, RECENT
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain, is_served
from kraftwreck.checkers.kraft.recorded.settings import check_quorum_ns
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

CHECK_QUORUM = "check-quorum"


@rule(
    "L10",
    "LeaderGivesUpForCause",
    "A leader resigns for lack of a majority only if no majority recently fetched records or a "
    "snapshot from it.",
    "T1 T4",
    nothing="no leader resigned for lack of fetches",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge L10."""
    resigned = [
        event
        for event in evidence.run.events
        if event.kind == "resign" and event.detail.get("reason") == CHECK_QUORUM
    ]
    if not resigned:
        return
    for event in resigned:
        election = evidence.elections.get((evidence.trace.tracks[event.node].id, event.epoch))
        if election is None or evidence.trace.voter_changes:
            continue
        known = set(election.event.detail["voters"])
        if len(known) == 1:
            report.held("L10")
            report.broken("L10", f"{event.node}, the only voter, resigns.", [event])
        elif not evidence.captured:
            report.unseen("L10", NO_MESSAGES)
        elif not evidence.pauses.get(event.node):
            report.held("L10")
            _heard(evidence, report, event, known)


def _heard(evidence: Evidence, report: Report, event: TraceEvent, voters: set[int]) -> None:
    ended = evidence.moment(event)
    if ended is None:
        return
    own = evidence.trace.tracks[event.node].id
    span = int(check_quorum_ns(evidence.settings_of(own)) * RECENT)
    heard: dict[int, int] = {}
    for message in chain(evidence.of("Fetch"), evidence.of("FetchSnapshot")):
        if (
            message.replier == own
            and message.asker in voters
            and message.asker != own
            and message.time <= ended
            and evidence.after(event.node, message.sent, span) >= ended
            and _is_valid(message, event.epoch)
        ):
            heard[message.asker] = message.time
    if len(heard) >= len(voters) // 2:
        names = ", ".join(evidence.name(node) for node in sorted(heard))
        report.broken(
            "L10",
            f"{event.node} resigns as leader of epoch {event.epoch} because no majority of "
            f"{sorted(voters)} fetched from it; within {span / 1e9:.2f} s {names} did.",
            [event],
            limit=GIVEN_UP,
        )


def _is_valid(message: Message, epoch: int) -> bool:
    """Whether a fetch proves a live follower: it was answered with success, from this log."""
    answer = message.response
    if not message.is_exchange or message.request.current_leader_epoch != epoch:
        return False
    if not is_served(answer):
        return False
    return message.api == "FetchSnapshot" or is_plain(answer)
