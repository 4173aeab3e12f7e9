"""The machines of a simulated run: controllers, brokers, and the formatting of their disks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.log.format import InitialVoter, Mode, format_directory
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.replication.events import AppendFailed
from kraftwreck.simulation.disk import ROOT, Disk
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import CONTROLLER_LISTENER, left_epoch
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.knobs import Knobs

CLUSTER_ID = "a3JhZnR3cmVjay1zaW0tMQ"
CONTROLLER_PORT = 9093
OLD_PORT = 19093
"""The port of controllers before a change of their listeners."""
BROKER_PORT = 9092
BROKER_LISTENER = "PLAINTEXT"
INDEX_INTERVAL = 200
"""Bytes between two entries of the indexes of a partition: the logs of a run are small."""
REGISTRATION_LIMIT_MS = 3_600_000
"""A limit that is never reached: nothing would restart a broker that ends unregistered."""


class SimulatedCluster:
    """``controllers`` by name, with node ids from 1 on, followed by brokers ``b1``, ``b2`` ….

    In a dynamic quorum the first controllers are its initial voters: each was formatted with a
    bootstrap snapshot that names them. Other hosts find them by address.
    """

    def __init__(self, controllers: Sequence[str], seed: int, knobs: Knobs) -> None:
        self.controllers = tuple(controllers)
        self.brokers = tuple(f"b{i}" for i in range(1, knobs.brokers + 1))
        self.names = self.controllers + self.brokers
        self.ids = {name: i for i, name in enumerate(self.names, start=1)}
        count = knobs.first_voters or len(self.controllers)
        self.first_voters = tuple(range(1, count + 1)) if knobs.dynamic else ()
        self.knobs = knobs
        self._seed = seed
        self._endpoints = {self.ids[n]: Endpoint(n, CONTROLLER_PORT) for n in self.controllers}
        self._generations = dict.fromkeys(self.ids.values(), 0)

    @property
    def configured_voters(self) -> tuple[int, ...]:
        """The ids of the voters of a static quorum; empty for a dynamic one."""
        return () if self.knobs.dynamic else tuple(self._endpoints)

    @property
    def controller_endpoints(self) -> dict[str, Endpoint]:
        """The endpoints of quorum RPCs, by name."""
        return {name: self._endpoints[self.ids[name]] for name in self.controllers}

    def directory(self, node_id: int) -> bytes:
        """Return the directory id of the node's current disk."""
        generation = self._generations[node_id]
        first, second = (draw(self._seed, "directory", node_id, generation, h) for h in (0, 1))
        # Like Kafka's: none starts with a dash in its text form.
        return (first >> 1).to_bytes(8, "big") + second.to_bytes(8, "big")

    def format_all(self, world: World) -> None:
        """Give every host its first disk."""
        for host in world.hosts:
            host.disk = self._formatted(host.id, first=True)
            brokers = host.name in self.brokers
            host.listener = BROKER_LISTENER if brokers else CONTROLLER_LISTENER
        if self.knobs.records:
            world.on_step.append(_begin_step)

    def _formatted(self, node_id: int, *, first: bool) -> Disk:
        """Return a disk with an empty data directory, as left by ``format``."""
        generation = self._generations[node_id]
        number = draw(self._seed, "files", node_id, generation)
        apart = ROOT / METADATA_DIRECTORY if self._is_apart(node_id) else None
        files = Filesystem(number, self.knobs.short_writes, apart)
        mode, voters = Mode.STATIC, list[InitialVoter]()
        if node_id in self.first_voters and first:
            mode = Mode.INITIAL_CONTROLLERS
            port = OLD_PORT if self.knobs.moved else CONTROLLER_PORT
            voters = [
                InitialVoter(i, Endpoint(self._endpoints[i].host, port), self.directory(i))
                for i in self.first_voters
            ]
        elif self.knobs.dynamic:
            mode = Mode.NO_INITIAL_CONTROLLERS
        directory, knobs = self.directory(node_id), self.knobs
        format_directory(
            ROOT,
            CLUSTER_ID,
            node_id,
            directory,
            mode=mode,
            voters=voters,
            metadata_version=knobs.metadata_version,
            media=files,
        )
        if knobs.records and node_id > len(self.controllers):
            settings = LogSettings(knobs.record_segment_bytes, index_interval_bytes=INDEX_INTERVAL)
            return DataDisk(
                directory, settings=settings, segment_bytes=knobs.segment_bytes, files=files
            )
        return Disk(directory, segment_bytes=knobs.segment_bytes, files=files)

    def _is_apart(self, node_id: int) -> bool:
        return self.knobs.metadata_apart and node_id > len(self.controllers)

    def new_disk(self, node_id: int) -> Disk:
        """Return an empty disk with a new directory id, formatted to join the quorum."""
        self._generations[node_id] += 1
        return self._formatted(node_id, first=False)

    def was_wiped(self, node_id: int) -> bool:
        """Return whether the node's first disk was replaced."""
        return self._generations[node_id] > 0

    def make_node(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> Node:
        """Return a node process for a host (:class:`~simulation.host.NodeFactory`)."""
        disk = host.disk
        if host.name in self.brokers:
            host.port = self._broker_port(host)
        if not isinstance(disk, DataDisk):
            return Node(self.config(host, left_epoch(host)), recovered, now, wall_ms)
        node = Node(self.config(host, disk.epoch), recovered, now, wall_ms)
        disk.name_of = lambda topic_id: node.image.stable.names[topic_id]
        return node

    def config(self, host: Host, previous_broker_epoch: int) -> NodeConfig:
        """Return the settings of a host's next process."""
        knobs = self.knobs
        config = NodeConfig(
            node_id=host.id,
            cluster_id=CLUSTER_ID,
            directory_id=host.disk.directory,
            voters={} if knobs.dynamic else self._endpoints,
            seed=self._seed,
            incarnation=host.incarnation,
            default_replication=min(3, len(self.brokers) or len(self.controllers)),
            bootstrap_servers=tuple(self._endpoints.values()),
        )
        if host.name in self.brokers:
            config = replace(
                config,
                controller=False,
                broker=True,
                can_become_voter=False,
                broker_listener=Endpoint(host.name, self._broker_port(host)),
                broker_incarnation=self._incarnation(host),
                previous_broker_epoch=previous_broker_epoch,
                data_plane=knobs.records,
                registration_timeout_ms=REGISTRATION_LIMIT_MS,
            )
        else:
            listener = self._endpoints[host.id]
            config = replace(config, listener=listener, auto_join=knobs.auto_join)
        numbers: dict[str, Any] = knobs.settings_of(host.id)
        return replace(config, **numbers)

    def _broker_port(self, host: Host) -> int:
        return BROKER_PORT + (host.life if self.knobs.changing_ports else 0)

    def _incarnation(self, host: Host) -> bytes:
        halves = (draw(self._seed, "broker", host.id, host.life, half) for half in (0, 1))
        return b"".join(half.to_bytes(8, "big") for half in halves)


def _begin_step(host: Host, event: Any) -> None:
    """Forget which logs had no room in the step before, once their cores know it."""
    if isinstance(host.disk, DataDisk):
        full = host.disk.logs.full
        if full:
            full &= {each.key for each in host.caused if isinstance(each, AppendFailed)}
