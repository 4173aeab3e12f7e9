"""Our codec against kio, an independent one, for all that both of them know.

Each message and version goes both ways: drawn from our schema, written by us, read and written by
kio, read by us; and drawn from kio's classes, written by kio, read and written by us. The number
of messages of each kind and direction is KRAFTWRECK_ROUND_TRIPS (60 if unset).
"""

from __future__ import annotations

import datetime
import enum
import io
import os
import types
import typing
import uuid
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static import primitive
from kio.static.constants import EntityType

from kraftwreck.nodes.protocol.apis import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.errors import ERROR_NAMES
from kraftwreck.nodes.protocol.schema import Field, Message, parse
from kraftwreck.nodes.protocol.schemas import RECORDS, raft

Drawn = Callable[[Message, int, int], dict[str, Any]]
Completed = Callable[[dict[str, Any], tuple[Field, ...]], dict[str, Any]]

MESSAGES_EACH = int(os.environ.get("KRAFTWRECK_ROUND_TRIPS", "60"))
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

# kio has no records of logs (metadata, offsets), and not these; it keeps the marker's version
# apart.
RAFT = parse(raft.TEXT)
ONLY_OURS = {
    "EndTxnMarker",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "ApiVersionsRequest-v5",
    "ApiVersionsResponse-v5",
}


def both_know(message: Message, version: int) -> bool:
    names = {message.name, f"{message.name}-v{version}"}
    logged = message.name in RECORDS or message.name.endswith(("Key", "Value"))
    of_raft = message.name in RAFT
    return not logged and not of_raft and not names & ONLY_OURS


SELECT = {
    "test_kio_reads_our_bytes_and_writes_the_same": both_know,
    "test_we_read_kios_bytes_and_write_the_same": both_know,
}


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
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, enum.Enum):
        return value.value
    return value


def ours(body: dict[str, Any], schema: tuple[Field, ...], version: int) -> dict[str, Any]:
    """Return the content of one of our bodies at ``version``, in the same form.

    kio has None for the zero uuid and for a log append time of -1.
    """
    result = {}
    for field in schema:
        if version not in field.versions:
            continue
        value = body[field.name]
        if field.fields is not None and value is not None:
            inner = field.fields
            if field.array:
                value = [ours(v, inner, version) for v in value]
            else:
                value = ours(value, inner, version)
        elif field.kind == "uuid" and value is not None:
            zeroes = [v if any(v) else None for v in (value if field.array else [value])]
            value = zeroes if field.array else zeroes[0]
        elif field.name == "log_append_time_ms" and value == -1:
            value = None
        result[squash(field.name)] = value
    return result


# --- messages of kio, drawn from its classes and not from our schemas -----------------------------

_TEXTS = ("", "a", "controller-3.example", "\u00fc\u4e16\U0001f40d", "y" * 127, "z" * 300)
Below = Callable[[int], int]
Maker = Callable[[Below], Any]


def integer(kind: Any) -> Maker:
    low, high = kind.__low__, kind.__high__
    edges = (low, high, 0, 1, max(low, -1))

    def make(below: Below) -> int:
        which = below(8)
        return int(edges[which]) if which < 5 else int(low + below(high - low + 1))

    return make


def primitive_maker(kind: Any) -> Maker:
    if kind is bool:
        return lambda below: below(2) == 1
    if kind is primitive.i32Timedelta:
        return lambda below: MILLISECOND * (below(1 << 32) - (1 << 31))
    if kind is primitive.i64Timedelta:
        return lambda below: MILLISECOND * (below(1 << 45) - (1 << 44))
    if kind is primitive.TZAware:
        return lambda below: EPOCH + MILLISECOND * below(1 << 41)
    if kind is uuid.UUID:
        return lambda below: uuid.UUID(int=1 + below(1 << 127))
    if issubclass(kind, enum.Enum):
        codes = list(kind)
        return lambda below: codes[below(len(codes))]
    if issubclass(kind, int):
        return integer(kind)
    if issubclass(kind, float):
        return lambda below: (below(1 << 50) - (1 << 49)) / 4096
    if issubclass(kind, str):
        return lambda below: _TEXTS[below(len(_TEXTS))]
    if issubclass(kind, bytes):
        return lambda below: below(1 << 80).to_bytes(10, "big") * below(20)
    raise AssertionError(f"kio has a type this test does not draw: {kind}")


def maker(kind: Any) -> Maker:
    """Draw a value of an annotation in kio's classes."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        [some] = [maker(argument) for argument in arguments if argument is not types.NoneType]
        return lambda below: None if below(4) == 0 else some(below)
    if origin is tuple:
        item = maker(arguments[0])
        return lambda below: tuple(item(below) for _ in range(below(4)))
    if isinstance(kind, type) and is_dataclass(kind):
        return entity_maker(kind)
    return primitive_maker(kind)


@cache
def entity_maker(entity: Any) -> Maker:
    hints = typing.get_type_hints(entity)
    makers = [
        (f.name, maker(hints[f.name]), "tag" in f.metadata and f.default is not MISSING)
        for f in fields(entity)
    ]

    def make(below: Below) -> Any:
        # Tagged fields are left at their default now and then, and then not sent.
        return entity(
            **{name: one(below) for name, one, omit in makers if not (omit and below(3) == 0)}
        )

    return make


# --- both directions ------------------------------------------------------------------------------


def test_kio_reads_our_bytes_and_writes_the_same(
    message: Message, version: int, drawn: Drawn, completed: Completed
) -> None:
    entity = entity_of(message.name, version)
    read, write = entity_reader(entity), entity_writer(entity)
    for number in range(MESSAGES_EACH):
        body = drawn(message, version, number)
        encoded = encode(message.name, version, body)
        theirs, size = read(encoded, 0)
        assert size == len(encoded)
        assert plain(theirs) == ours(body, message.fields, version)
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == encoded
        decoded, size = decode(message.name, version, buffer.getvalue())
        assert size == len(encoded)
        assert decoded == completed(body, message.fields)


def test_we_read_kios_bytes_and_write_the_same(
    message: Message, version: int, numbers: Callable[..., Below]
) -> None:
    entity = entity_of(message.name, version)
    make, write, read = entity_maker(entity), entity_writer(entity), entity_reader(entity)
    for number in range(MESSAGES_EACH):
        theirs = make(numbers("kio", message.name, version, number))
        buffer = io.BytesIO()
        write(buffer, theirs)
        encoded = buffer.getvalue()
        body, size = decode(message.name, version, encoded)
        assert size == len(encoded)
        assert ours(body, message.fields, version) == plain(theirs)
        again = encode(message.name, version, body)
        assert again == encoded
        assert read(again, 0) == (theirs, len(encoded))


def test_error_codes_have_the_names_kio_gives_them() -> None:
    theirs = {int(code.value): code.name.upper() for code in ErrorCode}
    assert {code: theirs[code] for code in ERROR_NAMES} == ERROR_NAMES


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
