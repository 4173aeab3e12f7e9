"""One broker process of either kind: Apache Kafka's or ours."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.format import format_directory
from kraftwreck.oracle.controller import HOST, LISTENER, TEST_FLAGS, quorum_properties
from kraftwreck.oracle.java import java_command
from kraftwreck.oracle.process import Process
from kraftwreck.systems.kraft.client import KafkaClient

CLIENT_LISTENER: Final = "PLAINTEXT"
ASK_MS: Final = 2000


class Broker(Process):
    """A broker in a directory of its own; ``controllers`` are node id → port of the voters.

    ``properties`` are added to those of every broker and have Kafka's names.
    """

    def __init__(
        self,
        directory: Path,
        node_id: int,
        port: int,
        cluster_id: str,
        controllers: Mapping[int, int],
        properties: Mapping[str, object],
    ) -> None:
        super().__init__(directory, f"broker {node_id}")
        self.node_id = node_id
        self.port = port
        self.cluster_id = cluster_id
        self.data = directory / "data"
        protocols = f"{LISTENER}:PLAINTEXT,{CLIENT_LISTENER}:PLAINTEXT"
        values = {
            "process.roles": "broker",
            "node.id": node_id,
            **quorum_properties(controllers, dynamic=False),
            "listeners": f"{CLIENT_LISTENER}://{HOST}:{port}",
            "controller.listener.names": LISTENER,
            "inter.broker.listener.name": CLIENT_LISTENER,
            "listener.security.protocol.map": protocols,
            "log.dirs": self.data,
            **self.own_properties(),
            **properties,
        }
        self.write_config(values)

    def own_properties(self) -> Mapping[str, object]:
        """Return the properties of this kind only."""
        return {}

    def format(self) -> None:
        """Write ``meta.properties``, the only file a broker needs."""
        format_directory(self.data, self.cluster_id, self.node_id)

    @property
    def address(self) -> str:
        """The address for its clients."""
        return f"{HOST}:{self.port}"

    def knows(self) -> set[int]:
        """Return the unfenced brokers' ids that it reports to clients, none if it is down."""
        client = KafkaClient(HOST, self.port, "oracle")
        try:
            answer = client.call("Metadata", 9, {"topics": []}, ASK_MS)
        finally:
            client.close()
        found = answer.response["brokers"] if answer.status == "ok" else []
        return {broker["node_id"] for broker in found}


class KafkaBroker(Broker):
    """A broker of Apache Kafka."""

    def own_properties(self) -> Mapping[str, object]:
        """Return one or none of Kafka's internal threads and partitions."""
        return {
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.io.threads": 2,
            "num.network.threads": 1,
            "log.cleaner.dedupe.buffer.size": 2 << 20,
        }

    def command(self) -> list[str]:
        """Return the command line of Kafka's server."""
        return java_command("kafka.Kafka", [str(self.config)], TEST_FLAGS, level="INFO")


class OurBroker(Broker):
    """A broker of this project."""

    def own_properties(self) -> Mapping[str, object]:
        """Return the cluster id; Kafka reads it from the formatted directory."""
        return {"cluster.id": self.cluster_id}

    def command(self) -> list[str]:
        """Return the command line of ``nodes.server``."""
        return [sys.executable, "-m", "kraftwreck.nodes.server", "--config", str(self.config)]
