"""Our own KRaft controllers and brokers, deployed over SSH: the main system under test."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import build_archive, compressed, digest, with_bytecode
from kraftwreck.harness.capabilities import (
    CAPABILITIES,
    HOSTS,
    MEMBERSHIP,
    POWER,
    Capability,
    Environment,
)
from kraftwreck.harness.client import BlockingClient, Client, Connection
from kraftwreck.harness.clusters.cluster import Host, Machines
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.remote import ssh
from kraftwreck.harness.remote.agent import AGENT, modules
from kraftwreck.harness.remote.session import RemoteError, on_all
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.system import Deployed, Seen
from kraftwreck.harness.workload import ClientSetting, Speaking, Workload
from kraftwreck.histories.trace import TRACES
from kraftwreck.nemesis.families.network import LINKS, RELAY
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.java_client import JavaClient
from kraftwreck.systems.kraft.librdkafka import Librdkafka
from kraftwreck.systems.kraft.options import (
    JAVA,
    LIBRDKAFKA,
    PRODUCE,
    KraftLayout,
    KraftOptions,
)
from kraftwreck.systems.kraft.pace import pace, properties
from kraftwreck.systems.kraft.records import Foreign, Records
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings
from kraftwreck.systems.kraft.requests import PROTOCOL, addressed
from kraftwreck.systems.kraft.workloads.produce import ProduceWorkload

_QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
_WHO_LEADS: dict[str, Any] = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
METADATA_VERSION = 12
_PARTITIONS = 2000
"""The most partitions that a broker describes at once."""
_NOBODY = -1
_ASK_TIMEOUT_MS = 700
_POLL_S = 0.01
_STOP_S = 0.15
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


def _described_by(broker: KafkaClient) -> list[tuple[str, dict[str, Any]]] | None:
    """Return all partitions with their topics as ``broker`` describes them, None if it fails."""
    found: list[tuple[str, dict[str, Any]]] = []
    cursor: dict[str, Any] | None = None
    while True:
        question = {"topics": [], "response_partition_limit": _PARTITIONS, "cursor": cursor}
        answer = broker.call("DescribeTopicPartitions", 0, question, _ASK_TIMEOUT_MS)
        if answer.status != "ok":
            return None
        for topic in answer.response["topics"]:
            found += [(topic["name"], each) for each in topic["partitions"]]
        cursor = answer.response["next_cursor"]
        if cursor is None:
            return found


def _may_be_led(partition: dict[str, Any]) -> bool:
    """Return whether a live replica may lead: one in sync, eligible, or the last known leader."""
    if partition["isr_nodes"] or partition["eligible_leader_replicas"]:
        return True
    last = partition["last_known_elr"]
    return len(last) == 1 and last[0] in partition["replica_nodes"]


class KraftDeployment:
    """Running controllers and brokers (:class:`~harness.system.Deployed`)."""

    def __init__(self, deployment: Deployment, records: Records | None = None) -> None:
        self.deployment = deployment
        self._records = records or Records({}, None)
        self.remote = RemoteEnvironment(deployment)
        self.env: Environment = self.remote.offered()
        controllers = deployment.controllers
        self._probes = {name: self._client(name, "kraftwreck-probe") for name in controllers}
        self._watchers = {name: self._client(name, "kraftwreck-watch") for name in controllers}
        self._broker_probes = {
            name: deployment.client(name, "kraftwreck-probe", broker=True)
            for name in deployment.serving
        }

    def _client(self, node: str, client_id: str) -> KafkaClient:
        return self.deployment.client(node, client_id)

    def connect(self, node: str, client_id: str) -> Connection:
        """Return a client's connection to ``node``: to its controller if it has one, unless the
        name is that of its broker (:func:`~systems.kraft.requests.broker_of`)."""
        name, broker = addressed(node)
        return self.deployment.client(name, client_id, broker=broker)

    def client(self, workload: Workload, setting: ClientSetting) -> Client | BlockingClient:
        """Return the client of one thread."""
        assert isinstance(workload, Speaking)
        if isinstance(workload, ProduceWorkload):
            return self._records.client(workload, setting)
        return workload.client(setting)

    def clocks(self) -> Mapping[str, int]:
        """Return each host's monotonic clock minus ours, in microseconds."""
        return self.remote.measure_clocks()

    def clock_samples(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Return samples of the clocks of nodes whose clock was set."""
        return self.remote.clock_samples()

    def use(self, machines: Machines) -> None:
        """Let faults crash and boot hosts."""
        self.remote.machines = machines

    def follow(self, seen: Seen) -> None:
        """Call ``seen`` for each new trace event of the nodes."""
        self.remote.follow(seen)

    def unfollow(self) -> None:
        """Stop following the traces."""
        self.remote.unfollow()

    def position(self) -> str:
        """Return the leader of the highest epoch right now."""
        claim = self._claim(self._watchers)
        return f"leader {claim[1]} epoch {claim[0]}" if claim else "no leader"

    def ready(self, timeout_s: float) -> str:
        """Wait until the cluster is ready.

        One controller leads with a high watermark, every controller reports it, every broker
        reports all of them unfenced, and every partition that one of them may lead has a leader
        (L13). Before that, wait until no voter change is in progress.
        """
        begun = time.monotonic()
        while (left := self.remote.open_changes) > 0:
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
                    if fenced := self._fenced_somewhere():
                        missing = f"brokers still fenced: {', '.join(fenced)}"
                    elif (unled := self._unled()) is None:
                        missing = "no broker describes the partitions"
                    elif unled:
                        missing = f"partitions without a leader: {', '.join(unled)}"
                    else:
                        return f"leader {claim[1]} epoch {claim[0]}"
            if time.monotonic() - begun > timeout_s:
                named = f"{claim[1]} leads epoch {claim[0]}" if claim else "there is no leader"
                raise TimeoutError(f"{missing} after {timeout_s:g} s ({named})")
            time.sleep(_POLL_S)

    def _fenced_somewhere(self) -> list[str]:
        """Return the brokers that some broker does not report unfenced: it may lag behind."""
        reported = on_all(list(self._broker_probes), self._unfenced_at)
        return [
            name
            for name in self._broker_probes
            if any(self.deployment.hosts[name].node_id not in ids for ids in reported.values())
        ]

    def _unfenced_at(self, node: str) -> set[int]:
        """Return the ids of the brokers that the node's broker reports unfenced."""
        client = self._broker_probes[node]
        answer = client.call("Metadata", METADATA_VERSION, _WHO_LEADS, _ASK_TIMEOUT_MS)
        return (
            {b["node_id"] for b in answer.response["brokers"]} if answer.status == "ok" else set()
        )

    def _unled(self) -> list[str] | None:
        """Return the partitions of these brokers that have a candidate, but no leader.

        None if no broker describes all partitions.
        """
        brokers = {self.deployment.hosts[name].node_id for name in self._broker_probes}
        for client in self._broker_probes.values():
            partitions = _described_by(client)
            if partitions is not None:
                return [
                    f"{topic}-{each['partition_index']}"
                    for topic, each in partitions
                    if each["leader_id"] == _NOBODY
                    and brokers.issuperset(each["replica_nodes"])
                    and _may_be_led(each)
                ]
        return None if brokers else []

    def _claim(self, clients: Mapping[str, KafkaClient]) -> tuple[int, str] | None:
        """Return (epoch, node) of the highest claim to lead with a high watermark."""

        def ask(node: str) -> int | None:
            answer = clients[node].call("DescribeQuorum", 1, _QUORUM, _ASK_TIMEOUT_MS)
            if answer.status != "ok" or answer.response["error_code"] != 0:
                return None
            for topic in answer.response["topics"]:
                for part in topic["partitions"]:
                    leads = part["leader_id"] == self.deployment.hosts[node].node_id
                    if part["error_code"] == 0 and leads and part["high_watermark"] >= 0:
                        return int(part["leader_epoch"])
            return None

        claims = on_all(self.deployment.controllers, ask)
        return max(((e, node) for node, e in claims.items() if e is not None), default=None)

    def _controller_seen_by(self, node: str) -> int:
        answer = self._probes[node].call("Metadata", METADATA_VERSION, _WHO_LEADS, _ASK_TIMEOUT_MS)
        return int(answer.response["controller_id"]) if answer.status == "ok" else -1

    def restore(self) -> list[Trouble]:
        """Heal, resume and start every node; return the failures."""
        return self.remote.restore(start=True)

    def stop(self) -> None:
        """End every node: SIGTERM, then SIGKILL; brokers get time for a controlled shutdown.

        A leader that ends waits for answers that other ending nodes will not give.
        """
        self.deployment.stop_all(_STOP_S)

    def collect(self, run: Path) -> None:
        """Copy the nodes' files into ``run/nodes/<name>``."""
        self.deployment.collect(run)

    def close(self) -> None:
        """End all clients, connections and sessions."""
        self._records.close()
        for clients in (self._probes, self._watchers, self._broker_probes):
            for client in clients.values():
                client.close()
        self.remote.close()
        self.deployment.close()


def _network_drivers(options: RunOptions) -> frozenset[str]:
    """Return the drivers on hosts (:mod:`harness.on_host.network`) for the faults of a run."""
    if {"network", "wire", "roles-slow"}.isdisjoint(options.faults):
        return frozenset()
    drivers = {LINKS: "packets", RELAY: "messages"}
    return frozenset(drivers[each] for each in drivers.keys() - set(options.lacking))


def _foreign(own: KraftOptions) -> Foreign | None:
    """Return the client of records, if it is not ours."""
    if own.client == JAVA:
        return JavaClient.of(own.properties)
    return Librdkafka.of(own.properties) if own.client == LIBRDKAFKA else None


class Kraft:
    """The adapter (:class:`~harness.system.System`); ``records`` are the clients of records."""

    name = "kraft"
    about = "KRaft controllers and brokers in Python: the metadata plane of Kafka"
    default_workload = "metadata"
    protocol = PROTOCOL
    workloads: Sequence[str] = ("metadata", "register", "leader", "partitions")
    checkers: Sequence[str] = ("conformance", "recovery")
    offers: Sequence[Capability[Any]] = CAPABILITIES
    replayable = True
    """Its nodes leave input logs with which they can be run again."""

    def __init__(self, records: Records | None = None) -> None:
        self._records = records or Records({}, None)

    def lacking(self, options: RunOptions) -> Mapping[str, str]:
        """Return what it does not offer: a static quorum has fixed voters, and records may be lost
        with the power of all their replicas, of which hosts keep no account."""
        lacks = {}
        if not KraftOptions.of(options).dynamic:
            lacks[MEMBERSHIP.name] = "the voters of a static quorum are fixed; add --quorum dynamic"
        if options.workload == PRODUCE:
            lost = "records are lost by design when all their replicas lose power"
            lacks[POWER.name] = f"{lost}; only -c sim can distinguish such losses"
            lacks[HOSTS.name] = lacks[POWER.name]  # A crashed host loses what it has not flushed.
        return lacks

    def configured(self, given: Sequence[str]) -> Kraft:
        """Return the system with these options. Raises OptionError, one line, for a wrong option
        of its own, or for properties that the client of records refuses."""
        own = KraftOptions.parsed(given)
        return Kraft(Records(own.topics, _foreign(own)))

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the client of records unless it is there, before any host is up."""
        if self._records.foreign is not None:
            self._records.foreign.fetch(say)

    def facts(self, options: RunOptions) -> Mapping[str, Any]:
        """Return how soon brokers miss each other, and what the clients' configuration allows."""
        if options.workload != PRODUCE:
            return {}
        serving = KraftOptions.of(options).serving(options.nodes)
        own = self._records.facts(options.seed, serving)
        return {**pace(options.seed), **own}

    def layout(self, options: RunOptions) -> KraftLayout:
        """Return controllers, and brokers after them."""
        return KraftOptions.of(options).layout(options.nodes)

    def prepare(self, nodes: Path) -> None:
        """Compile the code for hosts, the node code and the agents, and load what sends it."""
        with ThreadPoolExecutor(1) as pool:
            # Another process does half of this.
            archive = pool.submit(lambda: compressed(with_bytecode(build_archive(nodes))))
            modules(AGENT)
            ssh.load()
            archive.result()

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> Deployed:
        """Install and start the node code of the folder ``nodes`` on ``hosts``.

        Nothing is left running when this raises (``RemoteError``, one line).
        """
        own = KraftOptions.of(options)
        foreign = self._records.foreign
        if foreign is not None and any(host.gateway for host in hosts):
            raise OptionError(
                f"--client {foreign.name} cannot reach the hosts of a plain user:"
                " run kraftwreck as root"
            )
        snapshots = SNAPSHOTS if options.snapshots else {}
        hurry = properties(pace(options.seed)) if options.workload == PRODUCE else {}
        settings = Settings(
            seed=options.seed,
            tree=nodes,
            brokers=own.brokers,
            combined=own.combined,
            dynamic=own.dynamic,
            write_loss="power" in options.faults,
            own_clocks="clock" in options.faults,
            own_disks=not {"disk", "storage"}.isdisjoint(options.faults),
            means=_network_drivers(options),
            squeezable="squeeze" in options.faults,
            other_tree=(options.other or nodes) if "restart" in options.faults else None,
            extra={**snapshots, **hurry},
        )
        deployment = Deployment(hosts, settings)
        try:
            deployment.install_and_start()
            addresses = map(deployment.broker_address, deployment.serving)
            servers = ",".join(f"{ip}:{port}" for ip, port in addresses)
            self._records.open(servers, len(deployment.serving), options.seed, options.concurrency)
            return KraftDeployment(deployment, self._records)
        except BaseException:
            with contextlib.suppress(RemoteError):
                deployment.stop_all()
            self._records.close()
            deployment.close()
            raise

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        """Return the digest of the node code, and which version of the trace it writes."""
        return {"nodes": digest(build_archive(nodes)), "traces": TRACES}


SYSTEM = Kraft()
