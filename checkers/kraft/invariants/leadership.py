"""Leadership: I1 ElectionSafety, I15 RestartNotLeader, I18 CheckQuorum."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kraftwreck.checkers.kraft.invariants.evidence import NO_MESSAGES, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.checkers.kraft.quorum_model.fetching import Majority, is_served
from kraftwreck.checkers.kraft.quorum_model.log_chain import Election
from kraftwreck.checkers.kraft.quorum_model.quorum import voters_in
from kraftwreck.checkers.kraft.recorded.disk_log import disk_logs
from kraftwreck.checkers.kraft.recorded.settings import check_quorum_ns
from kraftwreck.checkers.kraft.rule import judges, rule
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.message import Message
from kraftwreck.histories.operation import OK
from kraftwreck.histories.trace import TraceEvent

_PROOF = ("Fetch", "FetchSnapshot", "UpdateRaftVoter")
"""Requests of voters that reset the leader's check-quorum timer."""


class Claim(NamedTuple):
    """Node ``leader`` leads ``epoch``, as its evidence ``how`` says."""

    epoch: int
    leader: int
    how: str
    events: tuple[TraceEvent, ...] = ()
    operations: tuple[int, ...] = ()


@judges("I1")
def one_leader(evidence: Evidence, report: Report) -> None:
    """I1 by traces, answers to clients, LeaderChange records on disks, and messages together."""
    first: dict[int, Claim] = {}
    for claim in _claims(evidence):
        known = first.setdefault(claim.epoch, claim)
        report.held("I1", not claim.events)  # The model of the quorum counts those of traces.
        if known.leader != claim.leader:
            report.broken(
                "I1",
                f"Epoch {claim.epoch} has two leaders: {known.leader} ({known.how}) and "
                f"{claim.leader} ({claim.how}).",
                [*known.events, *claim.events],
                [*known.operations, *claim.operations],
            )


def _claims(evidence: Evidence) -> Iterator[Claim]:
    for epoch, (node, event) in evidence.trace.leaders.items():
        yield Claim(epoch, node, f"traced by {event.node}", (event,))
    for call in evidence.run.calls:
        value = call.value
        if call.f != "leader" or call.type != OK or not isinstance(value, dict):
            continue
        leader, term = value.get("leader"), value.get("epoch")
        asked = value.get("node", leader)
        if isinstance(leader, int) and isinstance(term, int) and leader == asked and leader >= 0:
            how = f"claimed to a client by node {leader}"
            yield Claim(term, leader, how, (), tuple(call.indices))
    for log in disk_logs(evidence.run):
        where = f"LeaderChange record on {log.image.node}'s disk, {log.image.label}"
        for batch in log.fresh:
            if batch.leader is not None:
                yield Claim(batch.epoch, batch.leader, where)
    capture = evidence.run.capture
    told = map(_claim_in, capture.messages if capture is not None else ())
    yield from sorted({claim for claim in told if claim is not None})


def _claim_in(message: Message) -> Claim | None:
    """Return the claim in a message between nodes, None if it makes none."""
    request, answer, how = message.request, message.response, f"message {message.api}"
    if message.api in ("BeginQuorumEpoch", "EndQuorumEpoch") and request is not None:
        return Claim(request.leader_epoch, request.leader_id, how)
    if message.api != "Fetch" or answer is None or isinstance(answer, dict):
        return None
    return Claim(answer.leader_epoch, answer.leader_id, how) if is_served(answer) else None


@rule(
    "I18",
    "CheckQuorum",
    "A leader without a majority of fetching voters, or with a successor, stops within 1.5 fetch "
    "timeouts.",
    "T1 T4",
    live=True,
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge I18."""
    trace = evidence.trace
    if in_virtual_time(evidence.run.test):
        report.held("I18", len(trace.last_led))  # The simulator has judged them during the run.
    else:
        _check_quorum(evidence, report)


def _check_quorum(evidence: Evidence, report: Report) -> None:
    """I18: a leader that no majority fetches from resigns, by its own clock and input log."""
    if not evidence.own_inputs or evidence.run.capture is None:
        report.unseen("I18", NO_MESSAGES)
        return
    if evidence.run.capture.dropped:
        report.unseen("I18", "some messages were not kept, fetches perhaps among them")
        return
    heard: dict[tuple[int, int], list[Message]] = {}
    for api in _PROOF:
        for message in evidence.of(api):
            if message.request is not None:
                reign = message.replier, message.request.current_leader_epoch
                heard.setdefault(reign, []).append(message)
    changed = evidence.trace.voter_changes
    changes = [e for e in evidence.run.events if e.kind == "voters"] if changed else []
    for election in evidence.trace.chain.elections:
        _reign(evidence, report, election, heard, changes)


def _reign(
    evidence: Evidence,
    report: Report,
    election: Election,
    heard: dict[tuple[int, int], list[Message]],
    changes: list[TraceEvent],
) -> None:
    node, epoch = election.node, election.epoch
    leader = evidence.trace.tracks[node].id
    voters = set(election.event.detail["voters"])
    begun = evidence.moment(election.event)
    last_event = evidence.trace.last_led.get((node, epoch))
    last = evidence.moment(last_event)
    if begun is None or last is None or last_event is None or len(voters) < 2:
        return
    if (changed := _changed(evidence, election, changes)) is not None:
        last = min(last, changed)  # Then other voters count.
    expired = _expiry_by_steps(evidence, node, leader)
    report.held("I18")
    majority = Majority(epoch, begun)
    for message in sorted(heard.get((leader, epoch), ()), key=lambda message: message.time):
        now = message.time
        if now < begun:
            continue  # A node that knows no leader fetches from any node, even from candidates.
        if now > last or expired(majority.since, now):
            break
        if message.asker in voters and message.asker != leader:
            majority.fetched(message.asker, now, len(voters) // 2, expired)
    if expired(majority.since, last):
        report.broken(
            "I18",
            majority.is_lost(node, last, 1e9),
            [election.event, last_event],
        )


def _changed(evidence: Evidence, election: Election, changes: list[TraceEvent]) -> int | None:
    """Return when (ns) a new leader first used other voters than those that elected it, by the
    reports of ``changes``."""
    won, elected_by = election.event, set(election.event.detail["voters"])
    for event in changes:
        if (
            (event.node, event.incarnation) == (won.node, won.incarnation)
            and event.seq > won.seq
            and voters_in(event).keys() != elected_by
        ):
            return evidence.moment(event)
    return None


def _expiry_by_steps(evidence: Evidence, node: str, leader: int) -> Callable[[int, int], bool]:
    """Return whether the check-quorum timer of ``since`` (ns) has run out before a time (ns).

    Proof without a tolerance, for messages in the node's own input log. The node looks at its timer
    at the end of every step, with the clock reading that the log holds. So it has run out if the
    node took a whole step after the deadline and before the later time.
    """
    steps, timeout = evidence.steps[leader], check_quorum_ns(evidence.run.test)

    def expired(since: int, now: int) -> bool:
        deadline = evidence.after(node, since, timeout) + STEP_NS
        first = bisect_right(steps, deadline)
        return first < len(steps) and steps[first] < now

    return expired
