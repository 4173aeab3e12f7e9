"""The binding of KRaft nodes to the simulator: quorum RPCs, requests by API name, voter changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    ApiReply,
    ApiRequest,
    ApiResponseReceived,
    FatalError,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    SendApi,
    SnapshotReply,
)
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchSnapshotResponse,
    Request,
    Response,
)
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.nodes.replication.events import FetchAnswered, OffsetsAnswered
from kraftwreck.nodes.replication.events import Request as RecordRequest
from kraftwreck.nodes.server.gathering import Gathering
from kraftwreck.simulation.binding import Outlet
from kraftwreck.simulation.calls import CLIENT_HOST
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.host import ClientCall, CoreFactory, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage, answered, sent
from kraftwreck.systems.kraft.simulated.damage import carries, damaged
from kraftwreck.systems.kraft.simulated.data_disk import MOST_STEPS
from kraftwreck.systems.kraft.simulated.data_requests import (
    RecordMessage,
    RecordOutlets,
    client_message,
    copied,
    is_for_records,
)
from kraftwreck.systems.kraft.simulated.encoding import Encoding
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.voter_requests import answer_body, quorum_request

KRAFT_FEATURE = "kraft.version"
CONTROLLER_LISTENER = "CONTROLLER"
_DURABLE = frozenset[type]((*DURABLE, *MOST_STEPS))
_OF_RECORDS: Final = frozenset[type](get_args(RecordRequest))
_FOLLOWER = 1 << 40
"""Stands for the connections of a follower to its leaders."""


def kraft_world(names: Any, factory: CoreFactory, seed: int, knobs: Knobs | None = None) -> World:
    """Return a world of KRaft nodes: see :class:`~simulation.world.World`."""
    knobs = knobs or Knobs()
    world = World(names, factory, seed, knobs, KraftBinding(knobs.wire))
    if knobs.turn:
        world.gather(knobs.turn, _OF_RECORDS, Gathering)
    return world


def disk_of(host: Host) -> Disk:
    """Return the disk of a KRaft node."""
    disk = host.disk
    assert isinstance(disk, Disk)
    return disk


def record_traffic(world: World) -> RecordOutlets:
    """Return what carries the records of a world of KRaft nodes."""
    assert isinstance(world.binding, KraftBinding)
    return world.binding.records


def left_epoch(host: Host) -> int:
    """Return the broker epoch that the previous process left after a clean shutdown, else -1."""
    return -1 if host.left is None else int(host.left.broker_epoch)


class KraftBinding:
    """The messages and effects of KRaft (:class:`~simulation.binding.Binding`).

    With ``carried`` quorum RPCs pass through the bytes of the protocol.
    """

    def __init__(self, carried: bool = False) -> None:
        self._encoding = Encoding() if carried else None

    @property
    def durable(self) -> frozenset[type]:
        """The effects that change log, snapshots, quorum state and the logs of partitions."""
        return _DURABLE

    def outlets(self, world: World) -> Mapping[type, Outlet]:
        """Return how requests by API name, and answers to them, are sent."""
        wires = world.wires
        self._world = world
        self.records = RecordOutlets(world)

        def send_api(host: Host, effect: SendApi) -> None:
            """Send a request by API name, which may be to the node itself."""
            target = wires.find(effect.destination, effect.endpoint)
            number = effect.correlation
            message = sent(effect.api, effect.body)
            named, at = effect.destination, effect.endpoint
            wires.dispatch(host, target, named, number, ~number, message, at)

        return {
            SendApi: send_api,
            ApiReply: wires.reply,
            SnapshotReply: wires.reply,
            **self.records.outlets(),
        }

    def new_disk(self) -> Disk:
        """Return an empty disk, without a data directory of its own."""
        return Disk()

    # --- between nodes ------------------------------------------------------------------

    def request(self, host: Host, effect: Send) -> Any:
        """Return a quorum request as its receiver reads it."""
        message = effect.message
        if type(message) is ApiVersionsRequest:
            return sent("ApiVersions", {}, quorum=True)
        if self._encoding is not None:
            return self._encoding.request(host.id, effect.correlation, message)
        return message

    def received(self, token: int, rpc: Rpc, sender: str) -> Any:
        """Return the event by which a node gets a request."""
        message = rpc.message
        if type(message) is RecordMessage:
            return self._record_event(rpc.destination, token, message)
        if type(message) is ApiMessage:
            return ApiRequest(token, message.api, message.version, message.body, client=sender)
        return RequestReceived(token, message)

    def posted(self, source: int, message: Any) -> Any:
        """Raise FatalError: KRaft has no one-way messages."""
        raise FatalError(f"a one-way message: {message!r}")

    def reply(self, host: Host, rpc: Rpc, effect: Any) -> Any:
        """Check and complete an answer to another node."""
        asked = rpc.message
        if type(asked) is RecordMessage:
            return effect
        if (type(effect) is ApiReply) != (type(asked) is ApiMessage):
            raise FatalError(f"a client's answer to another node: {effect!r}")
        if type(effect) is ApiReply:
            return ApiReply(effect.token, answered(asked, effect.body))
        return _with_piece(host, effect) if type(effect) is SnapshotReply else effect

    def answer(self, rpc: Rpc, effect: Any) -> Any:
        """Return an answer as the node that sent the request reads it."""
        if type(effect) is ApiReply:
            return effect.body
        if self._encoding is not None:
            return self._encoding.answer(rpc.message, rpc.correlation, effect.message)
        return effect.message

    def heard(self, rpc: Rpc, answer: Any) -> Any:
        """Return the event by which a sender learns the outcome of ``rpc``; None: no answer."""
        message = rpc.message
        if type(message) is RecordMessage:
            return self.records.followers.heard(rpc, answer)
        if type(message) is not ApiMessage:
            return ResponseReceived(rpc.named, rpc.correlation, answer)
        if not message.quorum:
            return ApiResponseReceived(rpc.named, rpc.correlation, answer)
        known = None if answer is None else _versions(answer)
        return ResponseReceived(rpc.named, rpc.correlation, known)

    # --- from clients -------------------------------------------------------------------

    def prepared(
        self, request: KafkaRequest | ApiMessage
    ) -> tuple[ApiMessage | RecordMessage, Request | None]:
        """Return a client's request as the node decodes it, and its form as a request of the quorum
        if it is a voter change.

        An :class:`ApiMessage` is passed on as it is. Raises ProtocolError.
        """
        if is_for_records(request):
            return client_message(request), None
        if isinstance(request, KafkaRequest):
            name, version = f"{request.api}Request", request.version
            body, _ = decode(name, version, encode(name, version, request.body))
            request = ApiMessage(request.api, version, body, coded=True)
        return request, quorum_request(request.api, request.body)

    def arriving(self, call: ClientCall) -> Any:
        """Return a voter change as the node reads it. Raises FatalError."""
        message = call.message
        if message is not None and self._encoding is not None:
            return self._encoding.request(call.client, call.number, message)
        return message

    def called(self, token: int, call: ClientCall, message: Any) -> Any:
        """Return the event by which a node gets a client's request."""
        if message is not None:
            return RequestReceived(token, message)
        asked = call.request
        if type(asked) is RecordMessage:
            return self._record_event(call.node, token, asked)
        listener = call.listener or CONTROLLER_LISTENER
        return ApiRequest(token, asked.api, asked.version, asked.body, listener, CLIENT_HOST)

    def call_answer(self, host: Host, call: ClientCall, effect: Any) -> dict[str, Any]:
        """Return the body of an answer to a client."""
        if isinstance(effect, ApiReply) == (call.message is not None):
            raise FatalError(f"a node's answer to a client: {effect!r}")
        if isinstance(effect, ApiReply):
            return effect.body
        if isinstance(effect, SnapshotReply):
            effect = _with_piece(host, effect)
        answer: Response = effect.message
        if self._encoding is not None and call.message is not None:
            answer = self._encoding.answer(call.message, call.number, effect.message)
        return answer_body(answer)

    def call_read(self, call: ClientCall, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the body of an answer as the client decodes it. Raises FatalError."""
        asked = call.request
        if type(asked) is RecordMessage:
            return answer
        return answered(asked, answer) if asked.coded else answer

    # --- faults on messages -------------------------------------------------------------

    def name(self, message: Any) -> str:
        """Return the API name of a request."""
        if isinstance(message, ApiMessage | RecordMessage):
            return message.api
        return type(message).__name__.removesuffix("Request")

    def copies(self, message: Any) -> bool:
        """Whether the request is one of the quorum or a follower's: the others are never sent
        twice."""
        return not isinstance(message, ApiMessage)

    def copy(self, message: Any) -> Any:
        """Return a second copy of a request."""
        if isinstance(message, RecordMessage):
            return copied(message)
        assert not isinstance(message, ApiMessage)
        return replace(message)

    def fragile(self, effect: Any) -> bool:
        """Whether an answer has record batches."""
        return type(effect) is Reply and carries(effect.message)

    def damaged(self, host: Host, effect: Reply, number: int) -> Reply:
        """Return an answer with one protected byte changed."""
        answer = effect.message
        changed = damaged(answer, number, _file_of(host, answer))
        return effect if changed is answer else Reply(effect.token, changed)

    def connection(self, host: Host, event: Any) -> tuple[bool, int] | None:
        """Return the connection that ``event`` came by: (whether from a client, number)."""
        if isinstance(event, ResponseReceived | ApiResponseReceived):
            return False, event.source
        if isinstance(event, RequestReceived | ApiRequest | RecordRequest):
            return host.origin(event.token)
        if isinstance(event, FetchAnswered | OffsetsAnswered):
            return False, _FOLLOWER + event.correlation
        return None

    def _record_event(self, node_id: int, token: int, message: RecordMessage) -> Any:
        host = self._world.hosts[node_id - 1]
        wall_ms = host.clock.wall(self._world.now) // 1000
        return self.records.event(host, token, message, wall_ms)


def _versions(body: dict[str, Any]) -> Response:
    """Return an answer to ApiVersions as the core sees it."""
    low = high = 0
    for feature in body["supported_features"]:
        if feature["name"] == KRAFT_FEATURE:
            low, high = feature["min_version"], feature["max_version"]
    return ApiVersionsResponse(body["error_code"], low, high)


def _file_of(host: Host, message: Response) -> bytes:
    """Return the snapshot that an answer to FetchSnapshot has a piece of."""
    if not isinstance(message, FetchSnapshotResponse) or not message.data:
        return b""
    name = message.snapshot_end, message.snapshot_epoch
    return disk_of(host).read_snapshot(name, 0, message.size) or b""


def _with_piece(host: Host, effect: SnapshotReply) -> Reply:
    """Put the requested bytes into the answer to a FetchSnapshot, read from the disk now."""
    message = effect.message
    name = message.snapshot_end, message.snapshot_epoch
    piece = disk_of(host).read_snapshot(name, message.position, effect.max_bytes)
    if piece is None:
        message.partition_error = SNAPSHOT_NOT_FOUND
    else:
        message.data = piece
    return Reply(effect.token, message)
