"""Raft's messages through the bytes of the protocol."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.effects import Message, RequestReceived, ResponseReceived
from kraftwreck.nodes.consensus.raft import messages
from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    NAMES,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, decode
from kraftwreck.nodes.server.plain import from_plain, to_plain
from kraftwreck.nodes.server.raft_wire import MESSAGES, RAFT_APIS
from kraftwreck.nodes.server.wire import (
    api_of,
    request_from_body,
    request_to_body,
    response_from_body,
    response_to_body,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
WIDE = {
    "last_offset", "prev_offset", "leader_commit", "match_offset", "conflict_offset", "end_offset",
    "size", "position",
}  # fmt: skip
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": INT32,
    "bool": st.booleans(),
    "str": st.text(max_size=30),
    "bytes": st.binary(max_size=200),
}


def drawn(kind: type) -> st.SearchStrategy[Any]:
    """Any message of one class."""
    return st.builds(
        kind, **{f.name: INT64 if f.name in WIDE else BY_TYPE[str(f.type)] for f in fields(kind)}
    )


REQUESTS = st.one_of(*[drawn(kind) for kind in MESSAGES if kind.__name__.endswith("Request")])
RESPONSES = st.one_of(*[drawn(kind) for kind in MESSAGES if kind.__name__.endswith("Response")])


@given(REQUESTS)
def test_requests_arrive_as_they_were_sent(request: Message) -> None:
    frame = encode_request(api_of(request), 0, 7, "node-1", request_to_body(request, 0, {}))
    key, version, correlation, client, start = decode_request_header(frame)
    assert (version, correlation, client) == (0, 7, "node-1")
    body, end = decode(f"{NAMES[key]}Request", 0, frame, start)
    assert end == len(frame)
    assert request_from_body(NAMES[key], 0, body) == request


@given(RESPONSES)
def test_responses_arrive_as_they_were_sent(response: Message) -> None:
    api = type(response).__name__.removesuffix("Response")
    frame = encode_response(api, 0, 7, response_to_body(response, 0, {}))
    correlation, body = decode_response(api, 0, frame)
    assert correlation == 7
    assert response_from_body(api, 0, body) == response


@given(st.one_of(REQUESTS, RESPONSES))
def test_input_log_keeps_messages(message: Message) -> None:
    for event in (RequestReceived(3, message), ResponseReceived(2, 5, message)):
        assert from_plain(to_plain(event)) == event


@given(REQUESTS, st.data())
def test_cut_off_request_is_refused_in_one_line(request: Message, data: st.DataObject) -> None:
    api = api_of(request)
    frame = encode_request(api, 0, 7, None, request_to_body(request, 0, {}))
    start = decode_request_header(frame)[4]
    end = data.draw(st.integers(start, len(frame) - 1))
    with pytest.raises(ProtocolError, match=f"cannot decode {api}Request"):
        decode(f"{api}Request", 0, frame[:end], start)


def test_api_keys_are_above_kafkas() -> None:
    assert [API_KEYS[api] for api in RAFT_APIS] == [10_001, 10_002, 10_003]
    assert max(key for api, key in API_KEYS.items() if api not in RAFT_APIS) < 10_000


def test_every_message_has_a_codec() -> None:
    both = messages.Request | messages.Response
    assert set(MESSAGES) == set(both.__args__)
