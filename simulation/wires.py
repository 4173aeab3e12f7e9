"""Connections between nodes: requests with answers, and one-way messages.

A request to a dead process fails fast (connection refused, or reset when it died with the
request open). A request to a process that is cut off or stopped hangs until the request timeout.
Nodes find each other by the host name of an endpoint; without an endpoint, by node id. The
:class:`~simulation.binding.Binding` knows the messages and the events by which they arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import Abandon, FatalError, Send
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.calls import Calls
from kraftwreck.simulation.disturbed import Disturbances
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.network import Network, Rpc
from kraftwreck.simulation.timeline import NET, TIMER, Timeline

NO_PROCESS: Final = -1
"""The ``life`` of the process behind a port at which none listens."""


class Wires:
    """Carries messages between ``hosts``; ``deliver`` hands an event to a node.

    ``calls`` are those of clients. ``on_send`` is called with each :class:`Send` of a node, and
    ``on_ask`` with each request that is on its way. ``on_reply`` is called with each answer to
    another node as the answering node means it, and ``on_client_reply`` with each answer to a
    client. A host's open requests are known by correlation id; a binding with requests of another
    kind keys those by its complement.
    ``flips`` is the chance, in per mille, that a message which can be damaged arrives damaged.
    """

    def __init__(
        self,
        time: Timeline,
        hosts: dict[int, Host],
        seed: int,
        knobs: WorldKnobs,
        deliver: Callable[[Host, Any], None],
        binding: Binding,
    ) -> None:
        self.network = Network(seed, knobs)
        self.disturbances = Disturbances(self.network, binding)
        self.calls = Calls(time, hosts, deliver, self._token, binding)
        self.on_send: list[Callable[[Host, Send], None]] = []
        self.on_ask: list[Callable[[Host, Rpc], None]] = []
        self.on_reply: list[Callable[[Host, Rpc, Any], None]] = []
        self.on_client_reply: list[Callable[[Host, ClientCall, Any], None]] = []
        self._time = time
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts.values()}
        self._knobs = knobs
        self._deliver = deliver
        self._binding = binding
        self._tokens = self._posts = 0
        self.flips = knobs.flip
        time.register("request", NET, self._on_request)
        time.register("response", NET, self._on_response)
        time.register("post", NET, self._on_post)
        time.register("failed", NET, self._on_failed)
        time.register("sweep", TIMER, self._on_sweep)

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    # --- requests ---------------------------------------------------------------------

    def send(self, host: Host, effect: Send) -> None:
        """Carry out a node's :class:`Send`; FatalError for a peer that does not exist."""
        for told in self.on_send:
            told(host, effect)
        target = self.find(effect.destination, effect.endpoint)
        if target is host and effect.destination == host.id:
            raise FatalError(f"a request to node {effect.destination}, which is no peer")
        message = self._binding.request(host, effect)
        number = effect.correlation
        self.dispatch(host, target, effect.destination, number, number, message, effect.endpoint)

    def find(self, destination: int, endpoint: Endpoint | None) -> Host:
        """Return the host that a message is sent to; FatalError if there is none."""
        if endpoint is not None:
            target = self._by_name.get(endpoint.host)
        else:
            target = self._hosts.get(destination)
        if target is None:
            where = f"node {destination}" if endpoint is None else str(endpoint)
            raise FatalError(f"a request to {where}, which is no peer")
        return target

    def dispatch(
        self, host: Host, target: Host, named: int, correlation: int, key: int, message: Any,
        endpoint: Endpoint | None,
    ) -> None:  # fmt: skip
        """Send a request to ``target`` at ``endpoint``; it waits as ``key``.

        The sender calls the target ``named``. A port at which no process listens refuses it.
        """
        time, network = self._time, self.network
        now, source, to = time.now, host.id, target.id
        life = host.life
        serves = target.life if _listens(target, endpoint) else NO_PROCESS
        rpc = Rpc(source, life, to, serves, named, correlation, message, now, key)
        host.requests[key] = rpc
        for told in self.on_ask:
            told(host, rpc)
        if not host.sweep:
            host.sweep = True
            time.schedule(now + self._knobs.request_timeout, "sweep", host, life)
        if (target.node is None or serves == NO_PROCESS) and network.connected(source, to):
            time.schedule(now + 2 * self._knobs.latency_min, "failed", rpc)
        elif self.disturbances.rules:
            self._travel("request", rpc, source, to)
        else:
            time.schedule(network.arrival(now, source, to), "request", rpc)

    def _travel(self, kind: str, rpc: Rpc, source: int, destination: int) -> None:
        """Send a request or an answer on its way while something is disturbed."""
        time = self._time
        fate = self.disturbances.fate(time.now, kind, rpc, source, destination)
        if fate.arrival >= 0:
            time.schedule(fate.arrival, kind, rpc)
        if fate.reset >= 0:
            self.network.reset_link(source, destination)
            time.schedule(fate.reset, "failed", rpc)
        if fate.copy >= 0:
            time.schedule(fate.copy, kind, replace(rpc, message=self._binding.copy(rpc.message)))

    def _on_request(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        host = self._hosts[rpc.destination]
        if not self.network.hears(rpc.destination, rpc.source):
            self.network.lose("request", rpc, rpc.destination)
            return
        if host.node is None or host.life != rpc.destination_life:
            if self.network.hears(rpc.source, rpc.destination):
                self._time.schedule(self._time.now + self._knobs.latency_min, "failed", rpc)
            return
        self._tokens = token = self._tokens + 1
        host.tokens[token] = rpc
        rpc.arrived = self._time.now
        self._time.fact(f"> {rpc.source} {rpc.destination} {rpc.correlation}")
        sender = self._hosts[rpc.source].name
        self._deliver(host, self._binding.received(token, rpc, sender))

    # --- one-way messages -------------------------------------------------------------------

    def post(self, host: Host, destination: int, message: Any) -> None:
        """Send a one-way message; it is lost if the other process ends before it arrives."""
        time, network = self._time, self.network
        target = self.find(destination, None)
        source, to = host.id, target.id
        self._posts += 1
        if self.flips and self._binding.fragile(message):
            message = self._flipped(host, to, self._posts, message)
        rpc = Rpc(source, host.life, to, target.life, to, self._posts, message, time.now, -1)
        if self.disturbances.rules:
            self._travel("post", rpc, source, to)
        else:
            time.schedule(network.arrival(time.now, source, to), "post", rpc)

    def _on_post(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        host = self._hosts[rpc.destination]
        if not self.network.hears(rpc.destination, rpc.source):
            self.network.lose("post", rpc, rpc.destination)
        elif host.node is not None and host.life == rpc.destination_life:
            self._time.fact(f"- {rpc.source} {rpc.destination} {rpc.correlation}")
            self._deliver(host, self._binding.posted(rpc.source, rpc.message))

    # --- answers ----------------------------------------------------------------------

    def reply(self, host: Host, effect: Any) -> None:
        """Carry out a node's answer; FatalError for a second one, or one of the wrong kind."""
        target = host.tokens.pop(effect.token, None)
        if target is None:
            raise FatalError(f"request {effect.token} was answered twice")
        binding = self._binding
        if type(target) is ClientCall:
            answer = binding.call_answer(host, target, effect)
            for asked in self.on_client_reply:
                asked(host, target, answer)
            self.calls.answer(target, binding.call_read(target, answer))
            return
        assert isinstance(target, Rpc)
        effect = binding.reply(host, target, effect)
        for told in self.on_reply:
            told(host, target, effect)
        if self.flips and binding.fragile(effect):
            effect = self._flipped(host, target.source, target.correlation, effect)
        target.answer = binding.answer(target, effect)
        if self.disturbances.rules:
            self._travel("response", target, host.id, target.source)
        else:
            arrival = self.network.arrival(self._time.now, host.id, target.source)
            self._time.schedule(arrival, "response", target)

    def _flipped(self, host: Host, receiver: int, number: int, effect: Any) -> Any:
        """Return ``effect``, sometimes with a damaged message."""
        drawn = draw(self.network.seed, "flip", host.id, receiver, number)
        if drawn % 1000 >= self.flips:
            return effect
        changed = self._binding.damaged(host, effect, drawn)
        if changed is not effect:
            self._time.fact(f"flip {host.id} {receiver} {number}")
        return changed

    def abandon(self, host: Host, effect: Abandon) -> None:
        """Close the connection to the sender of a request whose handler failed."""
        target = host.tokens.pop(effect.token)
        if isinstance(target, ClientCall):
            self.calls.abandon(target)
        else:
            arrival = self.network.arrival(self._time.now, host.id, target.source)
            self._time.schedule(arrival, "failed", target)

    def _on_response(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if not self.network.hears(rpc.source, rpc.destination):
            self.network.lose("response", rpc, rpc.source)
        elif self._close(rpc):
            self._time.fact(f"< {rpc.source} {rpc.destination} {rpc.correlation}")
            self._deliver(self._hosts[rpc.source], self._binding.heard(rpc, rpc.answer))

    def _on_failed(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if self._close(rpc):
            self._time.fact(f"x {rpc.source} {rpc.destination} {rpc.correlation}")
            self._deliver(self._hosts[rpc.source], self._binding.heard(rpc, None))

    def _close(self, rpc: Rpc) -> bool:
        """End the sender's wait for the answer to ``rpc``; return whether it still waited."""
        host = self._hosts[rpc.source]
        if host.life != rpc.source_life:
            return False
        if host.requests.get(rpc.key) is not rpc:
            return False  # It timed out: the connection is closed.
        del host.requests[rpc.key]
        return True

    def _on_sweep(self, host: Host, life: int, _c: Any) -> None:
        """Fail the requests that have waited for the request time-out.

        One event stands for all requests of a host: the timeout is the same for all, so
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

    # --- faults -----------------------------------------------------------------------

    def stop_damaging(self) -> None:
        """Deliver every byte unchanged from now on."""
        self.flips = 0

    def heal(self) -> dict[int, int]:
        """Undo all cuts; return how many messages each node dropped, by its id."""
        dropped = dict(self.network.dropped)
        now = self._time.now
        for kind, rpc in self.network.heal():
            self._time.schedule(self.network.late(now, kind, rpc), kind, rpc)
        return dropped

    def reset(self, host: Host) -> None:
        """Fail the requests to ``host``, whose process is gone, at the senders that hear it."""
        time = self._time
        for peer in self._hosts.values():
            if peer is host or not self.network.hears(peer.id, host.id):
                continue
            self.network.reset_link(peer.id, host.id)
            for rpc in peer.requests.values():
                if rpc.destination == host.id:
                    time.schedule(time.now + self._knobs.latency_min, "failed", rpc)
        self.calls.reset(host)


def _listens(host: Host, endpoint: Endpoint | None) -> bool:
    """Return whether the process of ``host`` listens at ``endpoint``."""
    return endpoint is None or host.port in (0, endpoint.port)
