"""A cluster that is an image: records go over the wire and are committed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.alter_configs import incremental_alter_configs
from kraftwreck.nodes.metadata.alter_partition import alter_partition
from kraftwreck.nodes.metadata.create_partitions import create_partitions
from kraftwreck.nodes.metadata.elections import elect_leaders
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.features import update_features
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.image_values import Partition
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record, Settings
from kraftwreck.nodes.metadata.partition_change import (
    changes_for_fenced,
    changes_for_shutdown,
    changes_for_unclean,
    changes_for_unfenced,
)
from kraftwreck.nodes.metadata.reassign import alter_partition_reassignments
from kraftwreck.nodes.metadata.topics import create_topics, delete_topics
from kraftwreck.nodes.protocol.codec import decode, encode
from kraftwreck.nodes.protocol.records import decode_record, encode_record

Operation = Callable[[Context, int, Body], Outcome]
Batch = list[tuple[str, Body]]

OPERATIONS: dict[str, Operation] = {
    "UpdateFeatures": update_features,
    "AlterPartition": alter_partition,
    "AlterPartitionReassignments": alter_partition_reassignments,
    "CreatePartitions": create_partitions,
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "ElectLeaders": elect_leaders,
    "IncrementalAlterConfigs": incremental_alter_configs,
}


class Cluster:
    """An image and what changes it; ``batches`` are the batches written, as they are read."""

    def __init__(self, metadata_version: int = 25, elr: bool = False, brokers: int = 0) -> None:
        self.image = MetadataImage()
        self.offset = 0
        self.batches: list[Batch] = []
        self.voters = {i: Endpoint("localhost", 9000 + i) for i in (1, 2, 3)}
        self.settings = Settings(seed=1)
        self.feature("metadata.version", metadata_version)
        if elr:
            self.feature("eligible.leader.replicas.version", 1)
        for broker in range(1, brokers + 1):
            self.register(broker)
            self.unfence(broker)

    def context(self) -> Context:
        return Context(self.image, self.voters, self.settings, 1, 1, self.offset)

    def write(self, records: Sequence[Record]) -> None:
        """Commit the records of one batch as every node reads them, not as they were meant."""
        if not records:
            return
        batch: Batch = []
        for name, version, fields in records:
            read, _, told = decode_record(encode_record(name, version, fields))
            batch.append((read, told))
        self.offset += len(batch)
        self.image.commit(self.offset - 1, 1, batch)
        self.batches.append(batch)

    def call(self, api: str, version: int, body: Body) -> Body:
        """Carry out a request as it comes off the wire; return its answer as it is read."""
        complete, _ = decode(f"{api}Request", version, encode(f"{api}Request", version, body))
        outcome = OPERATIONS[api](self.context(), version, complete)
        self.write(outcome.records)
        answer, _ = decode(
            f"{api}Response", version, encode(f"{api}Response", version, outcome.body)
        )
        return answer

    def refused(self, api: str, version: int, body: Body) -> int:
        """Return the error with which a request is refused as a whole."""
        with pytest.raises(ApiError) as refusal:
            self.call(api, version, body)
        return refusal.value.code

    # --- brokers

    def feature(self, name: str, level: int) -> None:
        self.write([("FeatureLevelRecord", 0, {"name": name, "feature_level": level})])

    def config(self, name: str, value: str | None, topic: str = "", kind: int = 2) -> None:
        fields = {"resource_type": kind, "resource_name": topic, "name": name, "value": value}
        self.write([("ConfigRecord", 0, fields)])

    def register(
        self,
        broker: int,
        rack: str | None = None,
        directories: Sequence[bytes] = (),
        cordoned: Sequence[bytes] | None = None,
        cleanup: Sequence[Record] = (),
    ) -> None:
        """Register a new incarnation, fenced; ``cleanup`` goes before it in the same batch."""
        fields = {
            "broker_id": broker,
            "incarnation_id": self.offset.to_bytes(16, "big"),
            "broker_epoch": self.offset,
            "end_points": [],
            "features": [],
            "rack": rack,
            "fenced": True,
            "log_dirs": list(directories),
            "cordoned_log_dirs": None if cordoned is None else list(cordoned),
        }
        version = 3 if cordoned is None else 4
        self.write([*cleanup, ("RegisterBrokerRecord", version, fields)])

    def epoch(self, broker: int) -> int:
        return self.image.brokers[broker].epoch

    def change(self, broker: int, fenced: int = 0, stopping: int = 0) -> Record:
        fields = {
            "broker_id": broker,
            "broker_epoch": self.epoch(broker),
            "fenced": fenced,
            "in_controlled_shutdown": stopping,
        }
        return "BrokerRegistrationChangeRecord", 1, fields

    def fence(self, broker: int) -> None:
        self.write([*changes_for_fenced(self.context(), broker), self.change(broker, fenced=1)])

    def unfence(self, broker: int) -> None:
        self.write([self.change(broker, fenced=-1), *changes_for_unfenced(self.context(), broker)])

    def shut_down(self, broker: int) -> None:
        """Begin a controlled shutdown."""
        changes = changes_for_shutdown(self.context(), broker)
        self.write([self.change(broker, stopping=1), *changes])

    def restart(self, broker: int, clean: bool) -> None:
        """Let a new incarnation register, whose logs may have lost their ends if not clean."""
        changes = changes_for_shutdown if clean else changes_for_unclean
        self.register(broker, cleanup=changes(self.context(), broker))

    # --- topics

    def topic(self, name: str, *replicas: Sequence[int], **configs: str) -> None:
        """Create a topic with these replicas by partition; ``_`` in config names is ``.``."""
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": i, "broker_ids": list(r)} for i, r in enumerate(replicas)
            ],
            "configs": [{"name": n.replace("_", "."), "value": v} for n, v in configs.items()],
        }
        answer = self.call("CreateTopics", 7, {"topics": [topic]})
        assert answer["topics"][0]["error_code"] == 0, answer

    def key(self, topic: str = "t", number: int = 0) -> tuple[bytes, int]:
        return self.image.topics[topic].topic_id, number

    def partition(self, topic: str = "t", number: int = 0) -> Partition:
        return self.image.partitions[self.key(topic, number)]

    def proposal(
        self, isr: Sequence[int], topic: str = "t", number: int = 0, **changes: Any
    ) -> Body:
        """Return an AlterPartition (v3) request of the leader; ``changes`` make it a bad one."""
        partition = self.partition(topic, number)
        sender = changes.get("sender", partition.leader)
        members = [{"broker_id": b, "broker_epoch": self._known_epoch(b)} for b in isr]
        part = {
            "partition_index": number,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr_with_epochs": members,
            "leader_recovery_state": 0,
        }
        part |= {name: value for name, value in changes.items() if name in part}
        topics = [{"topic_id": self.image.topics[topic].topic_id, "partitions": [part]}]
        epoch = changes.get("sender_epoch", self._known_epoch(sender))
        return {"broker_id": sender, "broker_epoch": epoch, "topics": topics}

    def _known_epoch(self, broker: int) -> int:
        found = self.image.brokers.get(broker)
        return -1 if found is None else found.epoch

    def propose(self, isr: Sequence[int], topic: str = "t", **changes: Any) -> Body:
        """Let the leader propose an ISR; return the partition's part of the answer."""
        answer = self.call("AlterPartition", 3, self.proposal(isr, topic, **changes))
        part: Body = answer["topics"][0]["partitions"][0]
        return part

    def reassign(
        self, target: Sequence[int] | None, topic: str = "t", number: int = 0, **options: Any
    ) -> int:
        """Start a reassignment, or cancel it (None); return the error code."""
        part = {"partition_index": number, "replicas": None if target is None else list(target)}
        body = {"topics": [{"name": topic, "partitions": [part]}], **options}
        answer = self.call("AlterPartitionReassignments", 1, body)
        code: int = answer["responses"][0]["partitions"][0]["error_code"]
        return code

    def elect(self, kind: int, topic: str = "t", number: int = 0) -> int:
        """Hold an election (0: preferred, 1: unclean) for a partition; return the error code."""
        body = {
            "election_type": kind,
            "topic_partitions": [{"topic": topic, "partitions": [number]}],
        }
        answer = self.call("ElectLeaders", 2, body)
        code: int = answer["replica_election_results"][0]["partition_result"][0]["error_code"]
        return code


@pytest.fixture
def make_cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Four brokers, all active, without eligible leader replicas."""
    return Cluster(brokers=4)
