"""Events and effects for cores of one's own, and the binding that carries them.

A core gets :class:`~nodes.consensus.effects.Tick`, ``RequestReceived`` (from a client),
:class:`Received` and ``Shutdown``. It returns :class:`Post`, :class:`Put`, :class:`Note`,
``Reply`` (to a client) and ``Stopped``. Cores that call each other use ``Send``, ``Reply`` and
``ResponseReceived`` instead of one-way messages.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    FatalError,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Shutdown,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.simulation.binding import Outlet
from kraftwreck.simulation.host import ClientCall, Core, Host
from kraftwreck.simulation.keyed_disk import KeyedDisk, Put
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World

__all__ = [
    "COPIED",
    "Codec",
    "Core",
    "Host",
    "Note",
    "PlainBinding",
    "Post",
    "Put",
    "Received",
    "Reply",
    "RequestReceived",
    "ResponseReceived",
    "Send",
    "Shutdown",
    "Stopped",
    "Tick",
]


@dataclass(slots=True)
class Received:
    """A one-way message of the node ``source`` arrived."""

    source: int
    message: Any


@dataclass(slots=True)
class Post:
    """Send a one-way message to the node ``destination``.

    It is lost if the other process ends before it arrives, and sometimes if a fault cuts the link.
    Messages on a healthy link arrive in order.
    """

    destination: int
    message: Any


@dataclass(slots=True)
class Note:
    """Record a transition of the core: a trace event of this ``kind``, for watches and people."""

    kind: str
    detail: dict[str, Any] = field(default_factory=dict)
    state: str = ""


@dataclass(slots=True, frozen=True)
class Codec:
    """Turns messages into what is sent, and back: a node sees what arrives over a socket."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]

    def carry(self, message: Any) -> Any:
        """Return ``message`` as its receiver reads it. Raises FatalError."""
        try:
            return self.decode(self.encode(message))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise FatalError(f"a message that cannot be read, {message!r}: {reason}") from error


def _same(message: Any) -> Any:
    return message


COPIED = Codec(copy.deepcopy, _same)
"""Messages are plain values; receivers get a copy."""

Damage = Callable[[Any, int], Any]
"""Returns a message with one part damaged, chosen by a number; the same object: it cannot be."""


class PlainBinding:
    """The :class:`~simulation.binding.Binding` of cores without needs of their own.

    Without ``damage`` no message arrives damaged.
    """

    def __init__(self, codec: Codec = COPIED, damage: Damage | None = None) -> None:
        self._codec = codec
        self._damage = damage
        self._durable = frozenset[type]((Put,))

    @property
    def durable(self) -> frozenset[type]:
        """The one durable effect."""
        return self._durable

    def outlets(self, world: World) -> Mapping[type, Outlet]:
        """Return how one-way messages and notes are carried out."""

        def post(host: Host, effect: Post) -> None:
            world.wires.post(host, effect.destination, self._codec.carry(effect.message))

        def note(host: Host, effect: Note) -> None:
            world.trace(host, Trace(effect.kind, effect.state, 0, -1, -1, 0, -1, effect.detail))

        return {Post: post, Note: note}

    def new_disk(self) -> KeyedDisk:
        """Return an empty disk."""
        return KeyedDisk()

    # --- between nodes ------------------------------------------------------------------

    def request(self, host: Host, effect: Send) -> Any:
        """Return the message of a :class:`Send` as its receiver reads it."""
        return self._codec.carry(effect.message)

    def received(self, token: int, rpc: Rpc, sender: str) -> RequestReceived:
        """Return the event by which a node gets a request of another node."""
        return RequestReceived(token, rpc.message)

    def posted(self, source: int, message: Any) -> Received:
        """Return the event by which a node gets a one-way message."""
        return Received(source, message)

    def reply(self, host: Host, rpc: Rpc, effect: Reply) -> Reply:
        """Return an answer to another node unchanged."""
        return effect

    def answer(self, rpc: Rpc, effect: Reply) -> Any:
        """Return an answer as the node that sent the request reads it."""
        return self._codec.carry(effect.message)

    def heard(self, rpc: Rpc, answer: Any) -> ResponseReceived:
        """Return the event by which a sender learns the outcome of its request."""
        return ResponseReceived(rpc.named, rpc.correlation, answer)

    # --- from clients -------------------------------------------------------------------

    def prepared(self, request: Any) -> tuple[Any, Any]:
        """Return a client's request as it arrives."""
        return self._codec.carry(request), None

    def arriving(self, call: ClientCall) -> Any:
        """Return a client's request as the node reads it."""
        return call.request

    def called(self, token: int, call: ClientCall, message: Any) -> RequestReceived:
        """Return the event by which a node gets a client's request."""
        return RequestReceived(token, message)

    def call_answer(self, host: Host, call: ClientCall, effect: Reply) -> Any:
        """Return the answer of a node to a client."""
        return effect.message

    def call_read(self, call: ClientCall, answer: Any) -> Any:
        """Return an answer as the client reads it."""
        return self._codec.carry(answer)

    # --- faults on messages ---------------------------------------------------------------

    def name(self, message: Any) -> str:
        """Return the name of the message's type."""
        return type(message).__name__

    def copies(self, message: Any) -> bool:
        """Any message may arrive twice."""
        return True

    def copy(self, message: Any) -> Any:
        """Return a second copy of a message."""
        return copy.deepcopy(message)

    def fragile(self, effect: Any) -> bool:
        """Whether the core says how its messages are damaged."""
        return self._damage is not None

    def damaged(self, host: Host, effect: Any, number: int) -> Any:
        """Return an answer or a one-way message with one part damaged."""
        assert self._damage is not None
        if type(effect) is not Reply:
            return self._damage(effect, number)
        changed = self._damage(effect.message, number)
        return effect if changed is effect.message else Reply(effect.token, changed)

    def connection(self, host: Host, event: Any) -> tuple[bool, int] | None:
        """Return the connection that ``event`` came by."""
        if isinstance(event, Received | ResponseReceived):
            return False, event.source
        if isinstance(event, RequestReceived):
            return host.origin(event.token)
        return None
