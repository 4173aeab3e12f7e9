"""Services that embed a consensus core, on simulated hosts: their members and their messages.

Clients send a request as a dict and get the answer as one. Messages between members pass through
the bytes of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    ApiReply,
    ApiRequest,
    Effect,
    Event,
    FatalError,
    Message,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    SnapshotReply,
)
from kraftwreck.nodes.consensus.embedded import Embedded
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.nodes.server.wire import (
    api_of,
    request_from_body,
    request_to_body,
    response_from_body,
    response_to_body,
)
from kraftwreck.simulation.binding import Outlet
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World

_DURABLE: Final = frozenset[type](DURABLE)
Answer = dict[str, Any]


class Service(Protocol):
    """A service that embeds a core, and takes requests of clients."""

    consensus: Embedded

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        ...

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Start from the recovered state."""
        ...

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle an event of the core, or a Tick."""
        ...

    def ask(self, request: Answer, answer: Callable[[Answer], None], now: int) -> list[Effect]:
        """Handle a client's request; ``answer`` is called once, now or in a later step."""
        ...


class EmbeddedMember:
    """A member as the process of a simulated host: client requests are events, answers effects."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._answers: list[ApiReply] = []

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return self.service.deadline

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Start from the recovered state."""
        return self.service.start(now, wall_ms)

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle an event; answers leave after the durable effects of the step."""
        if isinstance(event, ApiRequest):
            token = event.token

            def answer(body: Answer) -> None:
                self._answers.append(ApiReply(token, body))

            core = self.service.consensus.core
            core.now, core.wall_ms = now, wall_ms
            effects = self.service.ask(event.body, answer, now)
        else:
            effects = self.service.step(event, now, wall_ms)
        answers, self._answers = self._answers, []
        return [*effects, *answers] if answers else effects


class EmbeddedBinding:
    """The messages of members and clients (:class:`simulation.binding.Binding`)."""

    @property
    def durable(self) -> frozenset[type]:
        """The effects that change log, snapshots and vote."""
        return _DURABLE

    def outlets(self, world: World) -> Mapping[type, Outlet]:
        """Return how answers of both kinds are sent."""
        return {ApiReply: world.wires.reply, SnapshotReply: world.wires.reply}

    def new_disk(self) -> Disk:
        """Return an empty disk."""
        return Disk()

    # --- between members --------------------------------------------------------------------

    def request(self, host: Host, effect: Send) -> Message:
        """Return a request as its receiver decodes it."""
        api = api_of(effect.message)
        version = SUPPORTED[api][1]
        body = request_to_body(effect.message, version, {})
        read, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, body))
        return request_from_body(api, version, read)

    def received(self, token: int, rpc: Rpc, sender: str) -> RequestReceived:
        """Return the event by which a member gets a request of another one."""
        return RequestReceived(token, rpc.message)

    def posted(self, source: int, message: Any) -> Any:
        """Raise FatalError: there are no one-way messages."""
        raise FatalError(f"a one-way message: {message!r}")

    def reply(self, host: Host, rpc: Rpc, effect: Reply | SnapshotReply) -> Reply:
        """Return an answer, with the piece of a snapshot that it needs."""
        if isinstance(effect, Reply):
            return effect
        asked, disk = effect.message, host.disk
        assert isinstance(disk, Disk)
        name = (asked.snapshot_end, asked.snapshot_epoch)
        piece = disk.read_snapshot(name, asked.position, effect.max_bytes)
        if piece is None:
            return Reply(effect.token, replace(asked, partition_error=SNAPSHOT_NOT_FOUND))
        return Reply(effect.token, replace(asked, data=piece))

    def answer(self, rpc: Rpc, effect: Reply) -> Message:
        """Return an answer as the member that sent the request decodes it."""
        api = api_of(rpc.message)
        version = SUPPORTED[api][1]
        body = response_to_body(effect.message, version, {}, api)
        read, _ = decode(f"{api}Response", version, encode(f"{api}Response", version, body))
        return response_from_body(api, version, read)

    def heard(self, rpc: Rpc, answer: Any) -> ResponseReceived:
        """Return the event by which a member learns the outcome of its request."""
        return ResponseReceived(rpc.named, rpc.correlation, answer)

    # --- from clients -----------------------------------------------------------------------

    def prepared(self, request: Answer) -> tuple[Answer, None]:
        """Return a client's request."""
        return dict(request), None

    def arriving(self, call: ClientCall) -> None:
        """Return no other form of a client's request."""

    def called(self, token: int, call: ClientCall, message: None) -> ApiRequest:
        """Return the event by which a member gets a client's request."""
        return ApiRequest(token, "Lock", 0, call.request)

    def call_answer(self, host: Host, call: ClientCall, effect: ApiReply) -> Answer:
        """Return the body of an answer to a client."""
        return effect.body

    def call_read(self, call: ClientCall, answer: Answer) -> Answer:
        """Return an answer as the client reads it."""
        return dict(answer)

    # --- faults on messages -----------------------------------------------------------------

    def name(self, message: Any) -> str:
        """Return the RPC of a message, or the command of a client."""
        return str(message["do"]) if isinstance(message, dict) else api_of(message)

    def copies(self, message: Any) -> bool:
        """Whether a request can arrive twice: those of members can."""
        return not isinstance(message, dict)

    def copy(self, message: Any) -> Any:
        """Return a second copy of a request."""
        return replace(message)

    def fragile(self, effect: Any) -> bool:
        """No message arrives damaged."""
        return False

    def damaged(self, host: Host, effect: Any, number: int) -> Any:
        """Return ``effect``, undamaged."""
        return effect

    def connection(self, host: Host, event: Any) -> tuple[bool, int] | None:
        """Return the connection that ``event`` came by."""
        if isinstance(event, ResponseReceived):
            return False, event.source
        if isinstance(event, RequestReceived | ApiRequest):
            return host.origin(event.token)
        return None
