"""AlterPartition (56): a leader proposes an ISR (KIP-497, KIP-841, KIP-903).

The proposal is a compare-and-set. It must be made against the present epochs of the partition, by
its present leader, and contain only brokers that may be in an ISR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.nodes.metadata.change_builder import RECOVERED, RECOVERING, Election
from kraftwreck.nodes.metadata.changes import Changes
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_values import Partition
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome
from kraftwreck.nodes.protocol.errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    INVALID_REQUEST,
    INVALID_UPDATE_VERSION,
    NEW_LEADER_ELECTED,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

UNKNOWN_EPOCH: Final = -1
"""The epoch of an ISR member whose registration the leader does not know."""

Member = tuple[int, int]
"""Broker id and broker epoch."""


def _members(version: int, proposal: Body) -> list[Member]:
    if version < 3:
        return [(broker, UNKNOWN_EPOCH) for broker in proposal["new_isr"]]
    return [(m["broker_id"], m["broker_epoch"]) for m in proposal["new_isr_with_epochs"]]


def _is_eligible(context: Context, broker_id: int, epoch: int) -> bool:
    """Return whether a broker may be in an ISR; a known ``epoch`` must be its present one."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    return epoch in (UNKNOWN_EPOCH, broker.epoch)


def _fault(
    context: Context,
    sender: int,
    partition: Partition | None,
    proposal: Body,
    members: Sequence[Member],
) -> int:
    """Return the first error of a proposal; the order of the tests is Kafka's."""
    if partition is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    leader_epoch, partition_epoch = proposal["leader_epoch"], proposal["partition_epoch"]
    if leader_epoch > partition.leader_epoch or partition_epoch > partition.partition_epoch:
        # The leader knows a newer epoch than this node, which cannot be the controller any longer.
        return NOT_CONTROLLER
    if leader_epoch < partition.leader_epoch:
        return FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return INVALID_REQUEST
    if partition_epoch < partition.partition_epoch:
        return INVALID_UPDATE_VERSION
    isr = [broker for broker, _ in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        return INVALID_REQUEST
    if partition.leader not in isr:
        return INVALID_REQUEST
    recovery = proposal["leader_recovery_state"]
    if recovery not in (RECOVERED, RECOVERING):
        return INVALID_REQUEST
    if recovery == RECOVERING and (len(isr) > 1 or partition.recovery_state == RECOVERED):
        return INVALID_REQUEST
    if not all(_is_eligible(context, broker, epoch) for broker, epoch in members):
        return INELIGIBLE_REPLICA
    return NONE


def _altered(
    context: Context, version: int, sender: int, changes: Changes, topic_id: bytes, proposal: Body
) -> Body:
    number = proposal["partition_index"]
    key = (topic_id, number)
    members = _members(version, proposal)
    error = _fault(context, sender, changes.partition(key), proposal, members)
    if error != NONE:
        return {"partition_index": number, "error_code": error}
    builder = changes.builder(key)
    builder.isr = tuple(broker for broker, _ in members)
    builder.recovery_state = proposal["leader_recovery_state"]
    if changes.unclean_allowed(key):
        builder.election = Election.UNCLEAN
    partition = changes.add(key, builder.build())
    if partition.leader != sender:
        # The proposal completed a reassignment that removes the sender's replica. It is an error
        # with an effect: the sender must fetch the metadata before its next proposal.
        return {"partition_index": number, "error_code": NEW_LEADER_ELECTED}
    return {
        "partition_index": number,
        "error_code": NONE,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
        "leader_recovery_state": partition.recovery_state,
        "partition_epoch": partition.partition_epoch,
    }


def alter_partition(context: Context, version: int, body: Body) -> Outcome:
    """Change ISRs as their leader proposes, each partition for itself.

    Raises ApiError (STALE_BROKER_EPOCH) if the sender is not registered with its epoch: it has been
    replaced by another process.
    """
    sender = body["broker_id"]
    broker = context.image.brokers.get(sender)
    if broker is None or broker.epoch != body["broker_epoch"]:
        raise ApiError(STALE_BROKER_EPOCH, f"Broker {sender} is not registered with this epoch.")
    changes = Changes(context)
    topics: list[Body] = []
    for topic in body["topics"]:
        topic_id = bytes(topic["topic_id"])
        answers: list[Body] = []
        for proposal in topic["partitions"]:
            if topic_id in context.image.names:
                answers.append(_altered(context, version, sender, changes, topic_id, proposal))
            else:
                number = proposal["partition_index"]
                answers.append({"partition_index": number, "error_code": UNKNOWN_TOPIC_ID})
        topics.append({"topic_id": topic_id, "partitions": answers})
    answer = {"throttle_time_ms": 0, "error_code": NONE, "topics": topics}
    return Outcome(changes.records, answer, atomic=False)
