"""The simulated cluster as a nemesis sees it, and images of its disks like those of real runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kraftwreck.checkers.recorded.run_data import DiskImage, parse_checkpoint, share
from kraftwreck.harness.environment import (
    ClockSetting,
    DiskTrouble,
    Environment,
    Evidence,
    Grudge,
    Resource,
)
from kraftwreck.harness.simulated.admin import VirtualAdmin
from kraftwreck.harness.simulated.cluster import CLUSTER_ID, SimulatedCluster
from kraftwreck.harness.voter_changes import Members, VoterChange
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.log.snapshots import snapshot_name
from kraftwreck.nodes.log.uuids import to_text
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.server.shell import BROKER_SHUTDOWN_LIMIT_S, SHUTDOWN_LIMIT_S
from kraftwreck.simulation.disk import DiskContent
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World


class SimulatedEnvironment(Environment):
    """The cluster as a nemesis sees it (:class:`harness.environment.Environment`)."""

    def __init__(self, world: World, cluster: SimulatedCluster) -> None:
        self._nodes = cluster.names
        self.images: list[DiskImage] = []
        self._pieces: dict[str, tuple[bytes, ...]] = {}
        self._world = world
        self._cluster = cluster
        self._kills = 0
        self._leader: tuple[int, str] | None = None
        ids = {name: cluster.ids[name] for name in cluster.controllers}
        members = Members(
            ids,
            cluster.controller_endpoints,
            CLUSTER_ID,
            lambda node: cluster.directory(ids[node]),
        )
        self.admin = VirtualAdmin(world, members)
        world.on_trace.append(self._note_leader)

    @property
    def nodes(self) -> Sequence[str]:
        return self._nodes

    @property
    def controllers(self) -> Sequence[str]:
        return self._cluster.controllers

    @property
    def dynamic_quorum(self) -> bool:
        return self._cluster.knobs.dynamic

    @property
    def concurrent(self) -> bool:
        return False

    def _note_leader(self, host: Host, event: TraceEvent) -> None:
        if event.state == "leader" and (self._leader is None or event.epoch >= self._leader[0]):
            self._leader = (event.epoch, event.node)

    def leader(self) -> str | None:
        return self._leader[1] if self._leader else None

    def drop(self, grudge: Grudge) -> Evidence:
        self._world.cut(grudge)
        return {node: {"drops": sorted(grudge[node])} for node in sorted(grudge)}

    def heal(self) -> Evidence:
        return {node: {"dropped": count} for node, count in self._world.heal().items()}

    def kill(self, node: str) -> Evidence:
        world = self._world
        power = draw(world.seed, "lose-power", node, world.now) % 100 < world.knobs.power_loss
        return self._end(node, power)

    def cut_power(self, node: str) -> Evidence:
        return self._end(node, True)

    def _end(self, node: str, power: bool) -> Evidence:
        world = self._world
        killed = world.kill(node, lose_power=power)
        if killed:
            self._kills += 1
            self.take_image(node, f"kill-{self._kills}")
        incarnation = world.host(node).incarnation
        return {node: {"killed": killed, "incarnation": incarnation, "power_lost": power}}

    def start(self, node: str) -> Evidence:
        host = self._world.host(node)
        told: Evidence = self._end(node, False)[node] if host.stopping else {}
        told |= {"started": self._world.start(node), "incarnation": host.incarnation}
        if host.node is None and host.disk.refusal is not None:
            told["refused"] = host.disk.refusal
        return {node: told}

    def pause(self, node: str) -> Evidence:
        return {node: {"paused": self._world.pause(node)}}

    def resume(self, node: str) -> Evidence:
        return {node: {"resumed": self._world.resume(node)}}

    def stop(self, node: str) -> Evidence:
        """SIGTERM; a process that has not ended at its next start is killed then."""
        world, brokers = self._world, self._cluster.brokers
        limit_s = BROKER_SHUTDOWN_LIMIT_S if node in brokers else SHUTDOWN_LIMIT_S
        asked = world.stop(node, round(limit_s * 1_000_000))
        return {node: {"asked": asked, "incarnation": world.host(node).incarnation}}

    def upgrade(self, node: str) -> Evidence:
        raise ValueError("the fault restart needs real hosts, such as -c netns")

    def crash_host(self, node: str) -> Evidence:
        raise ValueError("-n host needs namespace hosts; use -n power in the simulator")

    def boot_host(self, node: str) -> Evidence:
        raise ValueError("-n host needs namespace hosts; use -n power in the simulator")

    def busiest_broker(self) -> str | None:
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

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        if any(each.of_packets for each in wanted):
            raise ValueError("disturbing packets needs real hosts; the simulator only has messages")
        before = self._world.disturb(wanted)
        return {"network": {"disturbances": len(wanted), "before": before}}

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        world = self._world
        clock = world.host(node).clock
        before = {"mono_us": clock.mono(world.now), "wall_us": clock.wall(world.now)}
        world.set_clock(
            node,
            wall_us=setting.wall_us,
            strobe_us=setting.strobe_us,
            rate_ppm=setting.rate_ppm,
        )
        after = {"mono_us": clock.mono(world.now), "wall_us": clock.wall(world.now)}
        return {node: {"before": before, "after": after}}

    def trouble_disk(self, node: str, trouble: DiskTrouble, draw: int) -> Evidence:
        self._world.fact(f"disk {node} {trouble} {draw}")
        return {node: self._world.host(node).disk.begin_trouble(trouble, draw).evidence()}

    def damage_disk(self, node: str, draw: int) -> Evidence:
        done = self._world.host(node).disk.flip(draw)
        self._world.fact(f"flip {node} {done}")
        return {node: done}

    def tear_log(self, node: str, draw: int) -> Evidence:
        done = self._world.host(node).disk.tear(draw)
        self._world.fact(f"tear {node} {done}")
        return {node: done}

    def disk_damaged(self, node: str) -> bool:
        return self._world.host(node).disk.damaged

    def mend_disk(self, node: str) -> Evidence:
        disk = self._world.host(node).disk
        self._world.fact(f"mend {node}")
        done = disk.end_trouble()
        if disk.restore():
            done["bit_put_right"] = True
        return {node: done}

    def squeeze(self, node: str, resource: Resource, draw: int) -> Evidence:
        raise ValueError(
            "-n squeeze needs real hosts, such as -c netns; simulated processes use no resources"
        )

    def release(self, node: str) -> Evidence:
        return {node: {}}

    def launch(self, node: str) -> Evidence:
        return self.start(node)

    def change_voters(self, changes: Sequence[VoterChange]) -> Evidence:
        self.admin.ask(changes)
        return {change.node: {"asked": change.action} for change in changes}

    def voter_changes(self) -> Evidence:
        return {"ended": self.admin.take_ended(), "open": self.admin.open}

    def take_image(self, node: str, label: str) -> None:
        """Keep an image of the node's disk."""
        before = self._pieces.get(node, ())
        image = disk_image(node, label, self._world.content(node), before)
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
