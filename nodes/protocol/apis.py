"""Request and response frames: API keys, supported versions, and headers (KIP-482).

A frame is header and body without the int32 length before it; the listener adds and strips that.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.codec import (
    MOST_ITEMS,
    UNREADABLE,
    ProtocolError,
    decode,
    encode,
    unreadable,
)
from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError, get_uvarint, skip_tags
from kraftwreck.nodes.protocol.schema import Message
from kraftwreck.nodes.protocol.schemas import MESSAGES, RECORDS

API_KEYS: Final[dict[str, int]] = {
    name.removesuffix("Request"): message.key
    for name, message in MESSAGES.items()
    if message.key is not None and name.endswith("Request") and name not in RECORDS
}
NAMES: Final[dict[int, str]] = {key: name for name, key in API_KEYS.items()}

SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    # The quorum.
    "Fetch": (12, 18),
    "Vote": (0, 2),
    "BeginQuorumEpoch": (0, 1),
    "EndQuorumEpoch": (0, 1),
    "FetchSnapshot": (0, 1),
    "DescribeQuorum": (0, 2),
    "AddRaftVoter": (0, 1),
    "RemoveRaftVoter": (0, 0),
    "UpdateRaftVoter": (0, 0),
    # The Raft core.
    "RequestVote": (0, 0),
    "AppendEntries": (0, 0),
    "InstallSnapshot": (0, 0),
    # Between brokers and controllers.
    "BrokerRegistration": (0, 4),
    "BrokerHeartbeat": (0, 2),
    "UnregisterBroker": (0, 0),
    "ControllerRegistration": (0, 0),
    "UnregisterController": (0, 0),
    "AllocateProducerIds": (0, 0),
    "AlterPartition": (2, 3),
    "AssignReplicasToDirs": (0, 0),
    "Envelope": (0, 0),
    # Producers, consumers and followers.
    "Produce": (3, 13),
    "ListOffsets": (1, 11),
    "OffsetForLeaderEpoch": (2, 4),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    # Clients.
    "ApiVersions": (0, 4),
    "Metadata": (0, 13),
    "DescribeCluster": (0, 2),
    "DescribeTopicPartitions": (0, 0),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "CreatePartitions": (0, 3),
    "DescribeConfigs": (1, 4),
    "ListConfigResources": (0, 1),
    "AlterReplicaLogDirs": (1, 2),
    "DescribeLogDirs": (1, 5),
    "AlterConfigs": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "ElectLeaders": (0, 2),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "UpdateFeatures": (0, 2),
}
"""First and last supported version: those that a node may serve and those that it may send.

Each listener decides which of them it serves; those of the records of users are in
:mod:`nodes.broker.apis`. A schema may have later versions (ApiVersions 5) that are not supported
yet.
"""

MOST_HEADER_TAGS: Final = 100
_HEADERS: Final = 1024
"""Header versions that are remembered; a peer may ask for any version of any API."""
_FIXED = struct.Struct(">hhi")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def _schema(api: str) -> Message:
    if api not in API_KEYS:
        raise ProtocolError(f"there is no API {api}")
    return MESSAGES[f"{api}Request"]


@lru_cache(maxsize=_HEADERS)
def request_header_version(api: str, version: int) -> int:
    """Return 2 for flexible versions of ``api``, else 1. Raises :class:`ProtocolError`."""
    return 2 if version in _schema(api).flexible else 1


@lru_cache(maxsize=_HEADERS)
def response_header_version(api: str, version: int) -> int:
    """Return 1 for flexible versions of ``api``, else 0; always 0 for ApiVersions.

    A client that requests ApiVersions does not know the server's versions yet (KIP-511).
    """
    return 1 if version in _schema(api).flexible and api != "ApiVersions" else 0


def encode_request(
    api: str, version: int, correlation_id: int, client_id: str | None, body: dict[str, Any]
) -> bytes:
    """Return header and body of a request, without length prefix."""
    head = encode_request_header(api, version, correlation_id, client_id)
    return head + encode(f"{api}Request", version, body)


def encode_request_header(
    api: str, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request, without length prefix."""
    text = None if client_id is None else client_id.encode()
    try:
        head = _FIXED.pack(_schema(api).key, version, correlation_id)
        head += b"\xff\xff" if text is None else _SHORT.pack(len(text)) + text
    except struct.error as error:
        raise ProtocolError(f"cannot encode the header of {api} v{version}: {error}") from error
    return head + b"\0" if request_header_version(api, version) == 2 else head


def decode_request_header(data: Buffer) -> tuple[int, int, int, str | None, int]:
    """Return API key, version, correlation id, client id and the offset of the body.

    For an unknown API that is the offset after the client id, as it is unknown whether a tag
    section follows. Raises :class:`ProtocolError`.
    """
    try:
        key, version, correlation_id = _FIXED.unpack_from(data)
        (length,) = _SHORT.unpack_from(data, 8)
        offset = 10
        client_id = None
        if length >= 0:
            offset += length
            if offset > len(data):
                raise MalformedError("the client id ends outside of it")
            client_id = str(data[10:offset], "utf-8")
        elif length != -1:
            raise MalformedError(f"{length} is not a length")
        name = NAMES.get(key)
        if name is not None and request_header_version(name, version) == 2:
            count, offset = get_uvarint(data, offset)
            if count > MOST_HEADER_TAGS:
                raise MalformedError(f"it has {count} tags")
            offset = skip_tags(data, offset, len(data), count)
    except (struct.error, IndexError):
        raise ProtocolError("cannot decode a request header: it ends too early") from None
    except UnicodeDecodeError as reason:
        raise ProtocolError("cannot decode a request header: client id not UTF-8") from reason
    except MalformedError as error:
        raise ProtocolError(f"cannot decode a request header: {error}") from error
    return key, version, correlation_id, client_id, offset


def encode_response(api: str, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    """Return header and body of a response, without length prefix."""
    head = _INT.pack(correlation_id)
    if response_header_version(api, version) == 1:
        head += b"\0"
    return head + encode(f"{api}Response", version, body)


def decode_response(
    api: str, version: int, data: Buffer, items: int = MOST_ITEMS
) -> tuple[int, dict[str, Any]]:
    """Return correlation id and body of a response to a request at ``version``.

    The body may have ``items`` in all its arrays.

    An ApiVersions answer with UNSUPPORTED_VERSION is read at version 0, the only version that both
    sides surely share. Raises :class:`ProtocolError`.
    """
    correlation_id, offset = _response_header(data, response_header_version(api, version))
    if api == "ApiVersions" and len(data) >= 6:
        (error,) = _SHORT.unpack_from(data, 4)
        if error == errors.UNSUPPORTED_VERSION:
            version = 0
    body, _ = decode(f"{api}Response", version, data, offset, items)
    return correlation_id, body


def _response_header(data: Buffer, version: int) -> tuple[int, int]:
    """Return the correlation id, and the offset after the header. Raises ProtocolError."""
    try:
        (correlation_id,) = _INT.unpack_from(data)
        offset = _INT.size
        if version == 1:
            count, offset = get_uvarint(data, offset)
            offset = skip_tags(data, offset, len(data), count)
        return correlation_id, offset
    except UNREADABLE as error:
        reason = unreadable("ResponseHeader", version, error)
    raise ProtocolError(reason)
