"""Unknown fields of newer peers are skipped; malformed input of hostile ones is refused."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    SUPPORTED,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    response_header_version,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.compiler import compile_message
from kraftwreck.nodes.protocol.schema import ALL, NONE, Field, Message
from kraftwreck.nodes.protocol.schemas import MESSAGES

Drawn = Callable[[Message, int, int], dict[str, Any]]
Completed = Callable[[dict[str, Any], tuple[Field, ...]], dict[str, Any]]

SELECT = {
    "test_tags_of_a_newer_peer_are_skipped_in_every_struct": (
        lambda message, version: version in message.flexible
    )
}
SPOKEN = [
    (api, version) for api, (low, high) in SUPPORTED.items() for version in range(low, high + 1)
]
HUGE_COMPACT = b"\xff\xff\xff\xff\x0f"
HUGE_CLASSIC = b"\x7f\xff\xff\xff"


def newer(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """``fields`` as a newer release may have them: each struct with two more tagged fields."""
    tags = {field.tag for field in fields}
    free = next(tag for tag in range(len(tags) + 1) if tag not in tags)
    # ALL tells the versions of a field; as ``tagged`` it says that no version has it in the open.
    future = Field("future_bytes", "bytes", False, None, ALL, NONE, free, ALL, b"", False)
    far = replace(future, name="future_text", kind="string", tag=70_000, default="")
    inner = tuple(
        field if field.fields is None else replace(field, fields=newer(field.fields))
        for field in fields
    )
    return (*inner, future, far)


def extended(body: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """``body`` with content in the added fields of every struct."""
    result = dict(body, future_bytes=b"\x00\xff" * 40, future_text="later")
    for field in fields:
        value = body.get(field.name)
        if field.fields is None or value is None:
            continue
        inner = field.fields
        result[field.name] = (
            [extended(one, inner) for one in value] if field.array else extended(value, inner)
        )
    return result


def test_tags_of_a_newer_peer_are_skipped_in_every_struct(
    message: Message, version: int, drawn: Drawn, completed: Completed
) -> None:
    theirs = Message(
        message.name, message.key, message.valid, message.flexible, newer(message.fields)
    )
    write, _ = compile_message(theirs, version)
    for number in range(10):
        body = drawn(message, version, number)
        out = bytearray()
        write(out, extended(body, message.fields))
        assert b"later" in out
        decoded, end = decode(message.name, version, bytes(out) + b"trailing")
        assert end == len(out)
        assert decoded == completed(body, message.fields)


@pytest.mark.parametrize(("api", "version"), SPOKEN)
def test_frames_may_end_with_more_than_we_know(api: str, version: int, drawn: Drawn) -> None:
    request, response = MESSAGES[f"{api}Request"], MESSAGES[f"{api}Response"]
    for number in range(5):
        asked = encode_request(api, version, 7, "me", drawn(request, version, number))
        key, sent, correlation, client, offset = decode_request_header(asked + b"trailing")
        assert (key, sent, correlation, client) == (API_KEYS[api], version, 7, "me")
        body, end = decode(f"{api}Request", version, asked + b"trailing", offset)
        assert (body, end) == decode(f"{api}Request", version, asked, offset)
        answer = encode_response(api, version, 7, drawn(response, version, number))
        expected = decode_response(api, version, answer)
        assert decode_response(api, version, answer + b"trailing") == expected
        if response_header_version(api, version) == 1:
            tagged = answer[:4] + b"\x02\x00\x01x\xf0\xa2\x04\x00" + answer[5:]
            assert decode_response(api, version, tagged) == expected


@pytest.mark.parametrize(("api", "version"), SPOKEN)
def test_every_prefix_of_a_frame_is_refused(api: str, version: int, drawn: Drawn) -> None:
    asked = encode_request(api, version, 7, "me", drawn(MESSAGES[f"{api}Request"], version, 1))
    for length in range(len(asked)):
        with pytest.raises(ProtocolError, match=r"^cannot decode "):
            *_, offset = decode_request_header(asked[:length])
            decode(f"{api}Request", version, asked[:length], offset)
    answer = encode_response(api, version, 7, drawn(MESSAGES[f"{api}Response"], version, 1))
    for length in range(len(answer)):
        with pytest.raises(ProtocolError, match=r"^cannot decode "):
            decode_response(api, version, answer[:length])


def test_absurd_lengths_are_refused_before_anything_is_allocated(
    message: Message, version: int, drawn: Drawn
) -> None:
    """A length of up to 4 GiB at every place costs less than a kilobyte per byte received."""
    encoded = encode(message.name, version, drawn(message, version, 2))[:600]
    length, replaced = (HUGE_COMPACT, 1) if version in message.flexible else (HUGE_CLASSIC, 4)
    hostile = [
        encoded[:place] + length + encoded[place + replaced :] for place in range(len(encoded))
    ]
    decode_all(message, version, hostile[:1])  # compiles the message
    started = time.process_time()
    tracemalloc.start()
    try:
        decode_all(message, version, hostile)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000 + 1000 * len(encoded)
    assert time.process_time() - started < 5


def decode_all(message: Message, version: int, hostile: list[bytes]) -> None:
    for data in hostile:
        try:
            decode(message.name, version, data)
        except ProtocolError as error:
            assert "\n" not in str(error)


def test_a_refused_message_leaves_nothing_behind() -> None:
    """No reference cycle: it would keep what was read until the garbage collector comes by."""
    hostile = [b"", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x02\xff\xff"]
    decode_all(MESSAGES["MetadataRequest"], 12, hostile)
    gc.collect()
    gc.freeze()  # The collector need not look at all that other tests have left.
    gc.disable()
    try:
        for data in hostile:
            decode_all(MESSAGES["MetadataRequest"], 12, [data])
            assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["MetadataRequest", "FetchResponse", "BrokerRegistrationRequest"])
def test_an_array_cannot_claim_more_than_the_bytes_that_follow(name: str) -> None:
    version = MESSAGES[name].valid.high
    places = 0
    encoded = encode(name, version, {})
    for place in range(len(encoded)):
        data = encoded[:place] + HUGE_COMPACT + encoded[place + 1 :]
        try:
            decode(name, version, data)
        except ProtocolError as error:
            places += "outside of the message" in str(error)
    assert places >= 1
