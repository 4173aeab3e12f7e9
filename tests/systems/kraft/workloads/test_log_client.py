"""A client of records keeps the newest leader epoch, and reads logs that come in pieces."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.log_client import (
    Leader,
    LogClient,
    find_leader,
    note_leaders,
)
from kraftwreck.systems.kraft.workloads.polling import MOST_WAITS, read_all


@pytest.fixture
def client() -> LogClient:
    return LogClient(
        ClientState(thread=0, nodes=("n1",), ids={1: "n1"}, seed=7, gateways=("b1", "b2"))
    )


def metadata(leader: int, epoch: int) -> dict[str, Any]:
    part = {"partition_index": 2, "leader_id": leader, "leader_epoch": epoch}
    return {"topics": [{"error_code": 0, "name": "records-0", "partitions": [part]}]}


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
    return {"responses": [{"topic": "records-0", "partitions": [part]}]}
