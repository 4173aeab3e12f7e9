"""Requests for records in the simulator: those of clients, and those of brokers to their leaders.

They travel as the bytes of Kafka's protocol. The code of real brokers reads and answers them
(``nodes.server.record_requests``). A broker takes its followers' requests like those of clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard, cast

from kraftwreck.nodes.consensus.effects import Abandon, ApiReply, FatalError, Tick
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.protocol.apis import decode_response
from kraftwreck.nodes.protocol.codec import ProtocolError, encode
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.server.record_requests import (
    HANDLED,
    Call,
    ImageTopics,
    RecordRequests,
    answered_early,
)
from kraftwreck.nodes.server.replica_fetches import ReplicaFetches
from kraftwreck.nodes.server.replica_link import Done, Make, ReplicaLink
from kraftwreck.simulation.binding import Outlet
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk

NOBODY: Final = -1
REFUSED_US: Final = 1_000
"""How long a refused connection takes."""
_KEYS: Final = 1 << 48
"""A follower has one request in flight for each leader; it waits under the leader's host id above
this (see ``Wires``)."""


@dataclass(slots=True, eq=False)
class RecordMessage:
    """A request for records: ``frame`` is its body. ``done`` gets the answer to a broker's request.
    ``call`` is the request as its receiver has read it. ``is_copy``: the network has sent it twice,
    and this is the second one."""

    api: str
    version: int
    frame: bytes
    timeout_ms: int = 0
    done: Done | None = None
    call: Call | None = None
    is_copy: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The part of the body that watches read."""
        return {"timeout_ms": self.timeout_ms}


def is_for_records(request: Any) -> TypeGuard[KafkaRequest]:
    """Whether a client's request is one of this module."""
    return isinstance(request, KafkaRequest) and request.api in HANDLED


def client_message(request: KafkaRequest) -> RecordMessage:
    """Return a client's request as it arrives. Raises ProtocolError."""
    frame = encode(f"{request.api}Request", request.version, request.body)
    waits = max(request.body.get("timeout_ms", 0), request.body.get("max_wait_ms", 0))
    return RecordMessage(request.api, request.version, frame, waits)


