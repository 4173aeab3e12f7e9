"""The calls of clients. A client is never cut off: it runs on the control host.

A call is refused if no process runs, and lost if the process dies or the answer takes too long.
Voter changes are requests of the quorum, from any sender, and the node gets them as such
(``nodes.consensus.kraft.messages``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.consensus.effects import ApiRequest, Event, FatalError, RequestReceived
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    Request,
    Response,
    VoterChangeResponse,
)
from kraftwreck.simulation.encoding import carried_request
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.timeline import CLIENT, Timeline

CLIENT_LATENCY = 300
"""Microseconds from a client to a node, or back."""

CLIENT_HOST = "control"
"""The host of clients, as nodes see it."""

Done = Callable[[str, dict[str, Any], str | None], None]
"""Called with the outcome of a client's call: status (ok, refused, lost), body, error."""


def quorum_request(api: str, body: dict[str, Any]) -> Request | None:
    """Return a client's request as a request of the quorum; None if it is not one."""
    if api == "AddRaftVoter":
        return AddRaftVoterRequest(
            cluster_id=body["cluster_id"],
            timeout_ms=body["timeout_ms"],
            voter_id=body["voter_id"],
            directory=body["voter_directory_id"],
            endpoints=tuple(
                (listener["name"], Endpoint(listener["host"], listener["port"]))
                for listener in body["listeners"]
            ),
            ack_when_committed=body.get("ack_when_committed", True),
        )
    if api == "RemoveRaftVoter":
        return RemoveRaftVoterRequest(
            cluster_id=body["cluster_id"],
            voter_id=body["voter_id"],
            directory=body["voter_directory_id"],
        )
    return None


def answer_body(message: Response) -> dict[str, Any]:
    """Return the body of the answer to a client's voter change."""
    if not isinstance(message, VoterChangeResponse):
        raise FatalError(f"a client that asked for a voter change was answered {message!r}")
    return {"throttle_time_ms": 0, "error_code": message.error, "error_message": message.text}


class Calls:
    """Carries clients' requests to nodes; ``deliver`` hands an event to a node and ``token``
    makes the number by which the node answers."""

    def __init__(
        self,
        time: Timeline,
        hosts: dict[int, Host],
        deliver: Callable[[Host, Event], None],
        token: Callable[[], int],
    ) -> None:
        self._time = time
        self._hosts = hosts
        self._deliver = deliver
        self._token = token
        self.carried = False
        """Whether requests of the quorum pass through the bytes of the protocol."""
        self.on_call: list[Callable[[ClientCall], None]] = []
        """Called with each client request when it reaches a running node."""
        self._number = 0
        self._done: dict[int, Done] = {}
        self._open: dict[int, list[ClientCall]] = {i: [] for i in hosts}
        time.register("call", CLIENT, self._on_call)
        time.register("answer", CLIENT, self._on_answer)
        time.register("call-failed", CLIENT, self._on_call_failed)

    def call(
        self,
        client: int,
        host: Host,
        api: str,
        version: int,
        body: dict[str, Any],
        timeout: int,
        done: Done,
        listener: str | None = None,
    ) -> None:
        """Send a client's request; ``done`` is called once with the outcome. See ``World.call``."""
        time = self._time
        self._number += 1
        call = ClientCall(
            client,
            host.id,
            host.life,
            self._number,
            api,
            version,
            body,
            listener or host.listener,
            quorum_request(api, body),
            time.now,
        )
        self._done[call.number] = done
        if host.node is None:
            time.schedule(time.now + CLIENT_LATENCY, "call-failed", call, "refused")
            return
        self._open[host.id].append(call)
        time.schedule(time.now + CLIENT_LATENCY, "call", call)
        time.schedule(time.now + timeout, "call-failed", call, "timeout")

    def answer(self, call: ClientCall, body: dict[str, Any]) -> None:
        """Send the node's answer to the client."""
        self._time.schedule(self._time.now + CLIENT_LATENCY, "answer", call, body)

    def abandon(self, call: ClientCall) -> None:
        """Close the client's connection on behalf of the node."""
        self._time.schedule(self._time.now + CLIENT_LATENCY, "call-failed", call, "reset")

    def reset(self, host: Host) -> None:
        """End the calls to ``host``, whose process is gone."""
        for call in self._open[host.id]:
            self._time.schedule(self._time.now + CLIENT_LATENCY, "call-failed", call, "reset")

    def _on_call(self, call: ClientCall, _b: Any, _c: Any) -> None:
        host = self._hosts[call.node]
        if host.node is None or host.life != call.node_life:
            return  # The connection was reset when the process died.
        message = call.message
        if message is not None and self.carried:
            try:
                message = carried_request(call.client, call.number, message)
            except FatalError:
                # A request that a node cannot read only makes it close the connection.
                self._on_call_failed(call, "reset", None)
                return
        for told in self.on_call:
            told(call)
        token = self._token()
        host.tokens[token] = call
        self._time.fact(f"call {call.client} {call.node} {call.api} {token}")
        if message is not None:
            self._deliver(host, RequestReceived(token, message))
        else:
            request = ApiRequest(
                token, call.api, call.version, call.body, call.listener, CLIENT_HOST
            )
            self._deliver(host, request)

    def _on_answer(self, call: ClientCall, body: dict[str, Any], _c: Any) -> None:
        self._complete(call, "ok", body, None)

    def _on_call_failed(self, call: ClientCall, why: str, _c: Any) -> None:
        if why == "refused":
            self._complete(call, "refused", {}, "connection refused")
        elif why == "reset":
            self._complete(call, "lost", {}, "connection reset")
        else:
            self._complete(call, "lost", {}, "timed out")

    def _complete(
        self, call: ClientCall, status: str, body: dict[str, Any], error: str | None
    ) -> None:
        if call.done:
            return
        call.done = True
        pending = self._open[call.node]
        if call in pending:
            pending.remove(call)
        self._time.fact(f"answered {call.client} {call.number} {status}")
        self._done.pop(call.number)(status, body, error)
