"""We read the log and the snapshots Apache Kafka writes, and would write the same bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.log.format import load_meta
from kraftwreck.nodes.log.quorum_state import read as read_quorum_state
from kraftwreck.nodes.log.uuids import random_uuid
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.dump import Batch, difference, kafka_dump, our_dump, re_encoded
from kraftwreck.oracle.java import Ran
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, Quorum, wait_until
from kraftwreck.oracle.silent_broker import SilentBroker

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
BROKERS = (100, 101, 102)
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": 2000,
    "metadata.max.idle.interval.ms": 100,
}
USERS = tuple(
    option
    for name in ("kept", "gone")
    for option in ("--add-scram", f"SCRAM-SHA-256=[name={name},iterations=4096,password=secret]")
)
ALTER_CLIENT_QUOTAS = 49
ALTER_USER_SCRAM_CREDENTIALS = 51
SHA_256 = 1
SEEN_IN_LOG = {
    "LeaderChange",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
}
SEEN_IN_SNAPSHOTS = {
    "SnapshotHeader",
    "SnapshotFooter",
    "FeatureLevelRecord",
    "RegisterBrokerRecord",
    "TopicRecord",
    "PartitionRecord",
    "ConfigRecord",
    "UserScramCredentialRecord",
}


def done(answer: dict[str, Any] | None) -> dict[str, Any]:
    """Return an answer that must be there and carry no error at all."""
    assert answer is not None

    def errors(value: Any) -> Iterator[int]:
        if isinstance(value, dict):
            if "error_code" in value:
                yield value["error_code"]
            for inner in value.values():
                yield from errors(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from errors(inner)

    assert set(errors(answer)) <= {0}, answer
    return answer


def by_hand(quorum: Quorum, api_key: int, version: int, body: bytes) -> bytes:
    """Send a request of an API our codec does not know; return the answer's body."""
    header = struct.pack(">hhih", api_key, version, 7, -1) + b"\0"
    frame = header + body
    with socket.create_connection((HOST, quorum.ports[1]), 10) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        answer = connection.recv(size, socket.MSG_WAITALL)
    correlation_id_tags_throttle_time = struct.pack(">ibi", 7, 0, 0)
    assert answer.startswith(correlation_id_tags_throttle_time)
    return answer.removeprefix(correlation_id_tags_throttle_time)


def text(value: str) -> bytes:
    """Return a compact string of fewer than 127 bytes."""
    return bytes((len(value) + 1,)) + value.encode()


def with_quotas_and_users(quorum: Quorum) -> None:
    entity = b"\2" + text("user") + text("quoted") + b"\0"
    change = b"\2" + text("controller_mutation_rate") + struct.pack(">d?", 1024.5, False) + b"\0"
    request = b"\2" + entity + change + b"\0" + b"\0" + b"\0"
    no_error_or_message = b"\0\0" + b"\0"
    answer = by_hand(quorum, ALTER_CLIENT_QUOTAS, 1, request)
    assert answer == b"\2" + no_error_or_message + entity + b"\0" + b"\0"
    deletion = b"\2" + text("gone") + bytes((SHA_256,)) + b"\0"
    answer = by_hand(quorum, ALTER_USER_SCRAM_CREDENTIALS, 0, deletion + b"\1" + b"\0")
    assert answer == b"\2" + text("gone") + no_error_or_message + b"\0" + b"\0"


def with_access_control(quorum: Quorum, tool: Tool) -> None:
    def acls(*arguments: str) -> None:
        command = "org.apache.kafka.tools.AclCommand"
        address = f"{HOST}:{quorum.ports[1]}"
        entry = ("--allow-principal", "User:a", "--topic", "t", "--operation", "Read")
        tool(command, "--bootstrap-controller", address, *arguments, *entry)

    acls("--add")
    acls("--remove", "--force")


