"""Votes by messages: I2 VoteOnce, I16 PrevoteHarmless, I17 LeaderStickiness."""

from __future__ import annotations

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import BACKLOG_NS, MS, REQUEST_TIMEOUT_MS, STICKINESS
from kraftwreck.checkers.kraft.quorum_model.fetching import Answers, is_served
from kraftwreck.checkers.kraft.recorded.settings import check_quorum_ns
from kraftwreck.checkers.kraft.rule import judges, rule


@rule(
    "I17",
    "LeaderStickiness",
    "A follower that has recently fetched from its leader grants no pre-vote of that epoch.",
    "T1 T4",
    live=True,
    nothing="no node requested a pre-vote",
)
@judges("I2", "I16")
def check(evidence: Evidence, report: Report) -> None:
    """Judge what messages add to the trace."""
    _granted(evidence, report)
    _stickiness(evidence, report)


def _granted(evidence: Evidence, report: Report) -> None:
    """I2 and I16 by messages: one candidate per epoch and disk; a pre-vote raises no epoch.

    Only exchanges, requests with their answers, show the candidate of a granted vote.
    """
    votes: dict[tuple[int, bytes, int], int] = {}
    for message in evidence.of("Vote"):
        request, answer = message.request, message.response
        if request is None:
            continue
        if request.pre_vote:
            track = evidence.trace.by_id.get(message.asker)
            report.held("I16")
            if track is not None and not track.gap and request.epoch > track.epoch_seen:
                report.broken(
                    "I16",
                    f"{evidence.name(message.asker)} asks for pre-votes of epoch {request.epoch}, "
                    f"but was never in an epoch above {track.epoch_seen}.",
                )
            continue
        if answer is None or not answer.vote_granted:
            continue
        voter = evidence.trace.by_id.get(message.replier)
        if voter is not None and voter.wiped and not any(request.voter_directory):
            continue  # It is unknown which of its disks voted.
        report.held("I2")
        key = message.replier, request.voter_directory, request.epoch
        known = votes.setdefault(key, request.candidate_id)
        if known != request.candidate_id:
            report.broken(
                "I2",
                f"{evidence.name(message.replier)} granted its vote of epoch {request.epoch} to "
                f"{evidence.name(known)} and to {evidence.name(request.candidate_id)}.",
            )


def _stickiness(evidence: Evidence, report: Report) -> None:
    """I17: a follower that has recently fetched from its leader grants no pre-vote of that epoch.

    An answer within the first request timeout may belong to a request of an earlier state, so it
    does not count.
    """
    report.held("I17", sum(1 for m in evidence.of("Vote") if m.request and m.request.pre_vote))
    fetched: dict[tuple[int, int, int], list[int]] = {}
    if not evidence.trace.follower_grants or not evidence.captured:
        return
    for message in evidence.of("Fetch"):
        answer = message.response
        if message.request is not None or answer is None:
            continue  # The time of an answer is not the time of its arrival.
        if is_served(answer):
            # By the sender of the request: answers by way of a bootstrap server do not count.
            key = message.asker, message.replier, answer.leader_epoch
            fetched.setdefault(key, []).append(message.time)
    for since, event in evidence.trace.follower_grants:
        at, begun = evidence.moment(event), evidence.instant(event.node, since)
        if at is None or begun is None:
            continue
        own = evidence.trace.tracks[event.node].id
        answers = fetched.get((own, event.leader, event.epoch), ())
        span = evidence.setting("request_timeout_ms", REQUEST_TIMEOUT_MS, own) * MS * 5 // 4
        begun = evidence.after(event.node, begun, span)
        # The backlog of a paused process may have been dropped as too late.
        stopped = evidence.pauses.get(event.node, ())
        heard = Answers()
        for time in answers:
            held_up = any(begin <= time < end + BACKLOG_NS for begin, end in stopped)
            if begun < time < at and not held_up:
                heard.took(time)
        report.held("I17")
        limit = check_quorum_ns(evidence.settings_of(own)) * 2 // 3  # That is one fetch timeout.
        if heard.bind and evidence.after(event.node, heard.last, limit) > at:
            leader = evidence.name(event.leader)
            candidate = evidence.name(event.detail["candidate"])
            report.broken(
                "I17",
                Answers.is_disloyal(event.node, leader, event.epoch, candidate),
                [event],
                limit=STICKINESS,
            )
