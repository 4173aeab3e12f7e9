"""Our own KRaft controllers and brokers, deployed over SSH: the main system under test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import build_archive, digest, with_bytecode
from kraftwreck.harness.clusters.cluster import Host, Machines
from kraftwreck.harness.environment import Environment
from kraftwreck.harness.interpreter import Connection
from kraftwreck.harness.kafka_client import KafkaClient
from kraftwreck.harness.options import CONTROLLER, DYNAMIC, RunOptions
from kraftwreck.harness.remote.agent import AGENT, modules
from kraftwreck.harness.remote.deployment import Deployment
from kraftwreck.harness.remote.environment import RemoteEnvironment
from kraftwreck.harness.remote.session import RemoteError, on_all
from kraftwreck.harness.remote.settings import Settings
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.system import Deployed, Seen

_QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
_WHO_LEADS: dict[str, Any] = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
METADATA_VERSION = 12
_ASK_TIMEOUT_MS = 700
_POLL_S = 0.03
_STOP_S = 0.3
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.max.retention.bytes": "4000",
    "metadata.log.segment.bytes": "4096",
    "kraftwreck.clean.interval.ms": "1000",
    "controller.quorum.fetch.snapshot.max.bytes": "700",
}
"""Settings with which a run of a minute makes snapshots, cleans its log, and fetches snapshots.

