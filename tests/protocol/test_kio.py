"""Our codec against kio, an independent one, for all that both of them know."""

from __future__ import annotations

import datetime
import enum
import io
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from nodes.protocol.apis import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from nodes.protocol.codec import decode, encode
from nodes.protocol.schema import Field, Message
from nodes.protocol.schemas import RECORDS

Drawn = Callable[[Message, int, int], dict[str, Any]]
Completed = Callable[[dict[str, Any], tuple[Field, ...]], dict[str, Any]]

MESSAGES_EACH = 200

# kio has no metadata records, and not these; it keeps the marker's version apart.
ONLY_OURS = {
    "EndTxnMarker",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "ApiVersionsRequest-v5",
    "ApiVersionsResponse-v5",
}


def both_know(message: Message, version: int) -> bool:
    names = {message.name, f"{message.name}-v{version}"}
    return message.name not in RECORDS and not names & ONLY_OURS


SELECT = {"test_both_agree_on_every_drawn_message": both_know}


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


@cache
def entity_of(name: str, version: int) -> Any:
    if name.endswith("Request"):
        return load_entity_schema(snake(name.removesuffix("Request")), version, EntityType.request)
    if name.endswith("Response"):
        return load_entity_schema(
            snake(name.removesuffix("Response")), version, EntityType.response
        )
    return load_entity_schema(snake(name), version, EntityType.data)


def squash(name: str) -> str:
    """A field name without what the two treat differently: underscores and units."""
    return name.replace("_", "").removesuffix("ms")


def plain(value: Any) -> Any:
    """A value of kio as ours."""
    if is_dataclass(value):
        return {squash(f.name): plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (value - epoch) // datetime.timedelta(milliseconds=1)
    if isinstance(value, enum.Enum):
        return value.value
    return value


def ours(body: dict[str, Any], schema: tuple[Field, ...]) -> dict[str, Any]:
    """A body of ours in the same form; kio reads the zero uuid as None."""
    result = {}
    kinds = {field.name: field for field in schema}
    for name, value in body.items():
        field = kinds[name]
        if field.fields is not None and value is not None:
            inner = field.fields
            value = [ours(v, inner) for v in value] if field.array else ours(value, inner)
        elif field.kind == "uuid" and value is not None:
            zeroes = [v if any(v) else None for v in (value if field.array else [value])]
            value = zeroes if field.array else zeroes[0]
        result[squash(name)] = value
    return result


def test_both_agree_on_every_drawn_message(
    message: Message, version: int, drawn: Drawn, completed: Completed
) -> None:
    entity = entity_of(message.name, version)
    read, write = entity_reader(entity), entity_writer(entity)
    for number in range(MESSAGES_EACH):
        body = drawn(message, version, number)
        encoded = encode(message.name, version, body)
        theirs, size = read(encoded, 0)
        assert size == len(encoded)
        assert plain(theirs) == ours(body, message.fields)
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == encoded
        decoded, size = decode(message.name, version, buffer.getvalue())
        assert size == len(encoded)
        assert decoded == completed(body, message.fields)


@pytest.mark.parametrize("client_id", [None, "", "client"])
@pytest.mark.parametrize("version", [3, 12])
def test_the_headers_agree_too(version: int, client_id: str | None) -> None:
    header = load_entity_schema(
        "request_header", request_header_version("Metadata", version), EntityType.header
    )
    buffer = io.BytesIO()
    fields = {
        "request_api_key": 3,
        "request_api_version": version,
        "correlation_id": 77,
        "client_id": client_id,
    }
    entity_writer(header)(buffer, header(**fields))
    theirs = buffer.getvalue()
    body = encode("MetadataRequest", version, {})
    assert encode_request("Metadata", version, 77, client_id, {}) == theirs + body
    assert decode_request_header(theirs + body) == (3, version, 77, client_id, len(theirs))
    response = load_entity_schema(
        "response_header", response_header_version("Metadata", version), EntityType.header
    )
    buffer = io.BytesIO()
    entity_writer(response)(buffer, response(**{"correlation_id": 77}))
    answer = encode_response("Metadata", version, 77, {})
    assert answer == buffer.getvalue() + encode("MetadataResponse", version, {})
    assert decode_response("Metadata", version, answer)[0] == 77
