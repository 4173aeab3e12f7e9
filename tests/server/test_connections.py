"""Clients' input: answers come in order, and malformed requests do no harm."""

from __future__ import annotations

import os
import random
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.protocol.apis import encode_request

VOTE: dict[str, Any] = {
    "cluster_id": "another cluster",
    "voter_id": 1,
    "topics": [
        {
            "topic_name": "__cluster_metadata",
            "partitions": [{"partition_index": 0, "replica_epoch": 999, "replica_id": 2}],
        }
    ],
}


def request(key: int, version: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhih", key, version, 1, -1) + body


@pytest.fixture
def healthy(shared: Any, wait_until: Callable[..., Any]) -> Any:
    """Lends the cluster out and checks afterwards that it was not disturbed."""
    leader = shared.controller()
    epoch = shared.traces(leader)[-1]["epoch"]
    yield shared
    assert all(process.poll() is None for process in shared.processes.values())
    assert shared.controller() == leader
    assert shared.traces(leader)[-1]["epoch"] == epoch
    assert "fatal" not in "".join(map(shared.stderr, shared.ports))


def test_pipelined_requests_are_answered_in_order(healthy: Any) -> None:
    leader = healthy.controller()
    with healthy.client(leader) as client:
        # The first waits for a commit, the second could be answered at once.
        first = client.send("Metadata", 12, {"topics": None})
        second = client.send("ApiVersions", 3, {})
        assert client.receive("Metadata", 12)[0] == first
        assert client.receive("ApiVersions", 3)[0] == second


def test_many_pipelined_requests_are_all_answered(healthy: Any) -> None:
    with healthy.client(healthy.controller()) as client:
        sent = [client.send("Metadata", 12, {"topics": None}) for _ in range(500)]
        assert [client.receive("Metadata", 12)[0] for _ in sent] == sent


def test_a_frame_may_come_in_pieces(healthy: Any) -> None:
    with healthy.client(1) as client:
        data = encode_request("ApiVersions", 3, 5, "t", {})
        for byte in len(data).to_bytes(4, "big") + data:
            client.socket.sendall(bytes([byte]))
        assert client.receive("ApiVersions", 3)[0] == 5


def test_an_unknown_version_of_apiversions_is_answered_in_version_0(healthy: Any) -> None:
    with healthy.client(1) as client:
        client.frame(request(18, 99, b"\0\0\0\0"))
        correlation, answer = client.receive("ApiVersions", 0)
        assert (correlation, answer["error_code"]) == (1, 35)
        served = {a["api_key"]: a["max_version"] for a in answer["api_keys"]}
        assert served[18] == 4
        assert client.call("ApiVersions", 4, {})["error_code"] == 0


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\x06\x40\x00\x01", "a frame of 104857601 bytes"),
        (b"\x00\x00\x00\x00", "a frame of 0 bytes"),
        (b"\x00\x01\x00\x01" + request(52, 2), "a Vote request of 65537 bytes is too long"),
        (b"GET / HTTP/1.1\r\n\r\n", "is not a request"),
    ],
)
def test_impossible_lengths_close_the_connection(healthy: Any, raw: bytes, reason: str) -> None:
    with healthy.client(1) as client:
        client.socket.sendall(raw)
        assert client.closed()
    assert reason in healthy.stderr(1)


@pytest.mark.parametrize(
    "frame",
    [
        request(0, 9),  # Produce is not served
        request(999, 0),
        request(-1, 0),
        request(19, 99),
        request(52, 3),
        request(3, 12),  # ends too early
        request(19, 7, b"\xff" * 40),
        request(3, 4, b"\x7f\xff\xff\xff"),  # an array of two thousand million topics
        struct.pack(">hhih", 3, 12, 1, 30000),  # a client id that is not there
        struct.pack(">hhih", 3, 12, 1, 2) + b"\xff\xfe\0\0\0",  # one that is not UTF-8
    ],
)
def test_malformed_requests_close_the_connection(healthy: Any, frame: bytes) -> None:
    with healthy.client(1) as client:
        client.frame(frame)
        assert client.closed()


def test_an_abandoned_frame_and_an_abandoned_answer_are_forgotten(healthy: Any) -> None:
    with healthy.client(1) as client:
        client.socket.sendall(b"\x00\x00\x00\x50\x00\x03")
    with healthy.client(healthy.controller()) as client:
        client.send("Metadata", 12, {"topics": None})


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_do_no_harm(healthy: Any, seed: int) -> None:
    dice = random.Random(seed)
    keys = [1, 3, 18, 19, 20, 32, 44, 52, 53, 54, 55, 60]
    for _ in range(60):
        with healthy.client(dice.choice([1, 2, 3])) as client:
            body = dice.randbytes(dice.randrange(80))
            if dice.random() < 0.8:
                body = struct.pack(">hhihb", dice.choice(keys), dice.randrange(14), 1, -1, 0) + body
            client.frame(body)


def test_another_clusters_vote_changes_nothing(healthy: Any) -> None:
    answer = healthy.call(1, "Vote", 2, VOTE)
    assert answer["error_code"] == 104


def test_a_vote_about_nothing_is_an_invalid_request(healthy: Any) -> None:
    answer = healthy.call(1, "Vote", 2, {**VOTE, "topics": []})
    assert answer["error_code"] == 42


def test_a_fetch_of_something_else_is_an_invalid_request(healthy: Any) -> None:
    answer = healthy.call(1, "Fetch", 13, {"max_wait_ms": 1, "topics": []})
    assert answer["error_code"] == 42


def test_the_committed_log_can_be_fetched_from_the_leader(healthy: Any) -> None:
    leader = healthy.controller()
    epoch = healthy.traces(leader)[-1]["epoch"]
    partition = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0}
    partition |= {"last_fetched_epoch": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "__cluster_metadata", "partitions": [partition]}]
    answer = healthy.call(leader, "Fetch", 12, {"max_wait_ms": 0, "topics": topics})
    [fetched] = answer["responses"][0]["partitions"]
    assert fetched["error_code"] == 0
    assert fetched["high_watermark"] > 0
    assert len(fetched["records"]) > 61


@pytest.mark.wall_clock("measures CPU seconds in a second of the wall")
def test_running_out_of_descriptors_is_survived(
    make_cluster: Callable[[int], Any], wait_until: Callable[..., Any]
) -> None:
    single = make_cluster(1)
    single.start()
    single.controller()
    process = single.processes[1].pid
    resource.prlimit(process, resource.RLIMIT_NOFILE, (40, 40))
    clients = [single.client(1) for _ in range(60)]
    before = cpu_seconds(process)
    time.sleep(1.5)
    assert cpu_seconds(process) - before < 1.0, "it spins"
    for client in clients:
        client.socket.close()
    wait_until(lambda: single.create("t") == 0, "the node serves again")
    assert single.stderr(1).count("out of system resource") == 1


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
