"""Controllers on hosts: put them there, start them, signal them, bring back what they wrote.

On every host: ``/opt/kraftwreck`` (code), ``/etc/kraftwreck`` (configuration),
``/var/lib/kraftwreck`` (data directory), ``/var/log/kraftwreck`` (``trace.jsonl``,
``inputs.log``, ``stdout.log``, ``images/<label>/``: exactly what a run folder keeps of it).
"""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import invoke.exceptions

from harness.agent import Agent
from harness.archive import PROJECT_TREE, build_archive, digest
from harness.clusters.cluster import Host
from harness.environment import Evidence
from harness.remote import Remote, RemoteError, on_all
from nodes.draw import draw

PORT = 9093
CODE = "/opt/kraftwreck/kraftwreck-nodes.pyz"
CONFIG = "/etc/kraftwreck/controller.properties"
DATA = "/var/lib/kraftwreck"
LOGS = "/var/log/kraftwreck"
PYTHON = "/usr/bin/python3"
SERVICE: dict[str, Any] = {
    "pid_file": "/run/kraftwreck-controller.pid",
    "argv": [PYTHON, CODE, "--config", CONFIG],
    "log": f"{LOGS}/stdout.log",
    "data": DATA,
    "images": f"{LOGS}/images",
}
"""The service as :mod:`harness.node_agent` wants it described."""

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0
_PROVISION_TIMEOUT_S = 60


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all controllers of a run share.

    ``tree`` is the folder of the node code, a mutated copy for planted bugs. ``extra`` are
    further properties, which win over the ones written here.
    """

    seed: int
    tree: Path = PROJECT_TREE
    port: int = PORT
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        """A Kafka uuid in its text form, drawn from the seed."""
        number = draw(self.seed, "cluster.id", "high") << 64 | draw(self.seed, "cluster.id", "low")
        return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def properties(host: Host, hosts: Sequence[Host], settings: Settings) -> dict[str, str]:
    """Return the configuration of the controller on ``host``."""
    voters = ",".join(f"{each.node_id}@{each.ip}:{settings.port}" for each in hosts)
    return {
        "process.roles": "controller",
        "node.id": str(host.node_id),
        "cluster.id": settings.cluster_id,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{host.ip}:{settings.port}",
        "log.dirs": DATA,
        "kraftwreck.node.name": host.name,
        "kraftwreck.seed": str(settings.seed),
        "kraftwreck.trace.file": f"{LOGS}/trace.jsonl",
        "kraftwreck.input.log": f"{LOGS}/inputs.log",
        **settings.extra,
    }


class Deployment:
    """The controllers of one run. Methods raise :class:`RemoteError` with one line."""

    def __init__(self, hosts: Sequence[Host], settings: Settings) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.settings = settings
        self.remotes = {name: Remote(host) for name, host in self.hosts.items()}
        self.agents = {name: Agent(remote) for name, remote in self.remotes.items()}
        self.archive = build_archive(settings.tree)
        self.code_digest = digest(self.archive)

    @property
    def nodes(self) -> list[str]:
        """The names of all nodes, in order of node id."""
        return list(self.hosts)

    def check_hosts(self) -> None:
        """Make sure that every host has what is needed; raises with what is missing."""
        on_all(self.nodes, self._check_host)

    def _check_host(self, name: str) -> None:
        found = self.agents[name].ask("hello")
        if tuple(found["python"]) < (3, 11):
            version = ".".join(map(str, found["python"]))
            raise RemoteError(name, f"{PYTHON} is {version}, 3.11 or newer is needed")
        if found["uid"] != 0:
            raise RemoteError(name, "commands do not run as root: log in as root or set become")
        for tool, there in found["tools"].items():
            if not there:
                package = {"nft": "nftables"}.get(tool, tool)
                raise RemoteError(name, f"{tool} is missing there: apt-get install {package}")

    def install(self) -> None:
        """Put code and configuration on every host, with empty data and log directories.

        A controller left running by an earlier run is ended first.
        """
        self.check_hosts()
        on_all(self.nodes, self._install)

    def _install(self, name: str) -> None:
        agent, remote = self.agents[name], self.remotes[name]
        agent.ask("stop", service=SERVICE, wait_s=0.0)
        agent.ask("heal")
        agent.ask("wipe", paths=[DATA, LOGS, f"{LOGS}/images"])
        lines = properties(self.hosts[name], list(self.hosts.values()), self.settings)
        config = "".join(f"{key}={value}\n" for key, value in lines.items())
        bundle = _tar({CODE: self.archive, CONFIG: config.encode()})
        parcel = f"/tmp/kraftwreck-{name}.tar"  # noqa: S108 - on the host, over our session
        unpack = remote.command(["tar", "-xf", parcel, "-C", "/", "--no-same-owner"])
        prepare = remote.command([PYTHON, CODE, "format", "--config", CONFIG])
        connection = remote.fabric()
        try:
            connection.put(io.BytesIO(bundle), parcel)
            connection.run(
                f"{unpack} && rm -f {shlex.quote(parcel)} && {prepare}",
                hide=True,
                in_stream=False,
                timeout=_PROVISION_TIMEOUT_S,
            )
        except (OSError, EOFError, invoke.exceptions.Failure) as failure:
            raise RemoteError(
                name, f"the code could not be installed: {_why(failure)}"
            ) from failure

    def start(self, name: str) -> Evidence:
        """Start the node's controller and wait for its port; a no-op when it runs."""
        host = self.hosts[name]
        return self.agents[name].ask(
            "start",
            timeout_s=START_TIMEOUT_S + 10,
            service=SERVICE,
            ip=host.ip,
            port=self.settings.port,
            wait_s=START_TIMEOUT_S,
        )

    def start_all(self) -> dict[str, Evidence]:
        """Start every controller at once."""
        return dict(on_all(self.nodes, self.start))

    def stop(self, name: str) -> Evidence:
        """End the controller: SIGTERM, after :data:`STOP_TIMEOUT_S` SIGKILL."""
        return self.agents[name].ask("stop", service=SERVICE, wait_s=STOP_TIMEOUT_S)

    def stop_all(self) -> dict[str, Evidence]:
        """End every controller at once."""
        return dict(on_all(self.nodes, self.stop))

    def kill(self, name: str, label: str) -> Evidence:
        """kill -9 the controller and keep its data directory as image ``label``."""
        return self.agents[name].ask("kill", service=SERVICE, label=label)

    def pause(self, name: str) -> Evidence:
        """SIGSTOP the controller."""
        return self.agents[name].ask("pause", service=SERVICE)

    def resume(self, name: str) -> Evidence:
        """SIGCONT the controller."""
        return self.agents[name].ask("resume", service=SERVICE)

    def status(self, name: str) -> Evidence:
        """Tell whether the controller runs, its pid and state."""
        return self.agents[name].ask("status", service=SERVICE)

    def clock_offsets(self) -> dict[str, int]:
        """Return every host's monotonic clock minus this machine's, in microseconds."""
        return dict(on_all(self.nodes, lambda name: self.agents[name].clock_offset()))

    def collect(self, run: Path) -> dict[str, int]:
        """Bring what every node wrote into ``run/nodes/<name>/``; return numbers of files.

        The data directory as it is now becomes ``images/final``: stop the nodes first.
        """

        def collect_one(name: str) -> int:
            self.agents[name].ask("image", service=SERVICE, label="final", timeout_s=60.0)
            target = run / "nodes" / name
            target.mkdir(parents=True, exist_ok=True)
            return self.remotes[name].get_tree(LOGS, target)

        return dict(on_all(self.nodes, collect_one))

    def close(self) -> None:
        """End all sessions."""
        for agent in self.agents.values():
            agent.close()
        for remote in self.remotes.values():
            remote.close()


def _tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar of files by absolute path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _why(failure: BaseException) -> str:
    result = getattr(failure, "result", None)
    said = (result.stderr or result.stdout).strip() if result is not None else ""
    return said.splitlines()[-1] if said else f"{failure or type(failure).__name__}"
