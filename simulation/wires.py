"""Connections between nodes: the RPCs of the quorum, and brokers' requests to controllers.

A request to a dead process fails fast (connection refused, or reset when it died with the
request open). A request to a process that is cut off or stopped hangs until the request timeout.
Nodes find each other by the host name of an endpoint; without an endpoint, by node id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiReply,
    ApiRequest,
    ApiResponseReceived,
    Event,
    FatalError,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    SendApi,
    SnapshotReply,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchSnapshotResponse,
    QuorumResponse,
    Response,
)
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.simulation.calls import Calls, answer_body
from kraftwreck.simulation.damage import carries, damaged
from kraftwreck.simulation.disturbed import Disturbances, copy_of
from kraftwreck.simulation.encoding import carried_answer, carried_request
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.knobs import Knobs
from kraftwreck.simulation.network import ApiMessage, Network, Rpc
from kraftwreck.simulation.timeline import NET, TIMER, Timeline

KRAFT_FEATURE = "kraft.version"


class Wires:
    """Carries messages between ``hosts``; ``deliver`` hands an event to a node.

    ``calls`` are those of clients. ``on_send`` is called with each quorum request of a node, and
    ``on_reply`` with each answer to a quorum request of another node. ``on_api_reply`` is called
    with each answer to another request of a node, ``on_client_reply`` with each to a client's. A
    host's open requests are known by correlation id, requests outside of the quorum protocol by its
    complement. ``flips`` is the chance, in per mille, that an answer with records arrives with a
    damaged byte.
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
        self.disturbances = Disturbances(self.network)
        self.calls = Calls(time, hosts, deliver, self._token)
        self.on_send: list[Callable[[Host, Send], None]] = []
        self.on_reply: list[Callable[[Host, Rpc, Reply], None]] = []
        self.on_api_reply: list[Callable[[Host, Rpc, dict[str, Any]], None]] = []
        self.on_client_reply: list[Callable[[Host, ClientCall, dict[str, Any]], None]] = []
        self._time = time
        self._hosts = hosts
        self._by_name = {host.name: host for host in hosts.values()}
        self._knobs = knobs
        self._deliver = deliver
        self._tokens = 0
        self._carried = self.calls.carried = knobs.wire
        self.flips = knobs.flip
        time.register("request", NET, self._on_request)
        time.register("response", NET, self._on_response)
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
        target = self._find(effect.destination, effect.endpoint)
        if target is host and effect.destination == host.id:
            raise FatalError(f"a request to node {effect.destination}, which is no peer")
        message = effect.message
        if type(message) is ApiVersionsRequest:
            asked = _api_message("ApiVersions", {}, quorum=True)
            self._send(host, target, effect.destination, effect.correlation, asked)
        else:
            if self._carried:
                message = carried_request(host.id, effect.correlation, message)
            self._send(host, target, effect.destination, effect.correlation, message)

    def send_api(self, host: Host, effect: SendApi) -> None:
        """Carry out a node's :class:`SendApi`, which may be to itself."""
        target = self._find(effect.destination, effect.endpoint)
        message = _api_message(effect.api, effect.body)
        self._send(host, target, effect.destination, effect.correlation, message)

    def _find(self, destination: int, endpoint: Endpoint | None) -> Host:
        if endpoint is not None:
            target = self._by_name.get(endpoint.host)
        else:
            target = self._hosts.get(destination)
        if target is None:
            where = f"node {destination}" if endpoint is None else str(endpoint)
            raise FatalError(f"a request to {where}, which is no peer")
        return target

    def _send(self, host: Host, target: Host, named: int, correlation: int, message: Any) -> None:
        time, network = self._time, self.network
        now, source, to = time.now, host.id, target.id
        key = correlation
        if type(message) is ApiMessage and not message.quorum:
            key = ~correlation
        life = host.life
        rpc = Rpc(source, life, to, target.life, named, correlation, message, now, key)
        host.requests[key] = rpc
        if not host.sweep:
            host.sweep = True
            time.schedule(now + self._knobs.request_timeout, "sweep", host, life)
        if target.node is None and network.connected(source, to):
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
            time.schedule(fate.copy, kind, copy_of(rpc))

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
        message = rpc.message
        if type(message) is ApiMessage:
            sender = self._hosts[rpc.source].name
            asked = ApiRequest(token, message.api, message.version, message.body, client=sender)
            self._deliver(host, asked)
        else:
            assert not isinstance(message, ApiMessage)
            self._deliver(host, RequestReceived(token, message))

    # --- answers ----------------------------------------------------------------------

    def reply(self, host: Host, effect: Reply | SnapshotReply | ApiReply) -> None:
        """Carry out a node's answer; FatalError for a second one, or one of the wrong kind."""
        target = host.tokens.pop(effect.token, None)
        if target is None:
            raise FatalError(f"request {effect.token} was answered twice")
        if type(target) is ClientCall:
            self._reply_to_client(host, target, effect)
            return
        assert isinstance(target, Rpc)
        asked = target.message
        if type(effect) is ApiReply:
            if type(asked) is not ApiMessage:
                raise FatalError(f"a client's answer to another node: {effect!r}")
            target.answer = body = _api_answer(asked, effect.body)
            for heard in self.on_api_reply:
                heard(host, target, body)
        else:
            if type(asked) is ApiMessage:
                raise FatalError(f"a client's answer to another node: {effect!r}")
            if type(effect) is SnapshotReply:
                effect = _with_piece(host, effect)
            assert isinstance(effect, Reply)
            for told in self.on_reply:
                told(host, target, effect)
            target.answer = effect.message
            if self._carried or self.flips:
                self._carry_answer(host, target, effect.message)
        if self.disturbances.rules:
            self._travel("response", target, host.id, target.source)
        else:
            arrival = self.network.arrival(self._time.now, host.id, target.source)
            self._time.schedule(arrival, "response", target)

    def abandon(self, host: Host, effect: Abandon) -> None:
        """Close the connection to the sender of a request whose handler failed."""
        target = host.tokens.pop(effect.token)
        if isinstance(target, ClientCall):
            self.calls.abandon(target)
        else:
            arrival = self.network.arrival(self._time.now, host.id, target.source)
            self._time.schedule(arrival, "failed", target)

    def _reply_to_client(
        self, host: Host, call: ClientCall, effect: Reply | SnapshotReply | ApiReply
    ) -> None:
        if isinstance(effect, ApiReply) == (call.message is not None):
            raise FatalError(f"a node's answer to a client: {effect!r}")
        if isinstance(effect, SnapshotReply):
            effect = _with_piece(host, effect)
        if isinstance(effect, ApiReply):
            body = effect.body
        else:
            answer: Response = effect.message
            if self._carried and call.message is not None:
                answer = carried_answer(call.message, call.number, effect.message)
            body = answer_body(answer)
        for asked in self.on_client_reply:
            asked(host, call, body)
        self.calls.answer(call, body)

    def _carry_answer(self, host: Host, rpc: Rpc, message: QuorumResponse) -> None:
        """Put an answer into ``rpc`` as the other end decodes it."""
        answer: Response = message
        if self.flips and carries(answer):
            number = draw(self.network.seed, "flip", host.id, rpc.source, rpc.correlation)
            if number % 1000 < self.flips:
                answer = damaged(answer, number, _file_of(host, message))
                if answer is not message:
                    self._time.fact(f"flip {host.id} {rpc.source} {rpc.correlation}")
        if self._carried:
            assert not isinstance(rpc.message, ApiMessage)
            assert not isinstance(answer, ApiVersionsResponse)
            answer = carried_answer(rpc.message, rpc.correlation, answer)
        rpc.answer = answer

    def _on_response(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if not self.network.hears(rpc.source, rpc.destination):
            self.network.lose("response", rpc, rpc.source)
        elif self._close(rpc):
            self._time.fact(f"< {rpc.source} {rpc.destination} {rpc.correlation}")
            self._deliver(self._hosts[rpc.source], _heard(rpc, rpc.answer))

    def _on_failed(self, rpc: Rpc, _b: Any, _c: Any) -> None:
        if self._close(rpc):
            self._time.fact(f"x {rpc.source} {rpc.destination} {rpc.correlation}")
            self._deliver(self._hosts[rpc.source], _heard(rpc, None))

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

    def origin(self, host: Host, token: int) -> tuple[bool, int]:
        """Return the sender of the request ``token``: (whether a client, number of it)."""
        asked = host.tokens[token]
        if isinstance(asked, Rpc):
            return False, asked.source
        return True, asked.client

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


def _heard(rpc: Rpc, answer: Any) -> Event:
    """Return the event by which a sender learns the outcome of ``rpc``; None: no answer."""
    message = rpc.message
    if type(message) is not ApiMessage:
        return ResponseReceived(rpc.named, rpc.correlation, answer)
    if not message.quorum:
        return ApiResponseReceived(rpc.named, rpc.correlation, answer)
    known = None if answer is None else _versions(answer)
    return ResponseReceived(rpc.named, rpc.correlation, known)


def _versions(body: dict[str, Any]) -> Response:
    """Return an answer to ApiVersions as the core sees it."""
    low = high = 0
    for feature in body["supported_features"]:
        if feature["name"] == KRAFT_FEATURE:
            low, high = feature["min_version"], feature["max_version"]
    return ApiVersionsResponse(body["error_code"], low, high)


def _file_of(host: Host, message: QuorumResponse) -> bytes:
    """Return the snapshot that an answer to FetchSnapshot has a piece of."""
    if not isinstance(message, FetchSnapshotResponse) or not message.data:
        return b""
    name = message.snapshot_end, message.snapshot_epoch
    return host.disk.read_snapshot(name, 0, message.size) or b""


def _with_piece(host: Host, effect: SnapshotReply) -> Reply:
    """Put the requested bytes into the answer to a FetchSnapshot, read from the disk now."""
    message = effect.message
    name = message.snapshot_end, message.snapshot_epoch
    piece = host.disk.read_snapshot(name, message.position, effect.max_bytes)
    if piece is None:
        message.partition_error = SNAPSHOT_NOT_FOUND
    else:
        message.data = piece
    return Reply(effect.token, message)


def _api_message(api: str, body: dict[str, Any], *, quorum: bool = False) -> ApiMessage:
    """Return a request as the other end decodes it.

    It is sent at the highest version, which all nodes here know.
    """
    try:
        version = SUPPORTED[api][1]
        request = f"{api}Request"
        sent, _ = decode(request, version, encode(request, version, body))
    except (KeyError, ProtocolError) as error:
        raise FatalError(f"a request that cannot be sent, {api}: {error}") from error
    return ApiMessage(api, version, sent, quorum)


def _api_answer(message: ApiMessage, body: dict[str, Any]) -> dict[str, Any]:
    try:
        response = f"{message.api}Response"
        return decode(response, message.version, encode(response, message.version, body))[0]
    except ProtocolError as error:
        raise FatalError(f"an answer that cannot be sent, {message.api}: {error}") from error