def with_requests(quorum: Quorum, epoch: int) -> None:
    """Write topics, partitions, configs, producer ids and the end of a broker."""
    topics = [
        {"name": name, "num_partitions": 4, "replication_factor": 2} for name in ("kept", "gone")
    ]
    done(quorum.call(1, "CreateTopics", 7, {"topics": topics, "timeout_ms": 9000}))
    more = [{"name": "kept", "count": 6, "assignments": None}]
    done(quorum.call(1, "CreatePartitions", 3, {"topics": more, "timeout_ms": 9000}))
    change = {"name": "retention.ms", "config_operation": 0, "value": "7"}
    resource = {"resource_type": 2, "resource_name": "kept", "configs": [change]}
    done(quorum.call(1, "IncrementalAlterConfigs", 1, {"resources": [resource]}))
    moves = [{"partition_index": number, "replicas": [100, 102]} for number in range(4)]
    body = {"topics": [{"name": "kept", "partitions": moves}], "timeout_ms": 9000}
    done(quorum.call(1, "AlterPartitionReassignments", 0, body))
    body = {"broker_id": BROKERS[0], "broker_epoch": epoch}
    done(quorum.call(1, "AllocateProducerIds", 0, body))
    gone = [{"name": "gone", "topic_id": bytes(16)}]
    done(quorum.call(1, "DeleteTopics", 6, {"topics": gone, "timeout_ms": 9000}))


@pytest.fixture(scope="module")
def kafka(make_quorum: Callable[..., Quorum], tool: Tool) -> Quorum:
    """A controller of Apache Kafka that has written much, has stopped and lies on disk."""
    quorum = make_quorum(KAFKA, properties=PROPERTIES, format_options=USERS)
    quorum.start()
    quorum.leader()
    ports = list(quorum.ports.values())
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(SilentBroker(number, 9092, CLUSTER_ID, ports)) for number in BROKERS
        ]
        for broker in brokers:
            assert broker.unfenced.wait(60)
        with_requests(quorum, brokers[0].epoch)
        with_quotas_and_users(quorum)
        with_access_control(quorum, tool)
    done(quorum.call(1, "UnregisterBroker", 0, {"broker_id": BROKERS[1]}))

    def whole_snapshot() -> bool:
        return any("kept" in path.read_bytes().decode("latin-1") for path in snapshots(quorum))

    wait_until("a snapshot with the topic", whole_snapshot)
    quorum.controllers[1].stop()
    return quorum


def segments(quorum: Quorum) -> list[Path]:
    return sorted(quorum.controllers[1].log.glob("*.log"))


def snapshots(quorum: Quorum) -> list[Path]:
    return sorted(quorum.controllers[1].log.glob("*.checkpoint"))


def names(batches: list[Batch]) -> set[str]:
    return {record.name for batch in batches for record in batch.records}


def check(path: Path) -> list[Batch]:
    """Hold what we read of a file against what Kafka reads, and write it again."""
    data = path.read_bytes()
    ours = our_dump(data)
    assert difference(kafka_dump(path), ours) is None
    assert re_encoded(data) == data
    assert sum(batch.size for batch in ours) == len(data)
    return ours


def test_every_record_of_its_log_is_read_and_written_alike(kafka: Quorum) -> None:
    seen: set[str] = set()
    for path in segments(kafka):
        seen |= names(check(path))
    assert seen >= SEEN_IN_LOG


def test_every_record_of_its_snapshots_is_read_and_written_alike(kafka: Quorum) -> None:
    assert snapshots(kafka)
    seen: set[str] = set()
    for path in snapshots(kafka):
        batches = check(path)
        assert batches[0].records[0].name == "SnapshotHeader"
        assert batches[-1].records[-1].name == "SnapshotFooter"
        seen |= names(batches)
    assert seen >= SEEN_IN_SNAPSHOTS


def test_its_bootstrap_checkpoint_is_read_and_written_alike(kafka: Quorum, tmp_path: Path) -> None:
    # The dump tool takes a snapshot for one by its name.
    path = tmp_path / f"{0:020d}-{0:010d}.checkpoint"
    path.write_bytes((kafka.controllers[1].data / "bootstrap.checkpoint").read_bytes())
    assert "FeatureLevelRecord" in names(check(path))


def test_its_other_files_are_read(kafka: Quorum) -> None:
    data = kafka.controllers[1].data
    meta = load_meta(data, CLUSTER_ID, 1)
    assert len(meta.directory_id) == len(random_uuid())
    state = read_quorum_state(data)
    assert state is not None
    assert (state.epoch >= 1, state.leader_id, state.voters) == (True, 1, (1,))
