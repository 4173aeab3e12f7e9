"""Quorum messages keep their meaning on the wire, at every version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_WAKE,
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumResponse,
    RemoveRaftVoterRequest,
    Request,
    Response,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.server.wire import (
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
LEADER = Endpoint("10.77.0.1", 9093)
ENDPOINTS = {i: Endpoint(f"10.77.0.{i}", 9093) for i in (1, 2, 3)}
LISTENERS = (("CONTROLLER", LEADER), ("OTHER", Endpoint("other", 1)))

VOTE = VoteRequest("c", 2, 7, 1, D1, D2, 6, 40, True)
BEGIN = BeginQuorumEpochRequest("c", 2, D2, 1, 7, LEADER)
END = EndQuorumEpochRequest(None, 1, 7, ((2, D2), (3, D1)), LEADER)
FETCH = FetchRequest("c", 2, D2, 500, 1 << 20, 7, 40, 6, 39)
SNAPSHOT = FetchSnapshotRequest("c", 2, D2, 4096, 7, 40, 6, 8192)
ADD = AddRaftVoterRequest("c", 900, 4, D1, LISTENERS, False)
REMOVE = RemoveRaftVoterRequest(None, 4, D1)
UPDATE = UpdateRaftVoterRequest("c", 7, 4, D1, LISTENERS, 0, 1)
ABOUT_THE_PARTITION: list[Request] = [VOTE, BEGIN, END, FETCH, SNAPSHOT]
ABOUT_VOTERS: list[Request] = [ADD, REMOVE, UPDATE]

RESPONSES: list[QuorumResponse] = [
    VoteResponse(0, 0, 1, 7, True, LEADER),
    VoteResponse(0, 74, -1, 8, False),
    BeginQuorumEpochResponse(0, 0, 1, 7, LEADER),
    EndQuorumEpochResponse(0, 74, 3, 9),
    FetchResponse(0, 0, 1, 7, 39, 0, -1, -1, -1, -1, b"batch bytes", LEADER),
    FetchResponse(0, 0, 1, 7, 39, 0, 6, 33, -1, -1, b""),
    FetchResponse(0, 6, -1, 7, -1, -1, -1, -1, -1, -1, b""),
    FetchResponse(0, 0, 1, 7, 39, 10, -1, -1, 30, 5, b""),
    FetchSnapshotResponse(0, 0, 1, 7, 30, 5, 9000, 8192, b"\0unaligned", LEADER),
    FetchSnapshotResponse(0, 98, 1, 7, 30, 5),
]
FIRST_WITH_ENDPOINT = {"Vote": 1, "BeginQuorumEpoch": 1, "Fetch": 16, "FetchSnapshot": 1}


def sent(message: Request, version: int) -> Request:
    """Return what the receiver makes of ``message``."""
    api = api_of(message)
    data = encode(f"{api}Request", version, request_to_body(message, version, {}))
    body, _ = decode(f"{api}Request", version, data)
    read: Request = request_from_body(api, version, body)
    return read


def api_of_answer(message: Response) -> str:
    return type(message).__name__.removesuffix("Response")


def answered(message: QuorumResponse, version: int, api: str = "") -> Response:
    name = api or api_of_answer(message)
    data = encode(f"{name}Response", version, response_to_body(message, version, {}, api))
    body, _ = decode(f"{name}Response", version, data)
    read: Response = response_from_body(name, version, body)
    return read


@pytest.mark.parametrize("message", [*ABOUT_THE_PARTITION, *ABOUT_VOTERS], ids=api_of)
def test_the_newest_version_carries_everything(message: Request) -> None:
    assert sent(message, SUPPORTED[api_of(message)][1]) == message


def test_older_votes_carry_no_directories() -> None:
    vote = replace(VOTE, pre_vote=False)
    assert sent(vote, 1) == vote
    assert sent(vote, 0) == replace(
        vote, voter_id=-1, candidate_directory=bytes(16), voter_directory=bytes(16)
    )


def test_older_epoch_messages_carry_neither_directories_nor_the_leaders_endpoint() -> None:
    assert sent(BEGIN, 0) == replace(
        BEGIN, voter_id=-1, voter_directory=bytes(16), leader_endpoint=None
    )
    assert sent(END, 0) == replace(
        END, successors=((2, bytes(16)), (3, bytes(16))), leader_endpoint=None
    )


def test_the_first_version_of_fetch_snapshot_carries_no_directory() -> None:
    assert sent(SNAPSHOT, 0) == replace(SNAPSHOT, directory=bytes(16))


def test_the_first_version_of_add_raft_voter_waits_for_the_commit() -> None:
    assert sent(ADD, 0) == replace(ADD, ack_when_committed=True)


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
    api = api_of_answer(message)
    low, high = SUPPORTED[api]
    for version in range(low, high + 1):
        expected = message
        if version < FIRST_WITH_ENDPOINT.get(api, 1):
            expected = replace(message, leader_endpoint=None)
        assert answered(message, version) == expected


@pytest.mark.parametrize("message", RESPONSES, ids=repr)
def test_a_top_level_error_names_no_leader(message: QuorumResponse) -> None:
    newest = SUPPORTED[api_of_answer(message)][1]
    refused = answered(replace(message, error=104, partition_error=0), newest)
    assert refused.error == 104
    assert not isinstance(refused, ApiVersionsResponse)
    assert refused.leader_id == -1


@pytest.mark.parametrize("api", ["AddRaftVoter", "RemoveRaftVoter"])
def test_a_voter_change_is_answered_with_a_text(api: str) -> None:
    low, high = SUPPORTED[api]
    for version in range(low, high + 1):
        assert answered(
            VoterChangeResponse(126, 0, 1, 7, LEADER, "is a voter"), version, api
        ) == VoterChangeResponse(126, text="is a voter")


def test_an_update_of_a_voter_is_answered_with_the_leader() -> None:
    known = VoterChangeResponse(6, 0, 1, 7, LEADER)
    assert answered(known, 0, "UpdateRaftVoter") == known
    unknown = VoterChangeResponse(6, 0, -1, 7)
    assert answered(unknown, 0, "UpdateRaftVoter") == unknown


def test_a_leader_asks_for_the_range_of_kraft_version() -> None:
    body = request_to_body(ApiVersionsRequest(), 4, {})
    data = encode("ApiVersionsRequest", 4, body)
    assert decode("ApiVersionsRequest", 4, data)[0]["client_software_name"] == "kraftwreck"
    features = [
        {"name": "metadata.version", "min_version": 7, "max_version": 27},
        {"name": "kraft.version", "min_version": 0, "max_version": 1},
    ]
    told = {"error_code": 0, "supported_features": features}
    decoded, _ = decode("ApiVersionsResponse", 4, encode("ApiVersionsResponse", 4, told))
    assert response_from_body("ApiVersions", 4, decoded) == ApiVersionsResponse(0, 0, 1)
    silent, _ = decode("ApiVersionsResponse", 0, encode("ApiVersionsResponse", 0, {}))
    assert response_from_body("ApiVersions", 0, silent) == ApiVersionsResponse(0, 0, 0)


def test_the_address_book_serves_where_a_message_names_no_endpoint() -> None:
    body = response_to_body(VoteResponse(0, 0, 3, 7, False), 2, ENDPOINTS)
    assert body["node_endpoints"] == [{"node_id": 3, "host": "10.77.0.3", "port": 9093}]
    moved = VoteResponse(0, 0, 3, 7, False, Endpoint("elsewhere", 1))
    assert response_to_body(moved, 2, ENDPOINTS)["node_endpoints"] == [
        {"node_id": 3, "host": "elsewhere", "port": 1}
    ]
    unknown = response_to_body(VoteResponse(0, 0, -1, 7, False), 2, ENDPOINTS)
    assert unknown["node_endpoints"] == []
    begin = request_to_body(replace(BEGIN, leader_endpoint=None), 1, ENDPOINTS)
    assert begin["leader_endpoints"] == [{"name": "CONTROLLER", "host": "10.77.0.1", "port": 9093}]
    assert request_to_body(replace(BEGIN, leader_endpoint=None), 1, {})["leader_endpoints"] == []


def test_a_leader_that_names_no_quorum_listener_has_no_endpoint() -> None:
    body = request_to_body(BEGIN, 1, {})
    body["leader_endpoints"][0]["name"] = "OTHER"
    assert request_from_body("BeginQuorumEpoch", 1, body) == replace(BEGIN, leader_endpoint=None)


def shapes(api: str, version: int, message: Request) -> list[dict[str, Any]]:
    """Return bodies that do not name exactly the metadata partition."""
    good = request_to_body(message, version, {})
    [topic] = good["topics"]
    [partition] = topic["partitions"]
    index = "partition" if api in ("Fetch", "FetchSnapshot") else "partition_index"
    other: dict[str, Any] = {"topic_name": "t"}
    if api == "Fetch":
        other = {"topic": "t", "topic_id": D1}
    elif api == "FetchSnapshot":
        other = {"name": "t"}
    bad_topics: list[list[dict[str, Any]]] = [
        [],
        [topic, topic],
        [topic | {"partitions": []}],
        [topic | {"partitions": [partition, partition]}],
        [topic | other],
        [topic | {"partitions": [partition | {index: 1}]}],
    ]
    return [good | {"topics": topics} for topics in bad_topics]


@pytest.mark.parametrize("message", ABOUT_THE_PARTITION, ids=api_of)
def test_anything_but_the_metadata_partition_is_refused(message: Request) -> None:
    api = api_of(message)
    low, high = SUPPORTED[api]
    for version in (low, high):
        plain = replace(message, pre_vote=False) if isinstance(message, VoteRequest) else message
        for body in shapes(api, version, plain):
            data = encode(f"{api}Request", version, body)
            decoded, _ = decode(f"{api}Request", version, data)
            with pytest.raises(ShapeError):
                request_from_body(api, version, decoded)
            encode(f"{api}Response", version, invalid_request(api, decoded))


def test_a_snapshot_of_a_partition_nobody_knows_is_refused_in_its_place() -> None:
    refusals = [invalid_request("FetchSnapshot", b) for b in shapes("FetchSnapshot", 1, SNAPSHOT)]
    assert [refusal.get("error_code") for refusal in refusals[:4]] == [42] * 4
    for refusal, name, index in ((refusals[4], "t", 0), (refusals[5], "__cluster_metadata", 1)):
        [topic] = refusal["topics"]
        assert topic["name"] == name
        assert topic["partitions"] == [{"index": index, "error_code": 3}]


@pytest.mark.parametrize("message", [BEGIN, END, ADD, UPDATE], ids=api_of)
def test_a_listener_named_twice_is_refused(message: Request) -> None:
    api = api_of(message)
    version = SUPPORTED[api][1]
    body = request_to_body(message, version, {})
    key = "listeners" if message in (ADD, UPDATE) else "leader_endpoints"
    with pytest.raises(ShapeError):
        request_from_body(api, version, body | {key: [body[key][0]] * 2})
    assert invalid_request(api, body)["error_code"] == 42


@pytest.mark.parametrize("api", [api_of(message) for message in ABOUT_THE_PARTITION])
def test_an_answer_about_another_partition_is_refused(api: str) -> None:
    version = SUPPORTED[api][1]
    data = encode(f"{api}Response", version, {"error_code": 0})
    body, _ = decode(f"{api}Response", version, data)
    with pytest.raises(ShapeError):
        response_from_body(api, version, body)


def test_requests_outside_of_the_quorum_protocol_are_refused() -> None:
    assert {api_of(m) for m in (*ABOUT_THE_PARTITION, *ABOUT_VOTERS)} == set(QUORUM_APIS)
    with pytest.raises(ShapeError):
        request_from_body("Metadata", 0, {})
    with pytest.raises(ShapeError):
        response_from_body("Metadata", 0, {"error_code": 104})
