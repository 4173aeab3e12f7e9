"""Hosts without nodes, watched by the invariants: a test writes their events."""

from __future__ import annotations

from typing import Any

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    FinishSnapshot,
    FlushLog,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.disk_index import Durable
from kraftwreck.simulation.host import Core, Host
from kraftwreck.systems.kraft.simulated.binding import disk_of, kraft_world
from kraftwreck.systems.kraft.simulated.invariants import Invariants
from kraftwreck.systems.kraft.simulated.knobs import Knobs


def batch(base: int, epoch: int = 1, fill: int = 0) -> bytes:
    return base.to_bytes(8, "big") + bytes(4) + epoch.to_bytes(4, "big") + bytes([fill]) + bytes(14)


def snapshot(epoch: int = 1, timestamp: int = 7) -> bytes:
    return header_batch(epoch, 5, timestamp) + footer_batch(1, epoch, 5)


class Watched:
    """Three hosts without nodes: the test is what happens to them. n3 has another disk."""

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.world = kraft_world(["n1", "n2", "n3"], self._none, 1, knobs)
        for host in self.world.hosts:
            host.disk = Disk(bytes([host.id]) * 16, segment_bytes=1)
        self.watch = Invariants(self.world)

    def _none(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> Core:
        raise AssertionError("nothing runs here")

    def host(self, number: int) -> Host:
        return self.world.host(f"n{number}")

    def disk(self, number: int, *effects: Durable) -> None:
        host = self.host(number)
        for effect in effects:
            for told in self.world.on_disk:
                told(host, effect)
            host.disk.note(effect)

    def trace(
        self,
        number: int,
        kind: str,
        state: str = "follower",
        *,
        epoch: int = 1,
        hw: int = -1,
        detail: dict[str, Any] | None = None,
    ) -> None:
        host = self.host(number)
        event = TraceEvent(
            node=host.name,
            incarnation=1,
            seq=0,
            mono=0,
            wall=0,
            kind=kind,
            state=state,
            epoch=epoch,
            leader=1,
            voted=-1,
            leo=max(disk_of(host).end_offset, hw),
            hw=hw,
            detail=detail or {},
        )
        host.last_trace = event
        for told in self.world.on_trace:
            told(host, event)

    def told(
        self, number: int, end: int, epoch: int = 1, hw: int = -1, digest: str | None = None
    ) -> None:
        """Report a snapshot that the node made."""
        detail = {"end": end, "epoch": epoch, "by": "created", "digest": digest}
        self.trace(number, "snapshot", hw=hw, detail=detail)

    def commit(self, *numbers: int, upto: int, of: int = 3) -> None:
        """Give all hosts the same log of ``upto`` records, committed as ``numbers`` see it."""
        for number in range(1, of + 1):
            for base in range(disk_of(self.host(number)).end_offset, upto):
                self.disk(number, AppendLog(batch(base)), FlushLog())
        for number in numbers:
            self.trace(number, "hw", hw=upto)

    def make(self, number: int, end: int, epoch: int = 1, content: bytes | None = None) -> None:
        data = snapshot(epoch) if content is None else content
        self.disk(number, AppendSnapshot(end, epoch, 0, data), FinishSnapshot(end, epoch))

    def voters(self, number: int, ids: str, offset: int = -1, level: int = 1) -> None:
        """Report that the hosts ``ids`` (such as ``"123"``) are the voters, with their disks."""
        voters = [[int(i), (bytes([int(i)]) * 16 if level else bytes(16)).hex()] for i in ids]
        detail = {"voters": voters, "kraft_version": level, "offset": offset}
        self.trace(number, "voters", detail=detail)

    @property
    def found(self) -> list[str]:
        return [failure.type for failure in self.watch.failures.items]
