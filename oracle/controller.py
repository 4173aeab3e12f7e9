"""One controller process of either kind: Apache Kafka's or ours."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clusters.kernel import die_with_parent
from nodes.log.format import format_directory
from nodes.log.uuids import from_text
from oracle.java import java_command, run_tool
from oracle.release import OracleError

ROOT: Final = Path(__file__).resolve().parents[1]
LISTENER: Final = "CONTROLLER"
HOST: Final = "127.0.0.1"
STOP_S: Final = 30.0
TEST_FLAGS: Final = ("-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A controller of a test: it has to be up soon and leave the machine to others."""
BENCH_FLAGS: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""What Kafka's own start script gives the virtual machine."""
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Controller(ABC):
    """A controller in a directory of its own.

    ``ports`` are node id → port on loopback of all; they are the voters unless the quorum is
    ``dynamic``. ``properties`` come on top of what every controller needs and use Kafka's
    names. ``format_options`` are those of kafka-storage, such as ``--release-version 4.0``; the
    format command of ours knows the same. The process dies with the thread that started it.
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
        self.directory = directory
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.port = ports[node_id]
        self.data = directory / "data"
        self.log = self.data / "__cluster_metadata-0"
        self.config = directory / "node.properties"
        self.output = directory / "output"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        if dynamic:
            servers = ",".join(f"{HOST}:{port}" for port in ports.values())
            quorum = {"controller.quorum.bootstrap.servers": servers}
        else:
            voters = ",".join(f"{voter}@{HOST}:{port}" for voter, port in ports.items())
            quorum = {"controller.quorum.voters": voters}
        values = {
            "process.roles": "controller",
            "node.id": node_id,
            **quorum,
            "listeners": f"{LISTENER}://{HOST}:{self.port}",
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
            "log.dirs": self.data,
            **self.own_properties(),
            **properties,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def own_properties(self) -> Mapping[str, object]:
        """Return the properties only this kind knows."""
        return {}

    @abstractmethod
    def format(self) -> None:
        """Prepare the data directory; what is formatted already is left alone."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the argument vector of the process."""

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id. Raises :class:`OracleError` when it does not run."""
        if self._process is None:
            raise OracleError(f"controller {self.node_id} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the process; it is not waited for."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; harmless when it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Send SIGTERM; return the exit status. Kills what has not ended after 30 s."""
        if self._process is None:
            raise OracleError(f"controller {self.node_id} does not run")
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_S)
        finally:
            self.kill()

    def said(self) -> str:
        """Return everything the processes so far have written."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def cpu_seconds(self) -> float:
        """Return user and system time of the process so far."""
        # The program's name, in brackets, may have spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def resident_bytes(self) -> int:
        """Return the resident set of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class OurController(Controller):
    """A controller of this project."""

    kind = "ours"
    profile: Path | None = None
    """Where cProfile writes when the process stops, None for no profile."""

    def own_properties(self) -> Mapping[str, object]:
        """Ours are told the cluster id; Kafka reads it from the formatted directory."""
        return {"cluster.id": self.cluster_id}

    def format(self) -> None:
        """Run the format command."""
        command = [*self._server(), "format", "--config", str(self.config), *self.format_options]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=STOP_S)
        if ran.returncode != 0:
            raise OracleError(f"format failed: {ran.stderr.strip()}")

    def command(self) -> list[str]:
        """Return the command line of ``nodes.server``."""
        return [*self._server(), "--config", str(self.config)]

    def _server(self) -> list[str]:
        profiler = [] if self.profile is None else ["-m", "cProfile", "-o", str(self.profile)]
        return [sys.executable, *profiler, "-m", "nodes.server"]


class KafkaController(Controller):
    """A controller of Apache Kafka.

    Formatting takes a virtual machine's start; a directory formatted before is used again,
    with other ids, as ``like``.
    """

    kind = "kafka"
    flags: tuple[str, ...] = TEST_FLAGS
    level = "INFO"

    def format(self, like: KafkaController | None = None, directory_id: str | None = None) -> None:
        """Run kafka-storage, or copy what it wrote for ``like``; then the ids are its own."""
        if (self.data / "meta.properties").exists():
            return
        if like is not None:
            shutil.copytree(like.data, self.data, ignore=shutil.ignore_patterns("meta.properties"))
            format_meta(self.data, self.cluster_id, self.node_id, directory_id)
            return
        ran = run_tool(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", self.cluster_id, "--config", str(self.config)),
            *self.format_options,
        )
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
