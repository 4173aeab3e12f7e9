"""Answers of the quorum compared with the position of their sender: I33 AnswersByPosition.

The trace gives the epoch, state, leader and vote of each node at any time. They decide three
things: the answer to a request of another epoch or for another state, the leader that an answer
may name, and whether a vote is due (KIP-595, KIP-853, KIP-996). Between request and answer a node
may have had several positions; an answer must be right in one of them.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import GAPS, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.standing import Position, Standing, told
from kraftwreck.checkers.kraft.quorum_model.transitions import (
    FOLLOWER,
    LEADER,
    PROSPECTIVE,
    UNATTACHED,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors

_OF_LEADER = ("Fetch", "FetchSnapshot", "UpdateRaftVoter")
_OF_ANYBODY = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
_MAY_VOTE = (UNATTACHED, PROSPECTIVE)


@rule(
    "I33",
    "AnswersByPosition",
    "A quorum response matches its sender's epoch, role, vote and log.",
    "T1 T4",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge I33."""
    if evidence.trace.gaps:
        report.unseen("I33", GAPS)
    if evidence.trace.gaps or not evidence.trace.count:
        return
    judge = _Judge(evidence, report)
    for api in (*_OF_LEADER, *_OF_ANYBODY):
        rule = judge.of_leader if api in _OF_LEADER else judge.of_anybody
        for message in evidence.of(api):
            if message.is_exchange:
                rule(message)
    judge.finish()


class _Judge:
    def __init__(self, evidence: Evidence, report: Report) -> None:
        self._evidence = evidence
        self._report = report
        self._standing = Standing.of(evidence)
        led = {(leader, epoch) for epoch, (leader, _) in evidence.trace.leaders.items()}
        self._steady = led - self._standing.resigned
        """Leaders by epoch that never reported a resignation during the epoch."""
        self._served = 0

    def finish(self) -> None:
        """Count the facts that needed no judgement."""
        self._report.held("I33", self._served)

    def of_leader(self, message: Message) -> None:
        """Fetch, FetchSnapshot and UpdateRaftVoter: only the leader of this epoch serves them."""
        request, answer = message.request, message.response
        epoch = request.current_leader_epoch
        if (
            answer.leader_epoch == epoch
            and answer.leader_id == message.replier
            and not (answer.partition_error or answer.error)
            and (message.replier, epoch) in self._steady
        ):
            self._served += 1  # Nearly all requests are served, and need no closer look.
            return
        if answer.partition_error == errors.NOT_LEADER_OR_FOLLOWER:
            stood = self._standing.positions(message)
            if any(at.state == LEADER and at.epoch == epoch for at in stood[:-1]):
                return  # It was parked, and parked fetches fail when the leader resigns.

        def right(at: Position, code: int) -> bool:
            if epoch > at.epoch:
                return code == errors.UNKNOWN_LEADER_EPOCH
            if epoch < at.epoch:
                return code == errors.FENCED_LEADER_EPOCH
            if at.state != LEADER:
                return code == errors.NOT_LEADER_OR_FOLLOWER
            return code not in (
                errors.FENCED_LEADER_EPOCH,
                errors.UNKNOWN_LEADER_EPOCH,
                errors.NOT_LEADER_OR_FOLLOWER,
            )

        code = answer.partition_error or answer.error
        self._judge(message, code, right, f"of epoch {epoch}")

    def of_anybody(self, message: Message) -> None:
        """Vote, BeginQuorumEpoch, EndQuorumEpoch: requests of an older epoch are refused."""
        request, answer = message.request, message.response
        is_vote = message.api == "Vote"
        epoch = request.epoch if is_vote else request.leader_epoch
        meant = getattr(request, "voter_directory", None)

        def right(at: Position, code: int) -> bool:
            if epoch < at.epoch:
                return code == errors.FENCED_LEADER_EPOCH
            another = meant is not None and any(meant) and meant.hex() != at.directory
            return code == (errors.INVALID_VOTER_KEY if another else errors.NONE)

        code = answer.partition_error or answer.error
        fine = self._judge(message, code, right, f"of epoch {epoch}")
        if fine and code == errors.NONE and is_vote:
            self._vote(message)

    def _judge(self, message: Message, code: int, right: Any, what: str) -> bool:
        self._report.held("I33")
        answer = message.response
        stood = self._standing.positions(message)
        if not stood:
            return False
        where = (
            f"{self._evidence.name(message.replier)} answers {message.api} of "
            f"{self._evidence.name(message.asker)}, {what},"
        )
        stops = code == errors.BROKER_NOT_AVAILABLE
        if not stops and not any(right(at, code) for at in stood):
            self._report.broken(
                "I33", f"{where} with {errors.error_name(code)}; it was {told(stood)}."
            )
            return False
        says = (answer.leader_epoch, answer.leader_id)
        if not any((at.epoch, at.leader) == says for at in stood):
            self._report.broken(
                "I33",
                f"{where} that node {says[1]} leads epoch {says[0]}; it was {told(stood)}.",
            )
            return False
        return True

    def _vote(self, message: Message) -> None:
        """A vote is granted if the candidate's log is new enough and no other reason exists."""
        request = message.request
        granted = message.response.vote_granted
        due: set[bool] = set()
        for at in self._standing.positions(message):
            due |= self._due(message, at)
            if granted in due:
                return
        kind = "pre-vote" if request.pre_vote else "vote"
        does = "grants" if granted else "refuses"
        self._report.broken(
            "I33",
            f"{self._evidence.name(message.replier)} {does} {self._evidence.name(message.asker)} "
            f"a {kind} of epoch {request.epoch} (log up to {request.last_offset}, epoch "
            f"{request.last_epoch}); it was {told(self._standing.positions(message))}.",
        )

    def _due(self, message: Message, at: Position) -> set[bool]:
        """Return which decisions are right in the node's position."""
        request = message.request
        if request.epoch < at.epoch:
            return set()
        newer = request.epoch > at.epoch
        state, voted, leader = at.state, at.voted, at.leader
        if newer:
            state, voted, leader = UNATTACHED, -1, -1
        good: set[bool] = set()
        for epoch, end in self._standing.tips(message):
            if epoch is None:
                good = {True, False}
                break
            good.add((request.last_epoch, request.last_offset) >= (epoch, end))
        if state == LEADER:
            return {False}
        if request.pre_vote:
            # No trace shows whether a follower has fetched from its leader.
            return good | {False} if state == FOLLOWER else good
        if state not in _MAY_VOTE:
            return {False}
        if voted >= 0:
            # The same id may have another disk by now.
            return {True, False} if voted == request.candidate_id else {False}
        return {False} if leader >= 0 else good
