"""A broker of Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nodes.log.format import format_directory
from oracle.controller import HOST, LISTENER, TEST_FLAGS, quorum_properties
from oracle.java import java_command
from oracle.process import Process

CLIENT_LISTENER: Final = "PLAINTEXT"
READY: Final = "Kafka Server started"


class KafkaBroker(Process):
    """A broker of its own process; ``controllers`` are node id → port of the voters.

    ``properties`` come on top of what it needs.
    """

    def __init__(
        self,
        directory: Path,
        node_id: int,
        port: int,
        cluster_id: str,
        controllers: Mapping[int, int],
        properties: Mapping[str, object],
        *,
        dynamic: bool = False,
    ) -> None:
        super().__init__(directory, f"broker {node_id}")
        self.node_id = node_id
        self.port = port
        self.cluster_id = cluster_id
        self.data = directory / "data"
        values = {
            "process.roles": "broker",
            "node.id": node_id,
            **quorum_properties(controllers, dynamic=dynamic),
            "listeners": f"{CLIENT_LISTENER}://{HOST}:{port}",
            "controller.listener.names": LISTENER,
            "inter.broker.listener.name": CLIENT_LISTENER,
            "listener.security.protocol.map": (f"{LISTENER}:PLAINTEXT,{CLIENT_LISTENER}:PLAINTEXT"),
            "log.dirs": self.data,
            # Small quantities of what a test needs none or one of.
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.io.threads": 2,
            "num.network.threads": 1,
            "log.cleaner.dedupe.buffer.size": 2 << 20,
            **properties,
        }
        self.write_config(values)

    @property
    def address(self) -> str:
        """Where its clients reach it."""
        return f"{HOST}:{self.port}"

    @property
    def ready(self) -> bool:
        """Whether its last start has come to an end: it is registered and unfenced."""
        return self.running and READY in self.said()

    def format(self) -> None:
        """Write ``meta.properties``, which is all a broker needs."""
        format_directory(self.data, self.cluster_id, self.node_id)

    def start(self) -> None:
        """Start the process with an empty output, so that ``ready`` is about this start."""
        self.output.write_bytes(b"")
        super().start()

    def command(self) -> list[str]:
        """Return the command line of Kafka's server."""
        return java_command("kafka.Kafka", [str(self.config)], TEST_FLAGS, level="INFO")
