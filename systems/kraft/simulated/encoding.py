"""Quorum RPCs through the bytes of Kafka's protocol and back, as real nodes exchange them.

Both directions of both messages use the code of ``nodes.server``, at the highest version, which
all nodes here know. A node gets the decoded message. If a message cannot be written or read, or is
read otherwise than it was, its sender fails, because no healthy node ever sends one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError, Message
from kraftwreck.nodes.consensus.kraft.messages import VoterChangeResponse
from kraftwreck.nodes.protocol.apis import (
    NAMES,
    SUPPORTED,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, decode
from kraftwreck.nodes.server.wire import (
    ShapeError,
    api_of,
    request_from_body,
    request_to_body,
    response_from_body,
    response_to_body,
)

_CORRELATION_MASK = 2**31 - 1
_REMEMBERED = 256
_SHOWN = 60
_VALUES: dict[type[Message], Callable[[Message], Any]] = {}
"""By class of messages, the function that returns all fields of one; each class has several."""
_BAD = (ProtocolError, ShapeError, KeyError, TypeError, ValueError, AttributeError)


class Encoding:
    """Carries the quorum RPCs of one run.

    How a message is read depends on its fields only, and quorums repeat themselves: fetches without
    news, the same batch for each follower. So an equal message soon after is not written again.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[Any, ...], tuple[type[Message], tuple[Any, ...]]] = {}

    def request(self, sender: int, correlation: int, message: Message) -> Message:
        """Return ``message`` as its receiver reads it. Raises FatalError."""
        key = (type(message), _fields_of(message))
        return self._known(key) or self._remember(
            key, carried_request(sender, correlation, message)
        )

    def answer(self, request: Message, correlation: int, message: Message) -> Message:
        """Return the answer to ``request`` as the node that sent it reads it. Raises FatalError."""
        key = (type(request), type(message), _fields_of(message))
        return self._known(key) or self._remember(
            key, carried_answer(request, correlation, message)
        )

    def _known(self, key: tuple[Any, ...]) -> Message | None:
        try:
            known = self._read.get(key)
        except TypeError:  # A field that cannot be a key.
            return None
        return None if known is None else known[0](*known[1])

    def _remember(self, key: tuple[Any, ...], read: Message) -> Message:
        with suppress(TypeError):
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            self._read[key] = type(read), _fields_of(read)
        return read


def _fields_of(message: Message) -> tuple[Any, ...]:
    kind = type(message)
    values = _VALUES.get(kind)
    if values is None:
        values = _VALUES[kind] = attrgetter(*(field.name for field in fields(kind)))
    found: tuple[Any, ...] = values(message)
    return found


def carried_request(sender: int, correlation: int, message: Message) -> Message:
    """Return ``message`` as its receiver reads it. Raises FatalError."""
    api = api_of(message)
    try:
        version = SUPPORTED[api][1]
        body = request_to_body(message, version, {})
        frame = encode_request(
            api, version, correlation & _CORRELATION_MASK, f"node-{sender}", body
        )
        key, version, received, _, start = decode_request_header(frame)
        if received != correlation & _CORRELATION_MASK:
            raise ProtocolError(f"request {correlation} arrives as {received}")
        read, _ = decode(f"{NAMES[key]}Request", version, frame, start)
        return _same(message, request_from_body(NAMES[key], version, read))
    except _BAD as error:
        raise FatalError(f"a request that cannot be read, {api}: {error!r}") from error


def carried_answer(request: Message, correlation: int, message: Message) -> Message:
    """Return the answer to ``request`` as the node that sent it reads it. Raises FatalError."""
    api = api_of(request)
    try:
        version = SUPPORTED[api][1]
        body = response_to_body(message, version, {}, api)
        frame = encode_response(api, version, correlation & _CORRELATION_MASK, body)
        received, read = decode_response(api, version, frame)
        if received != correlation & _CORRELATION_MASK:
            raise ProtocolError(f"the answer to {correlation} is one to {received}")
        return _same(message, response_from_body(api, version, read))
    except _BAD as error:
        raise FatalError(f"an answer that cannot be read, {api}: {error!r}") from error


def _same(written: Message, read: Message) -> Message:
    """Return the message that was read. Raises ProtocolError if it is another one.

    Answers to changes of voters differ by API in the fields that they have room for.
    """
    if read == written or isinstance(written, VoterChangeResponse):
        return read
    for field in fields(written):
        before, after = getattr(written, field.name), getattr(read, field.name)
        if before != after:
            before, after = repr(before)[:_SHOWN], repr(after)[:_SHOWN]
            raise ProtocolError(f"{field.name} {before} arrives as {after}")
    raise ProtocolError(f"it arrives as a {type(read).__name__}")
