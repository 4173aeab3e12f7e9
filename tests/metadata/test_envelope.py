"""Forwarded requests: an envelope in, an envelope out, and what must not be inside one."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.metadata.envelope import FORWARDABLE, VOTER_CHANGES, unwrap
from kraftwreck.nodes.protocol.apis import SUPPORTED, decode_response, encode_request
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.versioned import encode_versioned

NONE, UNSUPPORTED, NOT_CONTROLLER, BAD_REQUEST, BAD_PRINCIPAL = 0, 35, 41, 42, 97
PRINCIPAL = encode_versioned("DefaultPrincipalData", 0, {"type": "User", "name": "ANONYMOUS"})
CORRELATION = 4711

REQUESTS: dict[str, dict[str, Any]] = {
    "CreateTopics": {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]},
    "DeleteTopics": {"topics": [{"name": "t"}], "topic_names": ["t"]},
    "CreatePartitions": {"topics": [{"name": "t", "count": 2}]},
    "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "t", "configs": []}]},
    "IncrementalAlterConfigs": {
        "resources": [{"resource_type": 2, "resource_name": "t", "configs": []}]
    },
    "ElectLeaders": {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
    "AlterPartitionReassignments": {"topics": []},
    "ListPartitionReassignments": {"topics": None},
    "UpdateFeatures": {"feature_updates": []},
    "UnregisterBroker": {"broker_id": 1},
    "UnregisterController": {"controller_id": 1},
    "DescribeQuorum": {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    "AddRaftVoter": {"voter_id": 4, "voter_directory_id": bytes(16), "listeners": []},
    "RemoveRaftVoter": {"voter_id": 4, "voter_directory_id": bytes(16)},
}
EVERY_VERSION = [
    (api, version)
    for api in sorted(REQUESTS)
    for version in range(SUPPORTED[api][0], SUPPORTED[api][1] + 1)
]


def envelope(api: str, version: int, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {
        "request_data": encode_request(api, version, CORRELATION, "client", body),
        "request_principal": PRINCIPAL,
        "client_host_address": bytes((10, 0, 0, 9)),
        **options,
    }


def refused(rig: Any, body: dict[str, Any]) -> int:
    answer = rig.call("Envelope", 0, body)
    assert answer["response_data"] is None
    code: int = answer["error_code"]
    return code


def test_everything_forwardable_is_tried_here() -> None:
    assert set(REQUESTS) == FORWARDABLE


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_forwarded_request_is_answered_as_if_it_had_come_by_itself(
    make_rig: Any, api: str, version: int
) -> None:
    answers = []
    for forwarded in (True, False):
        rig = make_rig()
        rig.lead()
        body = REQUESTS[api]
        if forwarded:
            token = rig.ask("Envelope", 0, envelope(api, version, body))
        elif api not in VOTER_CHANGES:
            token = rig.ask(api, version, body)
        for _, _, answer in rig.quorum.voter_changes:
            answer({"throttle_time_ms": 0, "error_code": 126, "error_message": "twice"})
        rig.commit()
        rig.wait(5)
        rig.commit()
        if forwarded:
            outer = rig.answers[token]
            assert outer["error_code"] == NONE
            correlation, inner = decode_response(api, version, outer["response_data"])
            assert correlation == CORRELATION
            answers.append(inner)
        elif api not in VOTER_CHANGES:
            answers.append(rig.answers[token])
    if api in VOTER_CHANGES:
        assert answers[0]["error_code"] == 126
    else:
        assert answers[0] == answers[1]


def test_changes_of_voters_go_to_the_quorum(rig: Any) -> None:
    token = rig.ask("Envelope", 0, envelope("AddRaftVoter", 1, REQUESTS["AddRaftVoter"]))
    [(api, body, answer)] = rig.quorum.voter_changes
    assert (api, body["voter_id"]) == ("AddRaftVoter", 4)
    rig.wait(60_000)
    assert not rig.answered(token), "the quorum answers when it is done"
    answer({"throttle_time_ms": 0, "error_code": NONE, "error_message": None})
    rig.collect()
    assert rig.answers[token]["error_code"] == NONE


def test_an_answer_waits_for_its_commit(rig: Any) -> None:
    token = rig.ask("Envelope", 0, envelope("CreateTopics", 7, REQUESTS["CreateTopics"]))
    assert not rig.answered(token)
    rig.commit()
    assert rig.answered(token)


@pytest.mark.parametrize(
    "api",
    ["Metadata", "BrokerHeartbeat", "BrokerRegistration", "AlterPartition", "AllocateProducerIds"],
)
def test_requests_that_may_not_be_forwarded(rig: Any, api: str) -> None:
    version = SUPPORTED[api][1]
    body, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, {}))
    assert refused(rig, envelope(api, version, body)) == BAD_REQUEST


def test_an_envelope_inside_an_envelope_is_refused(rig: Any) -> None:
    inner = envelope("CreateTopics", 7, REQUESTS["CreateTopics"])
    assert refused(rig, envelope("Envelope", 0, inner)) == BAD_REQUEST
    assert rig.topics() == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"request_data": b""}, BAD_REQUEST),
        ({"request_data": b"\x00\x13\x00\x07\x00"}, BAD_REQUEST),
        ({"request_data": b"\x7f\x00" + bytes(20)}, BAD_REQUEST),
        ({"request_principal": None}, BAD_PRINCIPAL),
        ({"request_principal": b"\x00"}, BAD_PRINCIPAL),
        ({"request_principal": b"\x00\x09" + PRINCIPAL[2:]}, BAD_PRINCIPAL),
        ({"client_host_address": b"\x0a"}, BAD_REQUEST),
    ],
)
def test_envelopes_that_cannot_be_read(rig: Any, change: dict[str, Any], code: int) -> None:
    assert refused(rig, envelope("CreateTopics", 7, REQUESTS["CreateTopics"]) | change) == code


def test_a_version_that_is_not_served(rig: Any) -> None:
    body = envelope("CreateTopics", 7, REQUESTS["CreateTopics"])
    body["request_data"] = b"\x00\x13\x00\x63" + body["request_data"][4:]
    assert refused(rig, body) == UNSUPPORTED


def test_the_body_must_be_whole(rig: Any) -> None:
    body = envelope("CreateTopics", 7, REQUESTS["CreateTopics"])
    body["request_data"] = body["request_data"][:-4]
    assert refused(rig, body) == BAD_REQUEST


def test_clients_cannot_send_envelopes(rig: Any) -> None:
    body = envelope("CreateTopics", 7, REQUESTS["CreateTopics"])
    rig.controller.handle(ApiRequest(99, "Envelope", 0, body, listener="PLAINTEXT"), 0, 0)
    [reply] = rig.controller.take_replies()
    assert reply.body == {"response_data": None, "error_code": BAD_REQUEST}
    assert not rig.quorum.uncommitted


def test_the_principal_and_the_host_of_a_forwarded_request_are_known() -> None:
    inside = unwrap(envelope("DescribeQuorum", 2, REQUESTS["DescribeQuorum"]))
    assert (inside.principal, inside.host, inside.client_id) == (
        "User:ANONYMOUS",
        "10.0.0.9",
        "client",
    )
    v6 = envelope("DescribeQuorum", 2, REQUESTS["DescribeQuorum"], client_host_address=bytes(16))
    assert unwrap(v6).host == "::"


@pytest.mark.parametrize("api", sorted(REQUESTS))
def test_a_standby_says_so_on_the_envelope(follower: Any, api: str) -> None:
    """The broker looks for the controller; its client knows nothing of controllers."""
    assert refused(follower, envelope(api, SUPPORTED[api][1], REQUESTS[api])) == NOT_CONTROLLER
    assert not follower.quorum.voter_changes


def test_a_read_without_controller_fails_on_the_envelope(rig: Any) -> None:
    body = envelope("ListPartitionReassignments", 0, {"topics": None})
    token = rig.ask("Envelope", 0, body)
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[token] == {"response_data": None, "error_code": NOT_CONTROLLER}


def test_a_write_without_controller_fails_inside_the_envelope(rig: Any) -> None:
    token = rig.ask("Envelope", 0, envelope("CreateTopics", 7, REQUESTS["CreateTopics"]))
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[token]["error_code"] == NONE
    _, inner = decode_response("CreateTopics", 7, rig.answers[token]["response_data"])
    assert inner["topics"][0]["error_code"] == 7
