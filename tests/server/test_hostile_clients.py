"""Clients that mean harm, against processes: each attack once ended a process or a quorum."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.protocol.codec import encode

TOPIC = "__cluster_metadata"


def about_epoch(api: str, leader: int, epoch: int) -> tuple[int, dict[str, Any]]:
    """A version and a body of Vote, BeginQuorumEpoch or EndQuorumEpoch."""
    partition: dict[str, Any] = {"partition_index": 0}
    if api == "Vote":
        partition |= {"replica_epoch": epoch, "replica_id": leader, "last_offset": 0}
        partition |= {"last_offset_epoch": 0, "replica_directory_id": b"d" * 16}
        version = 2
    else:
        partition |= {"leader_id": leader, "leader_epoch": epoch}
        version = 1
    return version, {"topics": [{"topic_name": TOPIC, "partitions": [partition]}]}


@pytest.fixture
def unharmed(shared: Any, wait_until: Callable[..., Any]) -> Iterator[Any]:
    """Lends three controllers out; afterwards all run and serve."""
    yield shared
    name = f"after-{next(NUMBERS)}"
    wait_until(lambda: shared.create(name) == 0, "the quorum serves")
    wait_until(lambda: name in shared.topics(shared.controller()), "and remembers")
    assert all(process.poll() is None for process in shared.processes.values())


NUMBERS = iter(range(1_000_000))


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2, 2**30])
@pytest.mark.parametrize("api", ["Vote", "BeginQuorumEpoch", "EndQuorumEpoch"])
def test_epochs_out_of_reach_are_refused(unharmed: Any, api: str, epoch: int) -> None:
    before = unharmed.traces(unharmed.controller())[-1]["epoch"]
    for node in unharmed.nodes:
        version, body = about_epoch(api, node % 3 + 1, epoch)
        assert unharmed.call(node, api, version, body)["error_code"] == 42
        assert unharmed.traces(node)[-1]["epoch"] < before + 100


def test_second_leader_of_an_epoch_is_refused(unharmed: Any) -> None:
    leader = unharmed.controller()
    epoch = unharmed.traces(leader)[-1]["epoch"]
    for node in unharmed.nodes:
        other = next(i for i in unharmed.nodes if i not in (node, leader))
        version, body = about_epoch("BeginQuorumEpoch", other, epoch)
        assert unharmed.call(node, "BeginQuorumEpoch", version, body)["error_code"] == 42
        assert any(line["kind"] == "contradiction" for line in unharmed.traces(node))


@pytest.fixture(scope="module")
def combined(tmp_path_factory: pytest.TempPathFactory, cluster_class: Any) -> Iterator[Any]:
    cluster = cluster_class(tmp_path_factory.mktemp("combined"), 1, combined=True)
    cluster.start()
    cluster.controller()
    cluster.serving()
    yield cluster
    cluster.close()


def test_forwarded_voter_with_a_listener_named_twice_is_refused(combined: Any) -> None:
    listener = {"name": "CONTROLLER", "host": "h", "port": 1}
    body = {"voter_id": 9, "voter_directory_id": b"d" * 16, "timeout_ms": 1000}
    answer = combined.ask_broker(1, "AddRaftVoter", 1, body | {"listeners": [listener] * 2})
    assert answer["error_code"] == 42
    assert combined.create("t") in (0, 36)


LARGE: dict[str, tuple[str, int, dict[str, Any]]] = {
    "1 MiB of empty names": ("Metadata", 9, {"topics": [{"name": ""}] * (1 << 19)}),
    "16 MiB of names": ("DeleteTopics", 5, {"topic_names": [""] * (16 << 19), "timeout_ms": 1}),
    "a count of items": ("DescribeQuorum", 2, {"topics": [{"topic_name": ""}] * 20_000}),
}


@pytest.mark.parametrize("attack", LARGE)
def test_large_requests_cost_no_time(combined: Any, attack: str) -> None:
    api, version, body = LARGE[attack]
    process = combined.processes[1].pid
    for port in (combined.ports[1], combined.broker_ports[1]):
        data = encode(f"{api}Request", version, body)
        head = {"Metadata": 3, "DeleteTopics": 20, "DescribeQuorum": 55}[api].to_bytes(2, "big")
        head += version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"
        before = cpu_seconds(process)
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            frame = (len(head) + len(data)).to_bytes(4, "big") + head + data
            with contextlib.suppress(OSError):
                client.sendall(frame)
                assert client.recv(1) == b""
        assert cpu_seconds(process) - before < 0.5
        assert combined.create("t") in (0, 36)


def test_idle_connections_take_no_descriptor_from_the_disk(
    make_cluster: Callable[[int], Any], wait_until: Callable[..., Any]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("this process may not open enough connections itself")
    single = make_cluster(1)
    single.start()
    single.controller()
    process = single.processes[1]
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    idle = []
    try:
        for _ in range(1100):
            idle.append(socket.create_connection(("127.0.0.1", single.ports[1]), 10))
        open_files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        assert open_files < 900
        for number in range(3):
            assert single.create(f"t{number}") == 0
        assert process.poll() is None
        assert "disk failed" not in single.stderr(1)
    finally:
        for client in idle:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: single.create("last") == 0, "it serves on")


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
