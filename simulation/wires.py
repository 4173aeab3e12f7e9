"""Connections: quorum RPCs between nodes, and the calls of clients.

A request to a dead process fails fast (connection refused, or reset when it died with the
request open); one to a process that is cut off or stopped hangs until the request time-out.
A client is never cut off, so its call is refused only where no process runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodes.consensus.effects import (
    ApiReply,
    ApiRequest,
    Event,
    FatalError,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
)
from simulation.host import ClientCall, Host
from simulation.knobs import Knobs
from simulation.network import Network, Rpc
from simulation.timeline import CLIENT, NET, TIMER, Timeline

CLIENT_LATENCY = 300
"""Microseconds from a client to a node, or back."""

Done = Callable[[str, dict[str, Any], str | None], None]
"""Told how a client's call ended: status (ok, refused, lost), body, error."""


class Wires:
    """Carries messages between ``hosts``; ``deliver`` hands an event to a node.

    ``on_reply`` is told of each answer a node gives to a quorum request.
    """

    def __init__(
        self,
        time: Timeline,
        hosts: dict[int, Host],
        seed: int,
        knobs: Knobs,
        deliver: Callable[[Host, Event], None],
    ) -> None:
        self.network = Network(seed, knobs)
        self.on_reply: list[Callable[[Host, Rpc, Reply], None]] = []
        self._time = time
        self._hosts = hosts
        self._knobs = knobs
        self._deliver = deliver
        self._tokens = 0
        self._calls = 0
        self._done: dict[int, Done] = {}
        self._open: dict[int, list[ClientCall]] = {i: [] for i in hosts}
        time.register("request", NET, self._on_request)
        time.register("response", NET, self._on_response)
        time.register("failed", NET, self._on_failed)
        time.register("sweep", TIMER, self._on_sweep)
        time.register("call", CLIENT, self._on_call)
        time.register("answer", CLIENT, self._on_answer)
        time.register("call-failed", CLIENT, self._on_call_failed)

    # --- between nodes ----------------------------------------------------------------

    def send(self, host: Host, effect: Send) -> None:
        """Carry out a node's :class:`Send`; FatalError for a peer that does not exist."""
        time, target = self._time, self._hosts.get(effect.destination)
        if target is None or target is host:
            raise FatalError(f"a request to node {effect.destination}, which is no peer")
        rpc = Rpc(
            host.id,
            host.life,
            target.id,
            target.life,
            effect.correlation,
            effect.message,
            time.now,
        )
        host.requests[effect.correlation] = rpc
        if not host.sweep:
            host.sweep = True
            expiry = time.now + self._knobs.request_timeout
            time.schedule(expiry, "sweep", host, host.life)
        if target.node is None and self.network.connected(host.id, target.id):
            time.schedule(time.now + 2 * self._knobs.latency_min, "failed", rpc)
            return
        time.schedule(self.network.arrival(time.now, host.id, target.id), "request", rpc)

    def _on_request(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        host = self._hosts[rpc.destination]
        if not self.network.hears(rpc.destination, rpc.source):
            self.network.lose("request", rpc, rpc.destination)
            return
        if host.node is None or host.life != rpc.destination_life:
            if self.network.hears(rpc.source, rpc.destination):
                self._time.schedule(self._time.now + self._knobs.latency_min, "failed", rpc)
            return
        self._tokens += 1
        host.tokens[self._tokens] = rpc
        self._time.fact(f"> {rpc.source} {rpc.destination} {rpc.correlation}")
        self._deliver(host, RequestReceived(self._tokens, rpc.message))

    def _on_response(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if not self.network.hears(rpc.source, rpc.destination):
            self.network.lose("response", rpc, rpc.source)
        elif self._close(rpc):
            self._time.fact(f"< {rpc.source} {rpc.destination} {rpc.correlation}")
            answer = ResponseReceived(rpc.destination, rpc.correlation, rpc.answer)
            self._deliver(self._hosts[rpc.source], answer)

    def _on_failed(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if self._close(rpc):
            self._time.fact(f"x {rpc.source} {rpc.destination} {rpc.correlation}")
            failure = ResponseReceived(rpc.destination, rpc.correlation, None)
            self._deliver(self._hosts[rpc.source], failure)

    def _close(self, rpc: Rpc) -> bool:
        """Whether the sender still waits for the answer to ``rpc``; it does no longer."""
        host = self._hosts[rpc.source]
        if host.life != rpc.source_life:
            return False
        if host.requests.get(rpc.correlation) is not rpc:
            return False  # It timed out: the connection is closed.
        del host.requests[rpc.correlation]
        return True

    def _on_sweep(self, host: Host, life: int, _c: Any) -> None:
        """Fail the requests that have waited for the request time-out.

        One event stands for all requests of a host: the time-out is the same for all, so
        the oldest is always the first to expire.
        """
        if host.life != life:
            return
        host.sweep = False
        timeout = self._knobs.request_timeout
        expired = []
        for rpc in host.requests.values():
            if rpc.sent > self._time.now - timeout:
                host.sweep = True
                self._time.schedule(rpc.sent + timeout, "sweep", host, life)
                break
            expired.append(rpc)
        for rpc in expired:
            self.network.reset_link(rpc.source, rpc.destination)
            self._on_failed(rpc, None, None)

    def reply(self, host: Host, effect: Reply | ApiReply) -> None:
        """Carry out a node's answer; FatalError when it was given before."""
        target = host.tokens.pop(effect.token, None)
        if target is None:
            raise FatalError(f"request {effect.token} was answered twice")
        if isinstance(target, Rpc):
            if not isinstance(effect, Reply):
                raise FatalError(f"a client's answer to another node: {effect!r}")
            for told in self.on_reply:
                told(host, target, effect)
            target.answer = effect.message
            arrival = self.network.arrival(self._time.now, host.id, target.source)
            self._time.schedule(arrival, "response", target)
        else:
            if not isinstance(effect, ApiReply):
                raise FatalError(f"a node's answer to a client: {effect!r}")
            self._time.schedule(self._time.now + CLIENT_LATENCY, "answer", target, effect.body)

    def origin(self, host: Host, token: int) -> tuple[bool, int]:
        """Return who asked with ``token``: (whether a client, number of client or node)."""
        asked = host.tokens[token]
        if isinstance(asked, Rpc):
            return False, asked.source
        return True, asked.client

    def heal(self) -> dict[int, int]:
        """Undo all cuts; return how many messages each node dropped, by its id."""
        dropped = dict(self.network.dropped)
        now = self._time.now
        for kind, rpc in self.network.heal():
            self._time.schedule(self.network.late(now, kind, rpc), kind, rpc)
        return dropped

    def reset(self, host: Host) -> None:
        """The process of ``host`` is gone: whoever waits for it and hears it is told."""
        time = self._time
        for peer in self._hosts.values():
            if peer is host or not self.network.hears(peer.id, host.id):
                continue
            self.network.reset_link(peer.id, host.id)
            for rpc in peer.requests.values():
                if rpc.destination == host.id:
                    time.schedule(time.now + self._knobs.latency_min, "failed", rpc)
        for call in self._open[host.id]:
            time.schedule(time.now + CLIENT_LATENCY, "call-failed", call, "reset")

    # --- clients ----------------------------------------------------------------------

    def call(
        self,
        client: int,
        host: Host,
        api: str,
        version: int,
        body: dict[str, Any],
        timeout: int,
        done: Done,
    ) -> None:
        """Send a client's request; ``done`` is told the outcome once. See ``World.call``."""
        time = self._time
        self._calls += 1
        call = ClientCall(client, host.id, host.life, self._calls, api, version, body)
        self._done[call.number] = done
        if host.node is None:
            time.schedule(time.now + CLIENT_LATENCY, "call-failed", call, "refused")
            return
        self._open[host.id].append(call)
        time.schedule(time.now + CLIENT_LATENCY, "call", call)
        time.schedule(time.now + timeout, "call-failed", call, "timeout")

    def _on_call(self, call: ClientCall, _b: Any, _c: Any) -> None:
        host = self._hosts[call.node]
        if host.node is None or host.life != call.node_life:
            return  # The connection was reset when the process died.
        self._tokens += 1
        host.tokens[self._tokens] = call
        self._time.fact(f"call {call.client} {call.node} {call.api} {self._tokens}")
        self._deliver(host, ApiRequest(self._tokens, call.api, call.version, call.body))

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
