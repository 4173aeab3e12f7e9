"""The calls of clients. A client is never cut off: it runs on the control host.

A call is refused if no process runs, and lost if the process dies or the answer takes too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.timeline import CLIENT, Timeline

CLIENT_LATENCY = 300
"""Microseconds from a client to a node, or back."""

CLIENT_HOST = "control"
"""The host of clients, as nodes see it."""

Done = Callable[[str, Any, str | None], None]
"""Called with the outcome of a client's call: status (ok, refused, lost), answer, error. The answer
is None unless the status is ok."""


class Calls:
    """Carries clients' requests to nodes; ``deliver`` hands an event to a node and ``token``
    makes the number by which the node answers."""

    def __init__(
        self,
        time: Timeline,
        hosts: dict[int, Host],
        deliver: Callable[[Host, Any], None],
        token: Callable[[], int],
        binding: Binding,
    ) -> None:
        self._time = time
        self._hosts = hosts
        self._deliver = deliver
        self._token = token
        self._binding = binding
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
        request: Any,
        timeout: int,
        done: Done,
        listener: str | None = None,
    ) -> None:
        """Send a client's request; ``done`` is called once with the outcome. See ``World.call``."""
        time = self._time
        self._number += 1
        request, message = self._binding.prepared(request)
        call = ClientCall(
            client,
            host.id,
            host.life,
            self._number,
            request,
            listener or host.listener,
            message,
            time.now,
        )
        self._done[call.number] = done
        if host.node is None:
            time.schedule(time.now + CLIENT_LATENCY, "call-failed", call, "refused")
            return
        self._open[host.id].append(call)
        time.schedule(time.now + CLIENT_LATENCY, "call", call)
        time.schedule(time.now + timeout, "call-failed", call, "timeout")

    def answer(self, call: ClientCall, answer: Any) -> None:
        """Send the node's answer to the client."""
        self._time.schedule(self._time.now + CLIENT_LATENCY, "answer", call, answer)

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
        binding = self._binding
        try:
            message = binding.arriving(call)
        except FatalError:
            # A request that a node cannot read only makes it close the connection.
            self._on_call_failed(call, "reset", None)
            return
        for told in self.on_call:
            told(call)
        token = self._token()
        host.tokens[token] = call
        self._time.fact(f"call {call.client} {call.node} {binding.name(call.request)} {token}")
        self._deliver(host, binding.called(token, call, message))

    def _on_answer(self, call: ClientCall, answer: Any, _c: Any) -> None:
        self._complete(call, "ok", answer, None)

    def _on_call_failed(self, call: ClientCall, why: str, _c: Any) -> None:
        if why == "refused":
            self._complete(call, "refused", None, "connection refused")
        elif why == "reset":
            self._complete(call, "lost", None, "connection reset")
        else:
            self._complete(call, "lost", None, "timed out")

    def _complete(self, call: ClientCall, status: str, answer: Any, error: str | None) -> None:
        if call.done:
            return
        call.done = True
        pending = self._open[call.node]
        if call in pending:
            pending.remove(call)
        self._time.fact(f"answered {call.client} {call.number} {status}")
        self._done.pop(call.number)(status, answer, error)
