"""Answers to Fetch: I28 FetchValidity.

The traces give the leader's log. An answer with records, with a divergence or with a snapshot must
be the one that this log calls for (KIP-595).
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain, is_served
from kraftwreck.checkers.kraft.quorum_model.log_chain import START, BatchId, LogChain
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.message import Message


@rule(
    "I28",
    "FetchValidity",
    "A Fetch request states the end of the fetching log, and its response matches the leader's "
    "log.",
    "T1 T4 T7",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge I28 by all answers without error."""
    chain = evidence.trace.chain
    for message in evidence.of("Fetch"):
        answer = message.response
        if answer is None or not is_served(answer):
            continue
        report.held("I28")
        wrong = _leader(message, answer)
        if wrong is None and message.request is not None:
            election = evidence.elections.get((message.replier, answer.leader_epoch))
            wrong = _kind(message, answer, chain, election.tip if election is not None else None)
        if wrong is not None:
            report.broken(
                "I28",
                f"{evidence.name(message.replier)} answers a fetch of "
                f"{evidence.name(message.asker)} {wrong}",
            )


def _leader(message: Message, answer: Any) -> str | None:
    if message.replier > 0 and answer.leader_id != message.replier:
        return f"without error although the leader it names is {answer.leader_id}."
    if message.request is not None and answer.leader_epoch != message.request.current_leader_epoch:
        return (
            f"of epoch {message.request.current_leader_epoch} without error in epoch "
            f"{answer.leader_epoch}."
        )
    return None


def _kind(message: Message, answer: Any, chain: LogChain, tip: BatchId | None) -> str | None:
    asked = message.request
    offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
    where = f"at (offset {offset}, epoch {epoch})"
    if message.records is not None and not is_plain(answer):
        return f"{where} with records, and also with a divergence or snapshot."
    if answer.diverging_epoch >= 0:
        return _divergence(answer, chain, tip, offset, epoch, where)
    if message.records is None:
        return None
    base, first, end = message.records
    if not base <= offset < end:
        return f"{where} with records from {base} to {end - 1}."
    batch = chain.batches.get((base, first))
    before = None if batch is None else batch.before
    if base != offset or before is None:
        return None
    own = 0 if before == START else before[1]
    if own != epoch:
        return f"{where} with records, although epoch {own} precedes that offset in its log."
    return None


def _divergence(
    answer: Any, chain: LogChain, tip: BatchId | None, offset: int, epoch: int, where: str
) -> str | None:
    told = f"(offset {answer.diverging_end}, epoch {answer.diverging_epoch})"
    if answer.diverging_epoch > epoch:
        return f"{where} with a divergence at {told}, of a later epoch."
    if answer.diverging_epoch == epoch and answer.diverging_end >= offset:
        return f"{where} with a divergence at {told}, which no batch of its log has."
    at = tip
    while at is not None and at != START and at[0] >= offset:
        batch = chain.batches.get(at)
        at = None if batch is None else batch.before
    if at is None or at == START:
        return None
    batch = chain.batches.get(at)
    if batch is not None and batch.last + 1 == offset and at[1] == epoch:
        return f"{where} with a divergence at {told}, although its own log holds that record."
    return None
