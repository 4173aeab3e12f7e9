"""Client requests that the active controller answers, wrapped in an Envelope (KIP-590).

A request that was certainly not carried out is sent again to the present controller, until the
client's timeout. This is so if the controller was unreachable or answered NOT_CONTROLLER. A request
that was sent but not answered may have been carried out. A read is then sent again; a write is not,
and its client gets REQUEST_TIMED_OUT, which leaves the outcome open. Kafka sends the write again,
so its client may get TOPIC_ALREADY_EXISTS for a topic that the same request created.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from kraftwreck.nodes.broker.apis import READS
from kraftwreck.nodes.broker.leadership import ControllerAddress
from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest, ApiResponseReceived, SendApi
from kraftwreck.nodes.metadata.failure import refusal
from kraftwreck.nodes.protocol.apis import decode_response, encode_request
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.errors import (
    NONE,
    NOT_CONTROLLER,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
    error_name,
)
from kraftwreck.nodes.protocol.versioned import encode_versioned

MILLISECOND: Final = 1000
NEVER: Final = 2**63 - 1
DEFAULT_TIMEOUT_MS: Final = 30_000
"""The timeout of a request that names none."""
RETRY_BACKOFF_MS: Final = 50
INNER_CORRELATION: Final = 0
"""An envelope holds one request, so the inner correlation id never varies."""
PRINCIPAL: Final = encode_versioned(
    "DefaultPrincipalData", 0, {"type": "User", "name": "ANONYMOUS", "token_authenticated": False}
)
"""The principal of every request received on a PLAINTEXT listener."""

Body = dict[str, Any]


@dataclass(slots=True, eq=False)
class _Forwarded:
    """A forwarded request: sent under ``correlation``; None while it waits for ``retry_at``."""

    request: ApiRequest
    envelope: Body
    deadline: int
    retry_at: int
    correlation: int | None = None
    tried: bool = False


class Forwarding:
    """The requests that wait for the active controller. Times are microseconds."""

    def __init__(self, client_id: str, attempt_timeout_ms: int) -> None:
        self._client_id = client_id
        self._attempt_timeout_ms = attempt_timeout_ms
        self._waiting: list[_Forwarded] = []
        self._controller: ControllerAddress | None = None
        self._replies: list[ApiReply] = []

    def deadline(self, controller: ControllerAddress | None) -> int:
        """Return when :meth:`tick` is next due."""
        due = NEVER
        for each in self._waiting:
            due = min(due, each.deadline)
            if each.correlation is None and controller is not None:
                due = min(due, each.retry_at)
        return due

    def take_replies(self) -> list[ApiReply]:
        """Return the answers that have become ready since the last call."""
        replies, self._replies = self._replies, []
        return replies

    def take_in(self, request: ApiRequest, now: int) -> None:
        """Forward ``request``; the next :meth:`tick` sends it."""
        try:
            envelope = self._envelope(request)
        except ProtocolError as error:
            self._refuse(request, UNKNOWN_SERVER_ERROR, str(error))
            return
        timeout_ms = request.body.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        deadline = now + max(0, timeout_ms) * MILLISECOND
        self._waiting.append(_Forwarded(request, envelope, deadline, now))

    def _envelope(self, request: ApiRequest) -> Body:
        return {
            "request_data": encode_request(
                request.api, request.version, INNER_CORRELATION, self._client_id, request.body
            ),
            "request_principal": PRINCIPAL,
            "client_host_address": _address(request.client),
        }

    def tick(
        self, controller: ControllerAddress | None, correlation: int, now: int
    ) -> list[SendApi]:
        """Return the requests to send now, numbered from ``correlation`` upwards."""
        if not self._waiting and controller is self._controller:
            return []
        if controller != self._controller and controller is not None:
            for each in self._waiting:
                each.retry_at = min(each.retry_at, now)
            self._controller = controller
        sends: list[SendApi] = []
        kept: list[_Forwarded] = []
        for each in self._waiting:
            if each.deadline <= now and (each.tried or controller is None):
                self._refuse(each.request, REQUEST_TIMED_OUT, _TIMED_OUT)
                continue
            kept.append(each)
            if controller is not None and each.correlation is None and each.retry_at <= now:
                each.tried = True
                each.correlation = correlation + len(sends)
                sends.append(
                    SendApi(
                        controller.node_id,
                        each.correlation,
                        controller.endpoint,
                        "Envelope",
                        each.envelope,
                        self._attempt_ms(each, now),
                    )
                )
        self._waiting = kept
        return sends

    def _attempt_ms(self, each: _Forwarded, now: int) -> int:
        """Return the timeout of this attempt; only a read leaves time for another attempt."""
        remaining = max(1, (each.deadline - now) // MILLISECOND)
        if each.request.api in READS:
            return min(remaining, self._attempt_timeout_ms)
        return remaining

    def response(self, event: ApiResponseReceived, now: int) -> bool:
        """Handle a response; False if no request waits for it."""
        each = next((w for w in self._waiting if w.correlation == event.correlation), None)
        if each is None:
            return False
        each.correlation = None
        request = each.request
        if event.body is None:
            if event.sent and request.api not in READS:
                self._waiting.remove(each)
                self._refuse(request, REQUEST_TIMED_OUT, _UNANSWERED)
            else:
                self._retry(each, now)
            return True
        code = event.body["error_code"]
        if code == NOT_CONTROLLER:
            self._retry(each, now)
            return True
        if code != NONE:
            self._waiting.remove(each)
            # A version that is unknown inside of the envelope is an error of this node, not the
            # client's.
            shown = UNKNOWN_SERVER_ERROR if code == UNSUPPORTED_VERSION else code
            self._refuse(request, shown, f"The controller refused: {error_name(code)}.")
            return True
        try:
            answer = self._opened(request, event.body["response_data"] or b"")
        except ProtocolError as error:
            self._waiting.remove(each)
            self._refuse(request, UNKNOWN_SERVER_ERROR, f"The controller's answer: {error}")
            return True
        if _is_no_leader(request.api, answer):
            self._retry(each, now)
            return True
        self._waiting.remove(each)
        self._replies.append(ApiReply(request.token, answer))
        return True

    def _opened(self, request: ApiRequest, data: bytes) -> Body:
        correlation, answer = decode_response(request.api, request.version, data)
        if correlation != INNER_CORRELATION:
            raise ProtocolError(f"it is for request {correlation}, which was not sent")
        return answer

    def _retry(self, each: _Forwarded, now: int) -> None:
        each.retry_at = now + RETRY_BACKOFF_MS * MILLISECOND

    def _refuse(self, request: ApiRequest, code: int, message: str) -> None:
        body: Body = refusal(request.api, request.version, request.body, code, message)
        self._replies.append(ApiReply(request.token, body))


_TIMED_OUT: Final = "No active controller answered in time; the request may be carried out yet."
_UNANSWERED: Final = "The controller did not answer; the request may have been carried out."


def _address(host: str) -> bytes:
    """Return a client's address as bytes; all zero if ``host`` is not an IP address."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)


def _is_no_leader(api: str, answer: Body) -> bool:
    """Whether a node that does not lead the quorum answered DescribeQuorum."""
    return api == "DescribeQuorum" and any(
        partition["error_code"] == NOT_LEADER_OR_FOLLOWER
        for topic in answer["topics"]
        for partition in topic["partitions"]
    )
