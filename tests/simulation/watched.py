"""Hosts without nodes, watched by the invariants: a test writes their events."""

from __future__ import annotations

import zlib
from typing import Any

from kraftwreck.checkers.kraft.quorum_model.model import NONCONFORMANT
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.disk_index import Durable, batch_epoch, batch_range
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
        self._lives: dict[int, tuple[int, int]] = {}
        """By host: its incarnation, and the number of its last event."""
        self._wiped: dict[int, int] = {}
        """The incarnation of hosts whose disk was replaced since."""
        self.world.on_wipe.append(self._on_wipe)

    def _none(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> Core:
        raise AssertionError("nothing runs here")

    def _on_wipe(self, host: Host) -> None:
        self._wiped[host.id] = self._lives.pop(host.id, (0, 0))[0]

    def host(self, number: int) -> Host:
        return self.world.host(f"n{number}")

    def disk(self, number: int, *effects: Durable) -> None:
        host = self.host(number)
        self._begin(number)
        for effect in effects:
            for told in self.world.on_disk:
                told(host, effect)
            before = disk_of(host).end_offset
            host.disk.note(effect)
            if isinstance(effect, AppendLog):
                base, end = batch_range(effect.batch)
                detail = {"base": base, "last": end - 1, "epoch": batch_epoch(effect.batch)}
                crc = zlib.crc32(effect.batch)
                self.tell(number, "append", {**detail, "crc": crc, "by": "follower"})
            elif isinstance(effect, TruncateLog):
                self.tell(number, "truncate", {"from": before, "to": effect.end_offset})
            elif isinstance(effect, InstallSnapshot):
                self.tell(number, "install", {"end": effect.end_offset, "epoch": effect.epoch})

    def _begin(self, number: int) -> None:
        """Start the host's first process with its disk, as far as the model of the quorum knows."""
        if number not in self._lives:
            self._lives[number] = self._wiped.get(number, 0), 0
            directory = self.host(number).disk.directory.hex()
            self.tell(number, "start", {"directory": directory}, epoch=0)

    def tell(
        self, number: int, kind: str, detail: dict[str, Any], epoch: int = -1, state: str = ""
    ) -> None:
        """Report an event that only the model of the quorum hears."""
        last = self.host(number).last_trace
        event = self._event(number, kind, detail, state or "follower", epoch=epoch, hw=-1)
        if epoch < 0:
            event.epoch = 1 if last is None else last.epoch
        self.watch.quorum.take(event)

    def _event(
        self, number: int, kind: str, detail: dict[str, Any], state: str, *, epoch: int, hw: int
    ) -> TraceEvent:
        life, seq = self._lives[number]
        life, seq = (life + 1, 0) if kind == "start" else (life, seq + 1)
        self._lives[number] = life, seq
        disk = disk_of(self.host(number))
        return TraceEvent(
            node=f"n{number}",
            incarnation=life,
            seq=seq,
            mono=0,
            wall=0,
            kind=kind,
            state=state,
            epoch=epoch,
            leader={"leader": number, "candidate": -1}.get(state, 1),
            voted=-1,
            leo=max(disk.end_offset, hw),
            hw=hw,
            detail=detail,
        )

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
        self._begin(number)
        host = self.host(number)
        if state == "leader" != self.watch.quorum.tracks[host.name].state:
            self.tell(number, "state", {}, epoch, "candidate")
        event = self._event(number, kind, detail or {}, state, epoch=epoch, hw=hw)
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
        """The rules that were broken; scripted events are no whole transitions."""
        types = [failure.type for failure in self.watch.failures.items]
        return [each for each in types if each != NONCONFORMANT]
