"""A client of records keeps the newest leader epoch, and reads logs that come in pieces."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.sequence_numbers import SEQUENCES
from kraftwreck.systems.kraft.workloads.log_client import (
    MOST_BEFORE,
    Leader,
    LogClient,
    Position,
    find_leader,
    key_of,
    note_leaders,
    place_of,
)
from kraftwreck.systems.kraft.workloads.polling import MOST_WAITS, poll, read_all, uses_sessions


@pytest.fixture
def client() -> LogClient:
    return LogClient(
        ClientState(thread=0, nodes=("n1",), ids={1: "n1"}, seed=7, gateways=("b1", "b2"))
    )


def test_some_producers_begin_near_the_last_sequence_number(client: LogClient) -> None:
    seen = set()
    for number in range(60):
        client.begin(number, 0)
        first = client.numbers(2)[2]
        seen.add(first)
        client.used(2, MOST_BEFORE)
        assert client.numbers(2)[2] == (first + MOST_BEFORE) % SEQUENCES
        client.next_epoch()
        assert client.numbers(2) == (number, 1, 0)
    assert seen == {0, *range(SEQUENCES - MOST_BEFORE, SEQUENCES)}


def metadata(leader: int, epoch: int, topic: bytes = bytes(16)) -> dict[str, Any]:
    part = {"partition_index": 2, "leader_id": leader, "leader_epoch": epoch}
    return {
        "topics": [{"error_code": 0, "name": "records-0", "topic_id": topic, "partitions": [part]}]
    }


def test_a_forgotten_leader_does_not_come_back_from_an_older_epoch(client: LogClient) -> None:
    note_leaders(client, metadata(leader=3, epoch=1))
    assert client.leaders[2] == Leader("b2", 1)
    client.forget(2)
    stale = find_leader(client, 2)
    next(stale)
    with pytest.raises(StopIteration) as ended:
        stale.send(Answer("ok", metadata(leader=2, epoch=0)))
    assert ended.value.value is None
    note_leaders(client, metadata(leader=3, epoch=1))
    assert client.leaders[2] == Leader("b2", 1)


def test_another_topic_of_the_same_name_begins_with_its_own_leaders(client: LogClient) -> None:
    note_leaders(client, metadata(leader=3, epoch=4))
    client.positions[2] = Position(9, 4)
    note_leaders(client, metadata(leader=2, epoch=0, topic=b"another one, 16."))
    assert client.leaders[2] == Leader("b1", 0)
    assert 2 not in client.positions


def test_a_final_poll_reads_a_log_that_comes_in_small_pieces(client: LogClient) -> None:
    client.leaders[2] = Leader("b2", 0)
    end = 3 * MOST_WAITS
    reading: Generator[Call | Pause, Answer, Any] = read_all(client, [2])
    asked = next(reading)
    with pytest.raises(StopIteration) as ended:
        while True:
            assert isinstance(asked, Call), "it need not wait"
            asked = reading.send(Answer("ok", answer(asked, end)))
    found, error = ended.value.value
    assert (error, [offset for offset, _ in found[2]]) == ("", list(range(end)))


def answer(asked: Call, end: int) -> dict[str, Any]:
    """Answer as a broker with one record in each segment."""
    part: dict[str, Any] = {"partition_index": 2, "error_code": errors.NONE}
    wanted = asked.request.body["topics"][0]["partitions"][0]
    if asked.request.api == "ListOffsets":
        part["offset"] = end if wanted["timestamp"] == -1 else 0
        return {"topics": [{"name": "records-0", "partitions": [part]}]}
    offset = wanted["fetch_offset"]
    part["records"] = encode_batch(offset, 0, 0, [(None, b"7")], False) if offset < end else b""
    part["diverging_epoch"] = {"epoch": -1, "end_offset": -1}
    responses = [{"topic": "records-0", "partitions": [part]}]
    return {"error_code": errors.NONE, "session_id": 0, "responses": responses}


def test_keys_of_deleted_records_are_negative_and_have_topics_of_their_own() -> None:
    for key in range(-7, 7):
        topic, partition = place_of(key)
        assert key_of(topic, partition) == key
        assert topic.startswith("records-") == (key >= 0)


def test_a_fetch_session_names_only_what_has_changed(client: LogClient) -> None:
    client.state.thread = next(each for each in range(9) if uses_sessions(7, each))
    client.leaders = {key: Leader("b2", 0) for key in (0, 1)}
    client.positions = {key: Position(0) for key in (0, 1)}
    client.assigned = [0, 1]
    first = fetch(client, {0: 3})
    assert (first["session_id"], first["session_epoch"], named(first)) == (0, 0, [0, 1])
    second = fetch(client, {})
    assert (second["session_id"], second["session_epoch"], named(second)) == (9, 1, [0])
    client.assigned = [1]
    third = fetch(client, {})
    assert (third["session_epoch"], named(third)) == (2, [])
    assert third["forgotten_topics_data"] == [{"topic": "records-0", "partitions": [0]}]


def fetch(client: LogClient, records: dict[int, int]) -> dict[str, Any]:
    """Poll once; the answer of session 9 has so many records of each partition."""
    polling = poll(client, 1 << 20)
    asked = next(polling)
    assert isinstance(asked, Call)
    parts = [
        {
            "partition_index": number,
            "error_code": errors.NONE,
            "diverging_epoch": {"epoch": -1, "end_offset": -1},
            "records": encode_batch(0, 0, 0, [(None, b"7")] * count, False),
        }
        for number, count in records.items()
    ]
    body = {
        "error_code": errors.NONE,
        "session_id": 9,
        "responses": [{"topic": "records-0", "partitions": parts}],
    }
    with pytest.raises(StopIteration):
        polling.send(Answer("ok", body))
    body_sent: dict[str, Any] = asked.request.body
    return body_sent


def named(request: dict[str, Any]) -> list[int]:
    return [part["partition"] for topic in request["topics"] for part in topic["partitions"]]
