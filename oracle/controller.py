"""One controller process of either kind: Apache Kafka's or ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.log.uuids import from_text
from kraftwreck.oracle.java import java_command, run_tool
from kraftwreck.oracle.process import ROOT, Process
from kraftwreck.oracle.release import OracleError

LISTENER: Final = "CONTROLLER"
HOST: Final = "127.0.0.1"
FORMAT_TIMEOUT_S: Final = 60.0
TEST_FLAGS: Final = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Flags of a controller in a test: it starts quickly and uses few resources."""
BENCH_FLAGS: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""The flags in Kafka's own start script."""
_SERVER: Final = (sys.executable, "-m", "kraftwreck.nodes.server")


def quorum_properties(ports: Mapping[int, int], *, dynamic: bool) -> dict[str, str]:
    """Return the properties of the quorum; ``ports`` are those of voters or bootstrap servers."""
    if dynamic:
        servers = ",".join(f"{HOST}:{port}" for port in ports.values())
        return {"controller.quorum.bootstrap.servers": servers}
    voters = ",".join(f"{voter}@{HOST}:{port}" for voter, port in ports.items())
    return {"controller.quorum.voters": voters}


class Controller(Process):
    """A controller in a directory of its own.

    ``ports`` are node id → port on loopback of all; they are the voters unless the quorum is
    ``dynamic``. ``properties`` are added to those of every controller and have Kafka's names.
    ``format_options`` are those of kafka-storage, such as ``--release-version 4.0``; our format
    command has the same.
    """

    kind: str
    format_options: tuple[str, ...] = ()

    def __init__(
        self,
        directory: Path,
        node_id: int,
        cluster_id: str,
        ports: Mapping[int, int],
        properties: Mapping[str, object],
        *,
        dynamic: bool = False,
    ) -> None:
        super().__init__(directory, f"controller {node_id}")
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.port = ports[node_id]
        self.data = directory / "data"
        self.log = self.data / "__cluster_metadata-0"
        values = {
            "process.roles": "controller",
            "node.id": node_id,
            **quorum_properties(ports, dynamic=dynamic),
            "listeners": f"{LISTENER}://{HOST}:{self.port}",
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
            "log.dirs": self.data,
            **self.own_properties(),
            **properties,
        }
        self.write_config(values)

    def own_properties(self) -> Mapping[str, object]:
        """Return the properties of this kind only."""
        return {}

    @abstractmethod
    def format(self) -> None:
        """Prepare the data directory, unless it is formatted already."""


class OurController(Controller):
    """A controller of this project."""

    kind = "ours"
    profile: Path | None = None
    """The output file of cProfile, written when the process stops; None for no profile."""

    def own_properties(self) -> Mapping[str, object]:
        """Return the cluster id; Kafka reads it from the formatted directory."""
        return {"cluster.id": self.cluster_id}

    def format(self) -> None:
        """Run the format command."""
        command = [*_SERVER, "format", "--config", str(self.config), *self.format_options]
        ran = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S
        )
        if ran.returncode != 0:
            raise OracleError(f"format failed: {ran.stderr.strip()}")

    def command(self) -> list[str]:
        """Return the command line of ``nodes.server``."""
        python, *server = _SERVER
        profiler = [] if self.profile is None else ["-m", "cProfile", "-o", str(self.profile)]
        return [python, *profiler, *server, "--config", str(self.config)]


class KafkaController(Controller):
    """A controller of Apache Kafka.

    Formatting takes the start of a virtual machine. So the directory of ``like``, formatted before,
    is copied and gets other ids.
    """

    kind = "kafka"
    flags: tuple[str, ...] = TEST_FLAGS
    level = "INFO"

    def format(self, like: KafkaController | None = None, directory_id: str | None = None) -> None:
        """Run kafka-storage, or copy the files of ``like`` and change their ids."""
        if (self.data / "meta.properties").exists():
            return
        if like is not None:
            shutil.copytree(like.data, self.data, ignore=shutil.ignore_patterns("meta.properties"))
            format_meta(self.data, self.cluster_id, self.node_id, directory_id)
            return
        command = ("format", "--cluster-id", self.cluster_id, "--config", str(self.config))
        ran = run_tool("kafka.tools.StorageTool", *command, *self.format_options)
        if ran.status != 0:
            raise OracleError(f"kafka-storage format failed: {(ran.stderr or ran.stdout).strip()}")

    def command(self) -> list[str]:
        """Return the command line of Kafka's server."""
        return java_command("kafka.Kafka", [str(self.config)], self.flags, level=self.level)


def format_meta(data: Path, cluster_id: str, node_id: int, directory_id: str | None) -> None:
    """Write ``meta.properties`` into a copied directory, with this directory id or a new one."""
    fresh = data.with_name(f"{data.name}.meta")
    own = None if directory_id is None else from_text(directory_id)
    format_directory(fresh, cluster_id, node_id, own)
    (fresh / "meta.properties").rename(data / "meta.properties")
    shutil.rmtree(fresh)
