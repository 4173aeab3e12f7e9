"""Forwarding by brokers: one attempt if the request may have been carried out, else retries."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.broker.apis import CLIENT_APIS, FORWARDED, READS, WRITES
from kraftwreck.nodes.metadata.envelope import FORWARDABLE, refused, unwrap, wrap
from kraftwreck.nodes.metadata.failure import refusal
from kraftwreck.nodes.protocol.apis import SUPPORTED, encode_response
from kraftwreck.nodes.protocol.codec import decode, encode

NO_CONTROLLER, TIMED_OUT, UNKNOWN = 41, 7, -1
CREATE = {
    "topics": [{"name": "t", "num_partitions": 3, "replication_factor": 1}],
    "timeout_ms": 5000,
}
CREATED = {"topics": [{"name": "t", "error_code": 0, "num_partitions": 3}]}
QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def described(code: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "error_code": code, "leader_id": 2}
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}


def envelope(running: Any) -> Any:
    """Return the envelope that was sent last."""
    return running.last("Envelope")


def open_it(request: Any) -> Any:
    """Open an envelope as the controller does."""
    return unwrap(decode("EnvelopeRequest", 0, encode("EnvelopeRequest", 0, request.body))[0])


@pytest.mark.parametrize(
    ("client", "seen"),
    [("10.0.0.9", "10.0.0.9"), ("fe80::1%eth0", "fe80::1"), ("n7", "0.0.0.0")],
)
def test_the_envelope_carries_the_client_request_and_its_answer(
    running: Any, client: str, seen: str
) -> None:
    token = running.ask("CreateTopics", 7, CREATE, client)
    request = envelope(running)
    assert (request.destination, request.timeout_ms) == (1, 5000)
    inside = open_it(request)
    assert (inside.api, inside.version, inside.client_id) == ("CreateTopics", 7, "broker-4")
    assert (inside.principal, inside.host) == ("User:ANONYMOUS", seen)
    assert inside.body["topics"][0]["num_partitions"] == 3
    assert token not in running.replies
    running.answer(wrap(inside, CREATED))
    assert running.replies[token]["topics"][0]["error_code"] == 0


def test_every_forwarded_api_may_be_forwarded_and_can_be_refused() -> None:
    assert FORWARDED <= FORWARDABLE
    for api in FORWARDED:
        low, high = SUPPORTED[api]
        for version in range(low, high + 1):
            body, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, {}))
            encode(f"{api}Response", version, refusal(api, version, body, TIMED_OUT, "late"))


def test_nothing_is_both_forwarded_and_answered_here() -> None:
    assert len(set(CLIENT_APIS)) == len(CLIENT_APIS)
    assert "Envelope" not in CLIENT_APIS
    assert not {"Fetch", "Vote", "BrokerHeartbeat", "Produce"} & set(CLIENT_APIS)


def test_not_controller_is_retried_and_a_new_controller_is_tried_at_once(running: Any) -> None:
    token = running.ask("CreateTopics", 7, CREATE)
    first = envelope(running)
    running.answer(refused(NO_CONTROLLER))
    assert running.until_due() == 50
    assert envelope(running).destination == 1
    running.answer(refused(NO_CONTROLLER))
    running.quorum.led_by(3)
    running.tick()
    again = next(r for r in reversed(running.sent) if r.api == "Envelope")
    assert (again.destination, again.body) == (3, first.body)
    running.answer(wrap(open_it(again), CREATED), to=again)
    assert running.replies[token]["topics"][0]["name"] == "t"


def test_without_a_controller_the_clients_time_out_counts(running: Any) -> None:
    running.quorum.led_by(-1)
    token = running.ask("CreateTopics", 7, CREATE)
    running.tick(4999)
    assert token not in running.replies
    running.tick(1)
    assert running.replies[token]["topics"][0]["error_code"] == TIMED_OUT
    assert not any(request.api == "Envelope" for request in running.sent)


def test_a_request_that_names_no_time_out_waits_half_a_minute(running: Any) -> None:
    running.quorum.led_by(-1)
    token = running.ask("UnregisterBroker", 0, {"broker_id": 5})
    running.tick(29_999)
    assert token not in running.replies
    running.tick(1)
    assert running.replies[token]["error_code"] == TIMED_OUT


def test_a_write_that_was_not_sent_is_sent_again(running: Any) -> None:
    token = running.ask("CreateTopics", 7, CREATE)
    running.answer(None, sent=False)
    assert token not in running.replies
    running.until_due()
    running.answer(wrap(open_it(envelope(running)), CREATED))
    assert running.replies[token]["topics"][0]["error_code"] == 0


def test_a_write_that_may_have_been_done_is_not_repeated(running: Any) -> None:
    token = running.ask("CreateTopics", 7, CREATE)
    sent = len(running.sent)
    running.answer(None, sent=True)
    [topic] = running.replies[token]["topics"]
    assert topic["error_code"] == TIMED_OUT
    assert "may have been" in topic["error_message"]
    running.tick(1000)
    assert len(running.sent) == sent


def test_a_read_is_retried_after_any_failure(running: Any) -> None:
    token = running.ask("DescribeQuorum", 2, QUORUM)
    assert envelope(running).timeout_ms == 2000, "another attempt is worth more than waiting"
    running.answer(None, sent=True)
    running.until_due()
    running.answer(wrap(open_it(envelope(running)), described(6)))
    assert token not in running.replies, "who does not lead cannot describe the quorum"
    running.until_due()
    running.answer(wrap(open_it(envelope(running)), described(0)))
    [topic] = running.replies[token]["topics"]
    assert topic["partitions"][0]["leader_id"] == 2


def test_an_answer_that_comes_after_the_time_out_is_dropped(running: Any) -> None:
    token = running.ask("CreateTopics", 7, CREATE)
    request = envelope(running)
    running.tick(5000)
    assert running.replies[token]["topics"][0]["error_code"] == TIMED_OUT
    assert not running.answer(wrap(open_it(request), CREATED), to=request)


def test_requests_do_not_wait_for_each_other_nor_hold_up_heartbeats(running: Any) -> None:
    first = running.ask("CreateTopics", 7, CREATE)
    one = envelope(running)
    second = running.ask("CreateTopics", 7, CREATE)
    two = envelope(running)
    assert one.correlation != two.correlation
    running.tick(2000)
    assert running.last("BrokerHeartbeat")
    running.answer(wrap(open_it(two), CREATED), to=two)
    assert second in running.replies
    assert first not in running.replies


@pytest.mark.parametrize(("code", "shown"), [(97, 97), (42, 42), (35, UNKNOWN)])
def test_a_refused_envelope_is_a_refused_request(running: Any, code: int, shown: int) -> None:
    token = running.ask("DeleteTopics", 6, {"topics": [{"name": "t"}], "timeout_ms": 1000})
    running.answer(refused(code))
    [answer] = running.replies[token]["responses"]
    assert (answer["name"], answer["error_code"]) == ("t", shown)


@pytest.mark.parametrize(
    "data", [b"", b"\0", encode_response("CreateTopics", 7, 99, CREATED)], ids=repr
)
def test_an_answer_that_makes_no_sense_is_an_error(running: Any, data: bytes) -> None:
    token = running.ask("CreateTopics", 7, CREATE)
    running.answer({"error_code": 0, "response_data": data})
    assert running.replies[token]["topics"][0]["error_code"] == UNKNOWN


def test_an_election_of_all_partitions_can_be_refused(running: Any) -> None:
    body = {"election_type": 0, "topic_partitions": None, "timeout_ms": 0}
    token = running.ask("ElectLeaders", 2, body)
    running.tick(1)
    assert running.replies[token]["error_code"] == TIMED_OUT


def test_reads_and_writes_are_distinguished() -> None:
    assert not set(READS) & set(WRITES)
