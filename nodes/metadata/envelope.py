"""Envelope (58): a client's request that a broker forwards, and its answer (KIP-590).

An envelope holds the bytes of the request with its own header, the principal that sent it, and the
client's address. The answer is wrapped likewise, with the inner header. The correlation ids of the
two layers are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.operation import Body
from kraftwreck.nodes.protocol.apis import NAMES, SUPPORTED, decode_request_header, encode_response
from kraftwreck.nodes.protocol.codec import ProtocolError, decode
from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUEST,
    NONE,
    NOT_CONTROLLER,
    PRINCIPAL_DESERIALIZATION_FAILURE,
    UNSUPPORTED_VERSION,
)
from kraftwreck.nodes.protocol.limits import limit_of
from kraftwreck.nodes.protocol.versioned import decode_versioned

VOTER_CHANGES: Final = ("AddRaftVoter", "RemoveRaftVoter")
FORWARDABLE: Final = frozenset(
    (
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "ElectLeaders",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "UpdateFeatures",
        "UnregisterBroker",
        "UnregisterController",
        "DescribeQuorum",
        *VOTER_CHANGES,
    )
)
"""The APIs that a broker may forward: neither Envelope nor the brokers' own requests."""


@dataclass(slots=True, frozen=True)
class Forwarded:
    """The request inside an envelope; ``principal`` is e.g. ``"User:ANONYMOUS"``."""

    api: str
    version: int
    correlation_id: int
    client_id: str | None
    body: Body
    principal: str
    host: str


def _principal(data: bytes | None) -> str:
    try:
        if data is None:
            raise ProtocolError("there is none")
        _, principal = decode_versioned("DefaultPrincipalData", data)
    except ProtocolError as error:
        raise ApiError(
            PRINCIPAL_DESERIALIZATION_FAILURE, f"Failed to read the client's principal: {error}"
        ) from error
    return f"{principal['type']}:{principal['name']}"


def _host(data: bytes) -> str:
    if len(data) not in (4, 16):
        raise ApiError(
            INVALID_REQUEST, f"Failed to read the client's address of {len(data)} bytes."
        )
    return str(ip_address(data))


def unwrap(envelope: Body) -> Forwarded:
    """Return the request inside an Envelope request. Raises ApiError if it must be refused."""
    data = bytes(envelope["request_data"])
    principal = _principal(envelope["request_principal"])
    host = _host(bytes(envelope["client_host_address"]))
    try:
        key, version, correlation_id, client_id, offset = decode_request_header(data)
        api = NAMES.get(key, f"with key {key}")
        if api not in FORWARDABLE:
            raise ApiError(INVALID_REQUEST, f"API {api} is not enabled or is not eligible for use.")
        low, high = SUPPORTED[api]
        if not low <= version <= high:
            raise ApiError(
                UNSUPPORTED_VERSION, f"{api} is served from version {low} to {high}, not {version}."
            )
        limit = limit_of(api)
        if len(data) > limit.size:
            raise ProtocolError(f"a {api} request of {len(data)} bytes is too long")
        body, _ = decode(f"{api}Request", version, data, offset, limit.items)
    except ProtocolError as error:
        raise ApiError(INVALID_REQUEST, f"Failed to read the forwarded request: {error}") from error
    return Forwarded(api, version, correlation_id, client_id, body, principal, host)


def wrap(request: Forwarded, answer: Body) -> Body:
    """Return the Envelope response around the answer to the inner request.

    The envelope itself carries NOT_CONTROLLER, because the broker must find another controller; its
    client knows no controllers.
    """
    if _says_not_controller(answer):
        return refused(NOT_CONTROLLER)
    data = encode_response(request.api, request.version, request.correlation_id, answer)
    return {"response_data": data, "error_code": NONE}


def refused(code: int) -> Body:
    """Return the Envelope response that refuses it, without an answer inside."""
    return {"response_data": None, "error_code": code}


def _says_not_controller(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("error_code") == NOT_CONTROLLER or any(
            _says_not_controller(inner) for inner in value.values() if isinstance(inner, list)
        )
    return isinstance(value, list) and any(map(_says_not_controller, value))
