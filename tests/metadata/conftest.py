"""A quorum that commits when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.batch import decode_batch, encode_batch
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Loader
from kraftwreck.nodes.metadata.quorum import NotLeaderError, QuorumDescription, ReplicaProgress
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.records import decode_record

Body = dict[str, Any]


def incarnation(node_id: int, process: int) -> bytes:
    return bytes((node_id, process)) * 8


def directory(broker_id: int) -> bytes:
    return bytes((100, broker_id)) * 8


class FakeQuorum:
    """The log of one leader; nothing is committed before :meth:`Rig.commit`."""

    def __init__(self, node_id: int, voters: int) -> None:
        self.node_id = node_id
        self.cluster_id = "cluster"
        self.voters: Mapping[int, Endpoint] = {
            i: Endpoint(f"10.0.0.{i}", 9093) for i in range(1, voters + 1)
        }
        self.epoch = 0
        self.leader_id = -1
        self.high_watermark = 0
        self.log_end = 0
        self.uncommitted: list[bytes] = []
        self.resigned: list[int] = []
        self.kraft_version = 0
        self.voters_fault: str | None = "the voters are static"
        self.voter_changes: list[tuple[str, Body, Callable[[Body], None]]] = []

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    @property
    def next_offset(self) -> int:
        return self.log_end

    def append(self, epoch: int, records: Sequence[bytes], now: int) -> int:
        if not self.is_leader or epoch != self.epoch:
            raise NotLeaderError
        batch = encode_batch(self.log_end, epoch, 0, [(None, r) for r in records], False)
        self.uncommitted.append(batch)
        self.log_end += len(records)
        return self.log_end - 1

    def resign(self, epoch: int, now: int) -> None:
        self.resigned.append(epoch)

    def kraft_version_fault(self, level: int) -> str | None:
        return None if level == self.kraft_version else self.voters_fault

    def upgrade_kraft_version(self, level: int) -> None:
        if level != self.kraft_version:
            self.kraft_version = level
            self.control_batch()

    def control_batch(self) -> None:
        self.uncommitted.append(encode_batch(self.log_end, self.epoch, 0, [(b"k", b"v")], True))
        self.log_end += 1

    def change_voters(
        self,
        api: str,
        version: int,
        body: Body,
        answer: Callable[[Body], None],
        now: int,
    ) -> None:
        self.voter_changes.append((api, body, answer))

    def describe(self, now: int) -> QuorumDescription:
        voters = [ReplicaProgress(i, bytes(16), self.log_end, 1, 1) for i in sorted(self.voters)]
        return QuorumDescription(self.node_id, self.epoch, self.high_watermark, voters, [])


class Rig:
    """One controller, its quorum, and the answers it gave, by token."""

    def __init__(self, node_id: int = 1, voters: int = 3, **settings: Any) -> None:
        self.quorum = FakeQuorum(node_id, voters)
        self.image = MetadataImage()
        self.loader = Loader(self.image)
        self.controller = Controller(self.quorum, self.image, seed=7, **settings)
        self.now = 0
        self.answers: dict[int, Body] = {}
        self.versions: dict[int, tuple[str, int]] = {}
        self.committed_batches: list[bytes] = []

    def lead(self, epoch: int = 1) -> None:
        """Win ``epoch``: its control batch is committed, then the controller learns of it."""
        quorum = self.quorum
        quorum.epoch, quorum.leader_id = epoch, quorum.node_id
        quorum.control_batch()
        self.commit()
        self.controller.leader_changed(quorum.node_id, epoch, self.now)
        self.commit()

    def follow(self, leader: int, epoch: int) -> None:
        self.quorum.epoch, self.quorum.leader_id = epoch, leader
        self.controller.leader_changed(leader, epoch, self.now)
        self.quorum.uncommitted.clear()
        self.quorum.log_end = self.quorum.high_watermark

    def commit(self) -> None:
        batches, self.quorum.uncommitted = self.quorum.uncommitted, []
        for batch in batches:
            self.deliver(batch)

    def deliver(self, batch: bytes) -> None:
        header, _ = decode_batch(batch)
        self.committed_batches.append(batch)
        self.quorum.high_watermark = header.last_offset + 1
        self.quorum.log_end = max(self.quorum.log_end, header.last_offset + 1)
        self.loader.committed(batch)
        while self.loader.work():
            pass
        for applied in self.loader.take_applied():
            self.controller.applied(applied.offset, applied.epoch, self.now)
        self.collect()

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds * 1000
        self.controller.tick(self.now)
        self.collect()

    def ask(self, api: str, version: int, body: Body) -> int:
        """Send a request as it comes off the wire; return its token."""
        token = len(self.versions) + 1
        self.versions[token] = (api, version)
        complete, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, body))
        self.controller.handle(ApiRequest(token, api, version, complete), self.now, 0)
        self.collect()
        return token

    def collect(self) -> None:
        for reply in self.controller.take_replies():
            assert reply.token not in self.answers, "a request is answered once"
            api, version = self.versions[reply.token]
            wire = encode(f"{api}Response", version, reply.body)
            self.answers[reply.token], _ = decode(f"{api}Response", version, wire)

    def answered(self, token: int) -> bool:
        return token in self.answers

    def call(self, api: str, version: int, body: Body) -> Body:
        """Send a request, let time pass and commit until it is answered."""
        token = self.ask(api, version, body)
        self.commit()
        self.wait(5)
        self.commit()
        return self.answers[token]

    @staticmethod
    def decoded(values: Sequence[tuple[int, bytes | None, bytes | None]]) -> list[tuple[str, Body]]:
        found = []
        for _, _, value in values:
            assert value is not None
            name, _, fields = decode_record(value)
            found.append((name, fields))
        return found

    def record_versions(self) -> dict[str, int]:
        """Return the version of the last committed record of each name."""
        found = {}
        for batch in self.committed_batches:
            header, values = decode_batch(batch)
            if not header.is_control:
                for _, _, value in values:
                    name, version, _ = decode_record(value or b"")
                    found[name] = version
        return found

    def records(self) -> list[tuple[str, Body]]:
        """Return the committed metadata records."""
        found: list[tuple[str, Body]] = []
        for batch in self.committed_batches:
            header, records = decode_batch(batch)
            if not header.is_control:
                found.extend(self.decoded(records))
        return found

    # --- brokers

    @staticmethod
    def registration(broker_id: int, process: int = 1, **options: Any) -> Body:
        """A complete BrokerRegistration; ``process`` numbers the processes of one id."""
        features = {"metadata.version": (7, 27), "eligible.leader.replicas.version": (0, 1)}
        features |= options.pop("features", {})
        return {
            "broker_id": broker_id,
            "cluster_id": "cluster",
            "incarnation_id": incarnation(broker_id, process),
            "listeners": [{"name": "PLAINTEXT", "host": f"b{broker_id}", "port": 9092}],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in features.items()
            ],
            "rack": None,
            "log_dirs": [directory(broker_id)],
            "previous_broker_epoch": -1,
            **options,
        }

    def register(self, broker_id: int, process: int = 1, **options: Any) -> Body:
        body = self.registration(broker_id, process, **options)
        return self.call("BrokerRegistration", 4, body)

    def heartbeat(self, broker_id: int, **options: Any) -> Body:
        """A heartbeat of a broker that is up to date and wants to be unfenced."""
        return self.call("BrokerHeartbeat", 1, self.beat(broker_id, **options))

    def beat(self, broker_id: int, **options: Any) -> Body:
        broker = self.image.stable.brokers.get(broker_id)
        return {
            "broker_id": broker_id,
            "broker_epoch": -1 if broker is None else broker.epoch,
            "current_metadata_offset": self.image.stable_offset,
            "want_fence": False,
            "want_shut_down": False,
            **options,
        }

    def start(self, *brokers: int) -> None:
        """Register and unfence brokers."""
        for broker_id in brokers:
            assert self.register(broker_id)["error_code"] == 0
            assert self.heartbeat(broker_id)["is_fenced"] is False

    def since(self, mark: int) -> list[str]:
        """Return the names of the records committed after the first ``mark``, without NoOps."""
        return [name for name, _ in self.records()[mark:] if name != "NoOpRecord"]

    @staticmethod
    def creation(*names: str, validate_only: bool = False, **options: Any) -> Body:
        base = {"num_partitions": -1, "replication_factor": -1, **options}
        topics = [{"name": name, **base} for name in names]
        return {"topics": topics, "timeout_ms": 10_000, "validate_only": validate_only}

    @staticmethod
    def alteration(
        resource: str, name: str, operation: int, value: str | None, kind: int = 2
    ) -> Body:
        config = {"name": name, "config_operation": operation, "value": value}
        return {
            "resources": [{"resource_type": kind, "resource_name": resource, "configs": [config]}]
        }

    # --- the calls most tests make

    def create(self, *names: str, version: int = 7, **options: Any) -> Body:
        return self.call("CreateTopics", version, self.creation(*names, **options))

    def delete(self, *names: str) -> Body:
        return self.call("DeleteTopics", 5, {"topic_names": list(names)})

    def alter(
        self, resource: str, name: str, operation: int, value: str | None, kind: int = 2
    ) -> Body:
        body = self.alteration(resource, name, operation, value, kind)
        answer = self.call("IncrementalAlterConfigs", 1, body)
        response: Body = answer["responses"][0]
        return response

    def topics(self) -> list[str]:
        answer = self.call("Metadata", 12, {"topics": None})
        return [topic["name"] for topic in answer["topics"]]


@pytest.fixture
def rig() -> Rig:
    """An active controller of a quorum of three."""
    leader = Rig()
    leader.lead()
    return leader


@pytest.fixture
def make_rig() -> Callable[..., Rig]:
    return Rig


@pytest.fixture
def follower() -> Rig:
    """A controller that follows node 2."""
    node = Rig()
    node.follow(2, 1)
    return node
