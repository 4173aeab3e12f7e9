"""Requests by API name, version and body: those of clients and between brokers and controllers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode


@dataclass(slots=True, eq=False)
class ApiMessage:
    """A request outside of the quorum protocol.

    ``quorum`` is set if the sender's core has sent it as a quorum request nevertheless, ``coded``
    if a client has sent it, which decodes the answer.
    """

    api: str
    version: int
    body: dict[str, Any]
    quorum: bool = False
    coded: bool = False


def sent(api: str, body: dict[str, Any], *, quorum: bool = False) -> ApiMessage:
    """Return a node's request as the other end decodes it. Raises FatalError.

    It is sent at the highest version, which all nodes here know.
    """
    try:
        version = SUPPORTED[api][1]
        request = f"{api}Request"
        read, _ = decode(request, version, encode(request, version, body))
    except (KeyError, ProtocolError) as error:
        raise FatalError(f"a request that cannot be sent, {api}: {error}") from error
    return ApiMessage(api, version, read, quorum)


def answered(message: ApiMessage, body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer ``body`` to ``message`` as its sender decodes it. Raises FatalError."""
    try:
        response = f"{message.api}Response"
        return decode(response, message.version, encode(response, message.version, body))[0]
    except ProtocolError as error:
        raise FatalError(f"an answer that cannot be sent, {message.api}: {error}") from error