A node that was away comes back to a log that begins after its own, and fetches in pieces.
"""
CHANGES_S = 60.0
"""How long requested voter changes may take after the last fault (L6)."""


class KraftDeployment:
    """Running controllers and brokers (:class:`~harness.system.Deployed`)."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._remote = RemoteEnvironment(deployment)
        self.env: Environment = self._remote
        controllers = deployment.controllers
        self._probes = {name: self._client(name, "kraftwreck-probe") for name in controllers}
        self._watchers = {name: self._client(name, "kraftwreck-watch") for name in controllers}
        self._broker_probes = {
            name: deployment.client(name, "kraftwreck-probe", broker=True)
            for name, role in deployment.roles.items()
            if role != CONTROLLER
        }

    def _client(self, node: str, client_id: str) -> KafkaClient:
        return self.deployment.client(node, client_id)

    def connect(self, node: str, client_id: str) -> Connection:
        """Return a client's connection to ``node``, its controller if it has one."""
        return self._client(node, client_id)

    def clocks(self) -> Mapping[str, int]:
        """Return each host's monotonic clock minus ours, in microseconds."""
        return self._remote.measure_clocks()

    def clock_samples(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Return samples of the clocks of nodes whose clock was set."""
        return self._remote.clock_samples()

    def use(self, machines: Machines) -> None:
        """Let faults crash and boot hosts."""
        self._remote.machines = machines

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for each new trace event of the nodes."""
        self._remote.follow(seen)

    def unfollow(self) -> None:
        """Stop following the traces."""
        self._remote.unfollow()

    def position(self) -> str:
        """Return the leader of the highest epoch right now."""
        claim = self._claim(self._watchers)
        return f"leader {claim[1]} epoch {claim[0]}" if claim else "no leader"

    def ready(self, timeout_s: float) -> str:
        """Wait until the cluster is ready.

        One controller leads with a high watermark, every controller reports it, and every broker
        reports itself unfenced. Before that, wait until no voter change is in progress.
        """
        begun = time.monotonic()
        while (left := self._remote.open_changes) > 0:
            if time.monotonic() - begun > CHANGES_S:
                raise TimeoutError(f"{left} voter changes are still open after {CHANGES_S:g} s")
            time.sleep(_POLL_S)
        begun = time.monotonic()
        while True:
            claim = self._claim(self._probes)
            missing = "the nodes do not agree on a leader"
            if claim is not None:
                wanted = self.deployment.hosts[claim[1]].node_id
                seen = on_all(list(self._probes), self._controller_seen_by)
                if all(controller == wanted for controller in seen.values()):
                    alive = on_all(list(self._broker_probes), self._is_alive)
                    if all(alive.values()):
                        return f"leader {claim[1]} epoch {claim[0]}"
                    fenced = ", ".join(name for name, lives in alive.items() if not lives)
                    missing = f"brokers still fenced: {fenced}"
            if time.monotonic() - begun > timeout_s:
                named = f"{claim[1]} leads epoch {claim[0]}" if claim else "there is no leader"
                raise TimeoutError(f"{missing} after {timeout_s:g} s ({named})")
            time.sleep(_POLL_S)

    def _is_alive(self, node: str) -> bool:
        """Whether the node's broker reports itself among the unfenced ones."""
        client = self._broker_probes[node]
        answer = client.call("Metadata", METADATA_VERSION, _WHO_LEADS, _ASK_TIMEOUT_MS)
        wanted = self.deployment.hosts[node].node_id
        return answer.status == "ok" and any(
            broker["node_id"] == wanted for broker in answer.body["brokers"]
        )

    def _claim(self, clients: Mapping[str, KafkaClient]) -> tuple[int, str] | None:
        """Return (epoch, node) of the highest claim to lead with a high watermark."""

        def ask(node: str) -> int | None:
            answer = clients[node].call("DescribeQuorum", 1, _QUORUM, _ASK_TIMEOUT_MS)
            if answer.status != "ok" or answer.body["error_code"] != 0:
                return None
            for topic in answer.body["topics"]:
                for part in topic["partitions"]:
                    leads = part["leader_id"] == self.deployment.hosts[node].node_id
                    if part["error_code"] == 0 and leads and part["high_watermark"] >= 0:
                        return int(part["leader_epoch"])
            return None

        claims = on_all(self.deployment.controllers, ask)
        return max(((e, node) for node, e in claims.items() if e is not None), default=None)

    def _controller_seen_by(self, node: str) -> int:
        answer = self._probes[node].call("Metadata", METADATA_VERSION, _WHO_LEADS, _ASK_TIMEOUT_MS)
        return int(answer.body["controller_id"]) if answer.status == "ok" else -1

    def restore(self) -> list[Trouble]:
        """Heal, resume and start every node; return the failures."""
        return self._remote.restore()

    def stop(self) -> None:
        """End every node: SIGTERM, then SIGKILL; brokers get time for a controlled shutdown.

        A leader that ends waits for answers that other ending nodes will not give.
        """
        self.deployment.stop_all(_STOP_S)

    def collect(self, run: Path) -> None:
        """Copy the nodes' files into ``run/nodes/<name>``."""
        self.deployment.collect(run)

    def close(self) -> None:
        """End all connections and sessions."""
        for clients in (self._probes, self._watchers, self._broker_probes):
            for client in clients.values():
                client.close()
        self._remote.close()
        self.deployment.close()


def _means(options: RunOptions) -> frozenset[str]:
    """Return the fault driver for the network faults of a run."""
    disturbed = not {"network", "wire", "roles-slow"}.isdisjoint(options.faults)
    return frozenset({"packets", "messages"} - set(options.lacking) if disturbed else ())


class Kraft:
    """The adapter (:class:`~harness.system.System`)."""

    name = "kraft"
    about = "KRaft controllers and brokers in Python: the metadata plane of Kafka"
    default_workload = "metadata"
    workloads: Sequence[str] = ("metadata", "register", "leader", "partitions")
    checkers: Sequence[str] = ("conformance", "recovery")
    replayable = True
    """Its nodes leave input logs with which they can be run again."""

    def prepare(self, nodes: Path) -> None:
        """Compile the code for hosts: the node code and the agents."""
        with_bytecode(build_archive(nodes))
        modules(AGENT)

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> Deployed:
        """Install and start the node code of the folder ``nodes`` on ``hosts``.

        Nothing is left running when this raises (``RemoteError``, one line).
        """
        settings = Settings(
            seed=options.seed,
            tree=nodes,
            brokers=options.brokers,
            combined=options.combined,
            dynamic=options.quorum == DYNAMIC,
            write_loss="power" in options.faults,
            own_clocks="clock" in options.faults,
            own_disks=not {"disk", "storage"}.isdisjoint(options.faults),
            means=_means(options),
            squeezable="squeeze" in options.faults,
            other_tree=(options.other or nodes) if "restart" in options.faults else None,
            extra=SNAPSHOTS if options.snapshots else {},
        )
        deployment = Deployment(hosts, settings)
        try:
            deployment.install_and_start()
            return KraftDeployment(deployment)
        except BaseException:
            with contextlib.suppress(RemoteError):
                deployment.stop_all()
            deployment.close()
            raise

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return the digest of the node code."""
        return {"nodes": digest(build_archive(nodes))}


SYSTEM = Kraft()
