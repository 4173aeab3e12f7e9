"""Quorum messages keep their meaning on the wire, at every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft.messages import (
    NO_WAKE,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    QuorumResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from nodes.protocol.apis import SUPPORTED
from nodes.protocol.codec import decode, encode
from nodes.server.wire import (
    QUORUM_APIS,
    ShapeError,
    api_of,
    invalid_request,
    request_from_body,
    request_to_body,
    response_from_body,
    response_to_body,
)

D1, D2 = b"\x01" * 16, b"\x02" * 16
ENDPOINTS = {i: Endpoint(f"10.77.0.{i}", 9093) for i in (1, 2, 3)}

VOTE = VoteRequest("c", 2, 7, 1, D1, D2, 6, 40, True)
BEGIN = BeginQuorumEpochRequest("c", 2, D2, 1, 7)
END = EndQuorumEpochRequest(None, 1, 7, ((2, D2), (3, D1)))
FETCH = FetchRequest("c", 2, D2, 500, 1 << 20, 7, 40, 6, 39)

RESPONSES: list[QuorumResponse] = [
    VoteResponse(0, 0, 1, 7, True),
    VoteResponse(0, 74, -1, 8, False),
    BeginQuorumEpochResponse(0, 0, 1, 7),
    EndQuorumEpochResponse(0, 74, 3, 9),
    FetchResponse(0, 0, 1, 7, 39, 0, -1, -1, -1, -1, b"batch bytes"),
    FetchResponse(0, 0, 1, 7, 39, 0, 6, 33, -1, -1, b""),
    FetchResponse(0, 6, -1, 7, -1, -1, -1, -1, -1, -1, b""),
    FetchResponse(0, 0, 1, 7, 39, 10, -1, -1, 30, 5, b""),
]


def sent(message: Request, version: int) -> Request:
    """Return what the receiver makes of ``message``."""
    api = api_of(message)
    data = encode(f"{api}Request", version, request_to_body(message, version, ENDPOINTS))
    body, _ = decode(f"{api}Request", version, data)
    return request_from_body(api, version, body)


def answered(message: QuorumResponse, version: int) -> QuorumResponse:
    api = type(message).__name__.removesuffix("QuorumResponse")
    data = encode(f"{api}QuorumResponse", version, response_to_body(message, version, ENDPOINTS))
    body, _ = decode(f"{api}QuorumResponse", version, data)
    return response_from_body(api, version, body)


@pytest.mark.parametrize("message", [VOTE, BEGIN, END, FETCH], ids=api_of)
def test_the_newest_version_carries_everything(message: Request) -> None:
    assert sent(message, SUPPORTED[api_of(message)][1]) == message


def test_older_votes_carry_no_directories() -> None:
    vote = replace(VOTE, pre_vote=False)
    assert sent(vote, 1) == vote
    assert sent(vote, 0) == replace(
        vote, voter_id=-1, candidate_directory=bytes(16), voter_directory=bytes(16)
    )


def test_older_epoch_messages_carry_no_directories() -> None:
    assert sent(BEGIN, 0) == replace(BEGIN, voter_id=-1, voter_directory=bytes(16))
    assert sent(END, 0) == replace(END, successors=((2, bytes(16)), (3, bytes(16))))


@pytest.mark.parametrize("version", range(12, 19))
def test_every_version_of_fetch(version: int) -> None:
    expected = FETCH
    if version < 18:
        expected = replace(expected, high_watermark=NO_WAKE)
    if version < 17:
        expected = replace(expected, directory=bytes(16))
    assert sent(FETCH, version) == expected


@pytest.mark.parametrize("message", RESPONSES, ids=repr)
def test_every_version_of_every_answer(message: QuorumResponse) -> None:
    low, high = SUPPORTED[type(message).__name__.removesuffix("QuorumResponse")]
    for version in range(low, high + 1):
        assert answered(message, version) == message


@pytest.mark.parametrize("message", RESPONSES, ids=repr)
def test_an_error_at_the_top_stands_alone(message: QuorumResponse) -> None:
    newest = SUPPORTED[type(message).__name__.removesuffix("QuorumResponse")][1]
    refused = answered(replace(message, error=104, partition_error=0), newest)
    assert refused.error == 104
    assert refused.leader_id == -1


def test_answers_name_the_leaders_endpoint() -> None:
    body = response_to_body(VoteResponse(0, 0, 3, 7, False), 2, ENDPOINTS)
    assert body["node_endpoints"] == [{"node_id": 3, "host": "10.77.0.3", "port": 9093}]
    unknown = response_to_body(VoteResponse(0, 0, -1, 7, False), 2, ENDPOINTS)
    assert unknown["node_endpoints"] == []


def shapes(api: str, version: int, message: Request) -> list[dict[str, Any]]:
    """Return bodies that do not name exactly the metadata partition."""
    good = request_to_body(message, version, ENDPOINTS)
    [topic] = good["topics"]
    [partition] = topic["partitions"]
    index = "partition" if api == "Fetch" else "partition_index"
    other = {"topic": "t", "topic_id": D1} if api == "Fetch" else {"topic_name": "t"}
    bad_topics: list[list[dict[str, Any]]] = [
        [],
        [topic, topic],
        [topic | other],
        [topic | {"partitions": []}],
        [topic | {"partitions": [partition, partition]}],
        [topic | {"partitions": [partition | {index: 1}]}],
    ]
    return [good | {"topics": topics} for topics in bad_topics]


@pytest.mark.parametrize("message", [VOTE, BEGIN, END, FETCH], ids=api_of)
def test_anything_but_the_metadata_partition_is_refused(message: Request) -> None:
    api = api_of(message)
    low, high = SUPPORTED[api]
    for version in (low, high):
        plain = replace(message, pre_vote=False) if isinstance(message, VoteRequest) else message
        for body in shapes(api, version, plain):
            known = {k: v for k, v in body.items() if k != "node_endpoints"}
            data = encode(f"{api}Request", version, known)
            decoded, _ = decode(f"{api}Request", version, data)
            with pytest.raises(ShapeError):
                request_from_body(api, version, decoded)
        encode(f"{api}QuorumResponse", version, invalid_request(api))


@pytest.mark.parametrize("api", QUORUM_APIS)
def test_an_answer_about_another_partition_is_refused(api: str) -> None:
    version = SUPPORTED[api][1]
    data = encode(f"{api}QuorumResponse", version, {"error_code": 0})
    body, _ = decode(f"{api}QuorumResponse", version, data)
    with pytest.raises(ShapeError):
        response_from_body(api, version, body)
