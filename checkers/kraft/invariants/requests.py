"""Brokers' requests and their effects: C2 BrokerEpochFencing, C7, C8 AlterPartitionCAS, C11
(blocks of producer ids) and C16 SessionFencing, by captured messages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import NO_LOG, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import STALE_EPOCH, STALE_NS
from kraftwreck.checkers.kraft.quorum_model.log_chain import Committed
from kraftwreck.checkers.kraft.rule import judges
from kraftwreck.histories.message import Message

_FENCED_APIS = ("BrokerHeartbeat", "AlterPartition", "AllocateProducerIds", "AssignReplicasToDirs")


@judges("C2", "C8", "C11")
def check(evidence: Evidence, report: Report) -> None:
    """Judge the answers to brokers."""
    if not evidence.captured:
        return
    controller = Controller.of(evidence)
    report.unseen("C8", "no AlterPartition was requested and answered")
    _stale(evidence, report, controller)
    _proposals(evidence, report, controller)
    _blocks(evidence, report)
    _unclean(evidence, report, controller)


def _unclean(evidence: Evidence, report: Report, controller: Controller) -> None:
    """C7: a broker after an unclean stop may have lost its log, so it is not eligible to lead."""
    for message in evidence.of("BrokerRegistration"):
        body, answer = message.request, message.response
        if body is None or answer is None or answer.get("error_code") != 0:
            continue
        broker_id, epoch = body["broker_id"], answer["broker_epoch"]
        known = controller.brokers.kept.get((broker_id, epoch))
        if known is not None and body["previous_broker_epoch"] != known[0]:
            report.broken(
                "C7",
                f"Broker {broker_id} registers (epoch {epoch}) after an unclean stop (it names "
                f"epoch {body['previous_broker_epoch']}, the last one is {known[0]}), but stays "
                f"eligible to lead {known[1]}.",
            )


def _stale(evidence: Evidence, report: Report, controller: Controller) -> None:
    """C2: a broker epoch that was never assigned, or is stale, is refused."""
    given: dict[int, dict[int, int]] = {}
    for broker_id, epoch, offset in controller.brokers.epochs:
        given.setdefault(broker_id, {})[epoch] = offset
    for api in _FENCED_APIS:
        for message in evidence.of(api):
            body, answer = message.request, message.response
            if body is None or answer is None or answer.get("error_code") != 0:
                continue
            broker_id, epoch = body["broker_id"], body["broker_epoch"]
            epochs = given.get(broker_id, {})
            report.held("C2")
            told = f"{evidence.name(message.replier)} accepts {api} of broker {broker_id}"
            if epoch not in epochs:
                if evidence.log.whole and not evidence.log.missing:
                    report.broken("C2", f"{told} with epoch {epoch}, which was never assigned.")
                continue
            newer = [(e, offset) for e, offset in epochs.items() if e > epoch]
            for later, offset in newer:
                since = _committed_at(evidence, evidence.trace.chain.committed.get(offset))
                if since is not None and message.time > since + STALE_NS:
                    report.broken(
                        "C2",
                        f"{told} with epoch {epoch}, {(message.time - since) / 1e9:.1f} s after "
                        f"epoch {later} was committed.",
                        limit=STALE_EPOCH,
                    )


def _committed_at(evidence: Evidence, entry: Committed | None) -> int | None:
    if entry is None or entry.event is None:
        return None
    return evidence.moment(entry.event)


def _proposals(evidence: Evidence, report: Report, controller: Controller) -> None:
    """C8: an accepted ISR was proposed by the leader of exactly the state it replaced."""
    if not controller.replay.records:
        report.unseen("C8", NO_LOG)
        return
    epochs = {broker_id: epoch for broker_id, epoch, _ in controller.brokers.epochs}
    given = {(broker_id, epoch) for broker_id, epoch, _ in controller.brokers.epochs}
    if not evidence.log.whole or evidence.log.missing:
        epochs = {}  # Some registrations may be missing: no epoch can be called wrong.
    for message in evidence.of("AlterPartition"):
        body, answer = message.request, message.response
        if body is None or answer is None or answer.get("error_code") != 0:
            continue
        answers = {
            (bytes(topic["topic_id"]), part["partition_index"]): part
            for topic in answer["topics"]
            for part in topic["partitions"]
        }
        for topic in body["topics"]:
            for part in topic["partitions"]:
                key = bytes(topic["topic_id"]), part["partition_index"]
                done = answers.get(key)
                if done is not None and done["error_code"] == 0:
                    report.held("C8")
                    wrong = _proposal(controller, body["broker_id"], key, part, done)
                    wrong = wrong or _members(part, epochs, given)
                    if wrong is not None:
                        report.broken("C8", _told(evidence, message, key, wrong))


def _told(evidence: Evidence, message: Message, key: tuple[bytes, int], wrong: str) -> str:
    return (
        f"{evidence.name(message.replier)} accepted an ISR of partition {key[1]} of topic id "
        f"{key[0].hex()} {wrong}"
    )


def _proposal(
    controller: Controller,
    broker_id: int,
    key: tuple[bytes, int],
    part: dict[str, Any],
    done: dict[str, Any],
) -> str | None:
    asked, told = (part["leader_epoch"], part["partition_epoch"]), done["partition_epoch"]
    before = controller.partitions.states.get((*key, part["partition_epoch"]))
    after = controller.partitions.states.get((*key, told))
    if before is not None:
        if before.leader != broker_id:
            return f"proposed by broker {broker_id}; its leader then was {before.leader}."
        if before.leader_epoch != asked[0]:
            return f"of leader epoch {asked[0]}; it was {before.leader_epoch} then."
    if told not in (asked[1], asked[1] + 1):
        return f"proposed at partition epoch {asked[1]} as partition epoch {told}."
    if after is not None and sorted(after.isr) != sorted(done["isr"]):
        return f"as {done['isr']}; the committed log holds {list(after.isr)}."
    return None


def _members(
    part: dict[str, Any], epochs: dict[int, int], given: set[tuple[int, int]]
) -> str | None:
    """Members must have an epoch that was assigned to them, or -1 for unknown."""
    for member in part.get("new_isr_with_epochs") or ():
        broker_id, epoch = member["broker_id"], member["broker_epoch"]
        if epoch != -1 and broker_id in epochs and (broker_id, epoch) not in given:
            return f"with broker {broker_id} epoch {epoch}, which was never assigned."
    return None


def _blocks(evidence: Evidence, report: Report) -> None:
    """C11: no two blocks of producer ids overlap."""
    blocks: list[tuple[int, int]] = []
    for message in evidence.of("AllocateProducerIds"):
        answer = message.response
        if answer is not None and answer.get("error_code") == 0:
            begin = answer["producer_id_start"]
            blocks.append((begin, begin + answer["producer_id_len"]))
    blocks.sort()
    report.held("C11", len(blocks))
    for (begin, end), (following, _) in pairwise(blocks):
        if following < end:
            report.broken(
                "C11",
                f"Producer ids from {following} on were assigned twice: in the blocks that begin "
                f"at {begin} and at {following}.",
            )