class SimulatedLink:
    """The connection of a follower to one leader (:class:`~nodes.server.replica_link.ReplicaLink`):
    each request is a message of the simulated network."""

    def __init__(self, world: Any, host: Host, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._world = world
        self._host = host
        self._count = 0

    def call(self, api: str, most: int, make: Make, done: Done, timeout_s: float) -> None:
        """Send a request at version ``most``; ``done`` gets its answer, None on a failure.

        The time-out is that of all requests of the simulated network.
        """
        wires, host = self._world.wires, self._host
        target = wires.find(NOBODY, self.endpoint)
        message = RecordMessage(api, most, make(most), done=done)
        self._count += 1
        key = _KEYS + target.id
        wires.dispatch(host, target, target.id, self._count, key, message, self.endpoint)

    def close(self) -> None:
        """Do nothing: a request in flight stays in flight."""


class DeadLink:
    """A connection to an address where nobody listens: each request fails."""

    def __init__(self, endpoint: Endpoint, refuse: Callable[[Done], None]) -> None:
        self.endpoint = endpoint
        self._refuse = refuse

    def call(self, api: str, most: int, make: Make, done: Done, timeout_s: float) -> None:
        """Fail the request, as a refused connection does."""
        self._refuse(done)

    def close(self) -> None:
        """Do nothing: nothing was opened."""


class Followers:
    """The fetches of all brokers as followers, by process.

    ``on_fetch`` is called with each fetch before it leaves a broker.
    """

    def __init__(self, world: Any) -> None:
        self.on_fetch: list[Callable[[Host, out.FetchFrom], None]] = []
        self._world = world
        self._fetches: dict[int, tuple[int, _Fetches]] = {}

    def send(self, host: Host, effect: out.FetchFrom | out.AskOffsets) -> None:
        """Start a request of the broker on ``host``."""
        if isinstance(effect, out.FetchFrom):
            for told in self.on_fetch:
                told(host, effect)
        life, fetches = self._fetches.get(host.id, (-1, None))
        if fetches is None or life != host.life:
            fetches = _Fetches(self._world, host)
            self._fetches[host.id] = host.life, fetches
        fetches.send(effect)

    def heard(self, rpc: Rpc, answer: dict[str, Any] | None) -> Any:
        """Return the event by which the core gets the answer; None: the request failed.

        A Tick stands for an answer after which the follower asks for more.
        """
        _, fetches = self._fetches[rpc.source]
        rpc.message.done(answer)
        return fetches.events.pop() if fetches.events else Tick()


class _Fetches(ReplicaFetches):
    """The fetches of one process; ``events`` are those for its core."""

    def __init__(self, world: Any, host: Host) -> None:
        self.events: list[Any] = []
        self._world, self._host = world, host
        topics = ImageTopics(lambda: _image(host))
        nowhere = Endpoint("", 0)
        disk = host.disk
        assert isinstance(disk, DataDisk)
        full = disk.logs.full
        super().__init__(host.id, nowhere, topics, 0, self.events.append, self._later, full)

    def connect(self, endpoint: Endpoint) -> ReplicaLink:
        """Return a connection through the simulated network."""
        try:
            self._world.wires.find(NOBODY, endpoint)
        except FatalError:
            return cast(ReplicaLink, DeadLink(endpoint, self._refused))
        return cast(ReplicaLink, SimulatedLink(self._world, self._host, endpoint))

    def _refused(self, done: Done) -> None:
        """Fail a request to a leader that does not exist, such as a broker that a client plays."""
        world, host, life = self._world, self._host, self._host.life

        def fail() -> None:
            if host.life == life and host.node is not None:
                done(None)
                world.deliver(host, self.events.pop() if self.events else Tick())

        world.at(world.now + REFUSED_US, fail, f"refused {host.id}")

    def _later(self, _submit: Any, event: Any) -> None:
        """Fail a request to a leader whose address is not known."""
        world, host, life = self._world, self._host, self._host.life

        def fail() -> None:
            if host.life == life and host.node is not None:
                world.deliver(host, event)

        world.at(world.now + 1, fail, f"unknown leader {host.id}")


def _image(host: Host) -> ImageView:
    node: Any = host.node
    stable: ImageView = node.image.stable
    return stable


class RecordOutlets:
    """Carries out the effects of data planes that leave a broker.

    ``on_request`` is called with each request when a broker has read it, ``on_answer`` with each
    answer before it leaves: host, request, the effect of the core, and the body. ``on_silence`` is
    called with each request that gets no answer: host, request, whether its connection is closed.
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self.followers = Followers(world)
        self.on_request: list[Callable[[Host, RecordMessage], None]] = []
        self.on_answer: list[Callable[[Host, RecordMessage, Any, dict[str, Any]], None]] = []
        self.on_silence: list[Callable[[Host, RecordMessage, bool], None]] = []

    def outlets(self) -> dict[type, Outlet]:
        """Return how each effect is carried out, by its type."""
        answers = dict[type, Outlet].fromkeys(
            (
                out.ReplyProduce,
                out.ReplyFetch,
                out.ReplyListOffsets,
                out.ReplyEpochEnds,
                out.ReplyDeleteRecords,
            ),
            self._answer,
        )
        send = self.followers.send
        return {**answers, out.Silent: self._silent, out.FetchFrom: send, out.AskOffsets: send}

    def event(self, host: Host, token: int, message: RecordMessage, wall_ms: int) -> come.Request:
        """Return the event by which the broker of ``host`` gets ``message``. Raises FatalError."""
        try:
            call = requests_of(host).read(
                message.api, message.version, message.frame, 0, token=token, wall_ms=wall_ms
            )
        except ProtocolError as error:
            raise FatalError(f"a request that cannot be read, {message.api}: {error}") from error
        message.call = call
        for told in self.on_request:
            told(host, message)
        return call.event if call.event is not None else _empty(call, token)

    def _answer(self, host: Host, effect: Any) -> None:
        message = _message(host, effect.token)
        assert message.call is not None
        api, version = message.api, message.version
        try:
            pieces = requests_of(host).frame(api, version, 0, message.call, effect)
        except (OSError, BatchError):  # A part of a log that cannot be read concerns its readers.
            self._world.wires.abandon(host, Abandon(effect.token))
            return
        frame = b"".join(cast("list[bytes]", pieces))
        try:
            _, body = decode_response(api, version, frame)
        except ProtocolError as error:
            raise FatalError(f"an answer that cannot be read, {api}: {error}") from error
        for told in self.on_answer:
            told(host, message, effect, body)
        self._world.wires.reply(host, ApiReply(effect.token, body))

    def _silent(self, host: Host, effect: out.Silent) -> None:
        message = _message(host, effect.token)
        assert message.call is not None
        closes = requests_of(host).closes(message.call, effect)
        for told in self.on_silence:
            told(host, message, closes)
        if closes:
            self._world.wires.abandon(host, Abandon(effect.token))
        else:
            self._world.wires.calls.answer(host.tokens.pop(effect.token), None)


def _empty(call: Call, token: int) -> come.Request:
    """Return an event for a request with nothing for the node, which answers in its order."""
    early = answered_early(call)
    if isinstance(early, out.ReplyListOffsets):
        return come.ListOffsetsReceived(token, ())
    if isinstance(early, out.ReplyEpochEnds):
        return come.EpochEndsReceived(token, ())
    if isinstance(early, out.ReplyDeleteRecords):
        return come.DeleteRecordsReceived(token, 0, ())
    return come.ProduceReceived(token, getattr(call, "acks", -1), 0, ())


def requests_of(host: Host) -> RecordRequests:
    """Return what reads and answers the requests of the broker on ``host``."""
    disk = host.disk
    assert isinstance(disk, DataDisk)
    return RecordRequests(ImageTopics(lambda: _image(host)), disk.logs)


def copied(message: RecordMessage) -> RecordMessage:
    """Return a second copy of a request."""
    return replace(message, call=None, is_copy=True)


def _message(host: Host, token: int) -> RecordMessage:
    target = host.tokens.get(token)
    if isinstance(target, ClientCall):
        message = target.request
    elif target is not None:
        message = target.message
    else:
        raise FatalError(f"request {token} was answered twice")
    if not isinstance(message, RecordMessage):
        raise FatalError(f"the data plane answers {message!r}")
    return message
