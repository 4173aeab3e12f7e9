"""Faults on simulated machines, whatever runs on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraftwreck.harness.capabilities import (
    CLOCKS,
    DISKS,
    LEADERS,
    MESSAGES,
    PACKETS,
    POWER,
    PROCESSES,
    Capability,
    ClockSetting,
    DiskTrouble,
    Environment,
    Evidence,
    Grudge,
)
from kraftwreck.harness.clusters.providers import SIMULATOR_LACKS
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

OFFERS: tuple[Capability[Any], ...] = (
    PACKETS,
    MESSAGES,
    PROCESSES,
    POWER,
    CLOCKS,
    DISKS,
    LEADERS,
)
"""The capabilities of the machines of any core."""

LEADER = "leader"
"""The state in the traces of a core that leads."""

STOP_LIMIT_US = 5_000_000
"""Microseconds after which a process that was asked to stop is ended."""


class CoreFaults:
    """Carries out faults on the machines of ``world``; ``env`` is the record of it for families."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leader: tuple[int, str] | None = None
        world.on_trace.append(self._see)
        self.env = self._environment()

    def _environment(self) -> Environment:
        names = [host.name for host in self._world.hosts]
        offers = dict.fromkeys(OFFERS, self)
        return Environment(names, offers, lacking=SIMULATOR_LACKS, concurrent=False)

    def _see(self, host: Host, event: TraceEvent) -> None:
        newest = self._leader is None or event.epoch >= self._leader[0]
        if event.state == LEADER and newest:
            self._leader = (event.epoch, event.node)

    def leader(self) -> str | None:
        """Return the last node that showed itself as leader, of the highest term."""
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
        killed = self._world.kill(node, lose_power=power)
        incarnation = self._world.host(node).incarnation
        return {node: {"killed": killed, "incarnation": incarnation, "power_lost": power}}

    def start(self, node: str) -> Evidence:
        host = self._world.host(node)
        evidence: Evidence = self._end(node, False)[node] if host.stopping else {}
        evidence |= {"started": self._world.start(node), "incarnation": host.incarnation}
        return {node: evidence}

    def pause(self, node: str) -> Evidence:
        return {node: {"paused": self._world.pause(node)}}

    def resume(self, node: str) -> Evidence:
        return {node: {"resumed": self._world.resume(node)}}

    def stop(self, node: str) -> Evidence:
        """SIGTERM; a process that has not ended at its next start is killed then."""
        asked = self._world.stop(node, self._stop_limit_us(node))
        return {node: {"asked": asked, "incarnation": self._world.host(node).incarnation}}

    def _stop_limit_us(self, node: str) -> int:
        return STOP_LIMIT_US

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
        return {node: {"flipped": False}}

    def disk_damaged(self, node: str) -> bool:
        return self._world.host(node).disk.damaged

    def mend_disk(self, node: str) -> Evidence:
        self._world.fact(f"mend {node}")
        return {node: self._world.host(node).disk.end_trouble()}
