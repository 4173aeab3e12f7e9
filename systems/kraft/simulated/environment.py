"""The simulated cluster as a nemesis sees it, and images of its disks like those of real runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage, parse_checkpoint, share
from kraftwreck.harness.capabilities import (
    CLOCKS,
    DISKS,
    LEADERS,
    LOAD,
    MEMBERSHIP,
    MESSAGES,
    PACKETS,
    POWER,
    PROCESSES,
    TORN_WRITES,
    Capability,
    Environment,
    Evidence,
    MemberChange,
)
from kraftwreck.harness.clusters.providers import SIMULATOR_LACKS
from kraftwreck.harness.simulated.core_faults import CoreFaults
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.nodes.log.uuids import to_text
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.server.shell import BROKER_SHUTDOWN_LIMIT_S, SHUTDOWN_LIMIT_S
from kraftwreck.simulation.disk import DiskContent
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.faults.voter_changes import Members
from kraftwreck.systems.kraft.options import BROKER, CONTROLLER
from kraftwreck.systems.kraft.simulated.admin import VirtualAdmin
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.cluster import CLUSTER_ID, SimulatedCluster


class SimulatedFaults(CoreFaults):
    """The capabilities of the simulated cluster; ``env`` is the record of it for families.

    Disks can be damaged, members change, and every kill leaves an image of the disk.
    """

    def __init__(self, world: World, cluster: SimulatedCluster) -> None:
        self.images: list[DiskImage] = []
        self._pieces: dict[str, tuple[bytes, ...]] = {}
        self._cluster = cluster
        self._kills = 0
        ids = {name: cluster.ids[name] for name in cluster.controllers}
        members = Members(
            ids,
            cluster.controller_endpoints,
            CLUSTER_ID,
            lambda node: cluster.directory(ids[node]),
        )
        self.admin = VirtualAdmin(world, members)
        super().__init__(world)

    def _environment(self) -> Environment:
        cluster = self._cluster
        every: list[Capability[Any]] = [
            *(PACKETS, MESSAGES, PROCESSES, POWER, CLOCKS, DISKS, TORN_WRITES, LOAD, LEADERS)
        ]
        lacking = dict(SIMULATOR_LACKS)
        if cluster.knobs.dynamic:
            every.append(MEMBERSHIP)
        else:
            lacking[MEMBERSHIP.name] = "the quorum is static"
        brokers = [name for name in cluster.names if name not in cluster.controllers]
        return Environment(
            cluster.names,
            dict.fromkeys(every, self),
            lacking=lacking,
            roles={CONTROLLER: cluster.controllers, BROKER: brokers},
            concurrent=False,
        )

    def _end(self, node: str, power: bool) -> Evidence:
        evidence = super()._end(node, power)
        if evidence[node]["killed"]:
            self._kills += 1
            self.take_image(node, f"kill-{self._kills}")
        return evidence

    def start(self, node: str) -> Evidence:
        evidence = super().start(node)
        host = self._world.host(node)
        if host.node is None and disk_of(host).refusal is not None:
            evidence[node]["refused"] = disk_of(host).refusal
        return evidence

    def _stop_limit_us(self, node: str) -> int:
        brokers = self._cluster.brokers
        limit_s = BROKER_SHUTDOWN_LIMIT_S if node in brokers else SHUTDOWN_LIMIT_S
        return round(limit_s * 1_000_000)

    def busiest(self) -> str | None:
        for name in (self.leader(), *self._cluster.controllers):
            node = None if name is None else self._world.host(name).node
            if isinstance(node, Node):
                led = {
                    broker: len(node.image.led_by(self._cluster.ids[broker]))
                    for broker in self._cluster.brokers
                }
                return max(led, key=lambda broker: led[broker], default=None)
        return None

    def wipe(self, node: str) -> Evidence:
        if self._world.host(node).stopping:
            self._end(node, False)
        disk = self._cluster.new_disk(self._cluster.ids[node])
        self._world.wipe(node, disk)
        return {node: {"wiped": True, "directory": to_text(disk.directory)}}

    def damage_disk(self, node: str, draw: int) -> Evidence:
        done = disk_of(self._world.host(node)).flip(draw)
        self._world.fact(f"flip {node} {done}")
        return {node: done}

    def tear_log(self, node: str, draw: int) -> Evidence:
        done = disk_of(self._world.host(node)).tear(draw)
        self._world.fact(f"tear {node} {done}")
        return {node: done}

    def mend_disk(self, node: str) -> Evidence:
        evidence = super().mend_disk(node)
        if disk_of(self._world.host(node)).restore():
            evidence[node]["bit_put_right"] = True
        return evidence

    def members(self) -> Sequence[str]:
        return self._cluster.controllers

    def change_members(self, changes: Sequence[MemberChange]) -> Evidence:
        self.admin.ask(changes)
        return {change.node: {"asked": change.action} for change in changes}

    def member_changes(self) -> Evidence:
        return {"ended": self.admin.take_ended(), "open": self.admin.open}

    def take_image(self, node: str, label: str) -> None:
        """Keep an image of the node's disk."""
        before = self._pieces.get(node, ())
        image = disk_image(node, label, disk_of(self._world.host(node)).content(), before)
        self._pieces[node] = image.pieces
        self.images.append(image)


def disk_image(
    node: str, label: str, content: DiskContent, before: Sequence[bytes] = ()
) -> DiskImage:
    """Return ``content`` in the files of a real node.

    ``before`` are the pieces of the log in an older image of the disk.
    """
    try:
        saved = json.loads(content.quorum_state or b"null")
    except ValueError:  # damaged; a node cannot start from it
        saved = None
    return DiskImage(
        node=node,
        label=label,
        pieces=share(content.log, before),
        quorum_state=saved,
        start_offset=content.start,
        snapshots=tuple(
            (snapshot_name(*name), content.snapshots[name]) for name in sorted(content.snapshots)
        ),
        directory=to_text(content.directory),
        epochs=None if content.checkpoint is None else parse_checkpoint(content.checkpoint),
    )
