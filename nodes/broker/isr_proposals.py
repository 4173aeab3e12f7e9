"""AlterPartition as a leader sends it: ISRs proposed to the active controller (KIP-497)."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.broker.leadership import ControllerAddress
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, SendApi
from kraftwreck.nodes.metadata.change_builder import RECOVERED, RECOVERING
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.effects import AlterPartition
from kraftwreck.nodes.replication.events import Altered, AlterPartitionAnswered

NEVER: Final = 2**63 - 1

Body = dict[str, Any]


class IsrProposals:
    """The AlterPartition request in flight; times are microseconds.

    Invariant: each :meth:`send` is answered once: by the controller, or with ``parts`` None, which
    means that the proposal may or may not be in force. The core then proposes again, and counts
    the members of either outcome until it knows.
    """

    def __init__(self, node_id: int, timeout_us: int) -> None:
        self._node_id = node_id
        self._timeout_us = timeout_us
        self._asked: AlterPartition | None = None
        self._correlation = 0
        self._until = NEVER
        self._controller: ControllerAddress | None = None

    @property
    def deadline(self) -> int:
        """The time at which the request in flight counts as failed."""
        return self._until

    def send(
        self,
        asked: AlterPartition,
        controller: ControllerAddress,
        broker_epoch: int,
        correlation: int,
        now: int,
    ) -> SendApi:
        """Return the request for the controller."""
        assert self._asked is None, "one AlterPartition is in flight"
        self._asked = asked
        self._correlation = correlation
        self._until = now + self._timeout_us
        self._controller = controller
        body = request(asked, self._node_id, broker_epoch)
        return SendApi(controller.node_id, correlation, controller.endpoint, "AlterPartition", body)

    def response(self, event: ApiResponseReceived) -> AlterPartitionAnswered | None:
        """Return the answer for the core; None if no proposal waits for this response."""
        if self._asked is None or event.correlation != self._correlation:
            return None
        body = event.body
        if body is None or body["error_code"] != NONE:
            return self._end(None)
        return self._end(
            tuple(
                Altered(
                    (topic["topic_id"], part["partition_index"]),
                    part["error_code"],
                    part["leader_epoch"],
                    part["partition_epoch"],
                    tuple(part["isr"]),
                    part["leader_recovery_state"] == RECOVERING,
                )
                for topic in body["topics"]
                for part in topic["partitions"]
            )
        )

    def void(self, controller: ControllerAddress | None, now: int) -> AlterPartitionAnswered | None:
        """Give the request up if it is too old, or went to a controller that was replaced."""
        if self._asked is None:
            return None
        replaced = controller is not None and controller != self._controller
        return self._end(None) if replaced or now >= self._until else None

    def _end(self, parts: tuple[Altered, ...] | None) -> AlterPartitionAnswered:
        assert self._asked is not None
        asked, self._asked, self._until = self._asked, None, NEVER
        return AlterPartitionAnswered(asked.correlation, parts)


def request(asked: AlterPartition, node_id: int, broker_epoch: int) -> Body:
    """Return the body of the request, for all versions from 2 on."""
    topics: dict[bytes, list[Body]] = {}
    for proposal in asked.proposals:
        topic_id, number = proposal.key
        topics.setdefault(topic_id, []).append(
            {
                "partition_index": number,
                "leader_epoch": proposal.leader_epoch,
                "new_isr": [broker for broker, _ in proposal.isr],
                "new_isr_with_epochs": [
                    {"broker_id": broker, "broker_epoch": epoch} for broker, epoch in proposal.isr
                ],
                "leader_recovery_state": RECOVERING if proposal.recovering else RECOVERED,
                "partition_epoch": proposal.partition_epoch,
            }
        )
    return {
        "broker_id": node_id,
        "broker_epoch": broker_epoch,
        "topics": [
            {"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()
        ],
    }
