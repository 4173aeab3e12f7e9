"""Ids of idempotent producers, out of blocks that the active controller allocates (KIP-730)."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.broker.leadership import ControllerAddress
from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest, ApiResponseReceived, SendApi
from kraftwreck.nodes.protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    UNSUPPORTED_VERSION,
)

API: Final = "InitProducerId"
MILLISECOND: Final = 1000
NEVER: Final = 2**63 - 1
RETRY_MS: Final = 50

Body = dict[str, Any]


class ProducerIds:
    """Answers InitProducerId; times are microseconds.

    Each answer has an id that no other answer of the cluster has, and epoch 0, also if the producer
    names an id that it had: without a transactional id nobody knows whose it is. A request waits
    ``timeout_ms`` for a block, and gets COORDINATOR_LOAD_IN_PROGRESS then, after which producers
    retry.
    """

    def __init__(self, node_id: int, timeout_ms: int) -> None:
        self._node_id = node_id
        self._timeout_us = timeout_ms * MILLISECOND
        self._next = 0
        self._end = 0
        self._waiting: list[tuple[int, int]] = []
        """Token and deadline of each request, in order."""
        self._asked: int | None = None
        self._controller: ControllerAddress | None = None
        self._until = NEVER
        self._retry_at = 0
        self._replies: list[ApiReply] = []

    def deadline(self, controller: ControllerAddress | None) -> int:
        """Return when :meth:`tick` is next due."""
        if not self._waiting:
            return self._until
        due = min(self._until, self._waiting[0][1])
        may_ask = self._asked is None and controller is not None
        return min(due, self._retry_at) if may_ask else due

    def take_replies(self) -> list[ApiReply]:
        """Return the answers that have become ready since the last call."""
        replies, self._replies = self._replies, []
        return replies

    def handle(self, request: ApiRequest, now: int) -> None:
        """Take in a request."""
        if request.body["transactional_id"] is not None:
            # There are no transactions here, and waiting would not help.
            self._refuse(request.token, UNSUPPORTED_VERSION)
            return
        self._waiting.append((request.token, now + self._timeout_us))
        self._serve()

    def response(self, event: ApiResponseReceived, now: int) -> bool:
        """Handle a response; False if it is not the one waited for."""
        if self._asked is None or event.correlation != self._asked:
            return False
        self._asked, self._until = None, NEVER
        body = event.body
        if body is None or body["error_code"] != NONE:
            self._retry_at = now + RETRY_MS * MILLISECOND
            return True
        self._next = body["producer_id_start"]
        self._end = self._next + body["producer_id_len"]
        self._serve()
        return True

    def tick(
        self, controller: ControllerAddress | None, broker_epoch: int, correlation: int, now: int
    ) -> SendApi | None:
        """Return the request for a block to send now under ``correlation``, None if there is none.

        A block whose answer is lost is not used by anybody.
        """
        replaced = controller is not None and controller != self._controller
        if self._asked is not None and (replaced or now >= self._until):
            self._asked, self._until = None, NEVER
            self._retry_at = now
        while self._waiting and self._waiting[0][1] <= now:
            self._refuse(self._waiting.pop(0)[0], COORDINATOR_LOAD_IN_PROGRESS)
        if not self._waiting or self._asked is not None or now < self._retry_at:
            return None
        if controller is None or broker_epoch < 0:
            self._retry_at = now + RETRY_MS * MILLISECOND
            return None
        self._asked, self._controller = correlation, controller
        self._until = now + self._timeout_us
        body = {"broker_id": self._node_id, "broker_epoch": broker_epoch}
        return SendApi(
            controller.node_id, correlation, controller.endpoint, "AllocateProducerIds", body
        )

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            token, _ = self._waiting.pop(0)
            self._replies.append(ApiReply(token, answer(NONE, self._next, 0)))
            self._next += 1

    def _refuse(self, token: int, error: int) -> None:
        self._replies.append(ApiReply(token, answer(error)))


def answer(error: int, producer_id: int = -1, epoch: int = -1) -> Body:
    """Return the body of an answer."""
    return {
        "throttle_time_ms": 0,
        "error_code": error,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
