"""Watches all logs at once: what is committed must be everywhere the same, and stay.

Batches are replicated whole, so the k-th batch of every log covers the same offsets as long
as the logs agree; the committed log is one list of batches that each node's log must start
with. Log matching is checked by induction: a batch (base offset, epoch) has one content and
one predecessor in the whole world.
"""

from __future__ import annotations

from histories.trace import TraceEvent
from nodes.consensus.effects import AppendLog, TruncateLog
from simulation.disk import Durable, batch_range
from simulation.failures import Failures
from simulation.host import Host
from simulation.world import World


def batch_epoch(batch: bytes) -> int:
    """Return the leader epoch of an encoded batch v2."""
    return int.from_bytes(batch[12:16], "big")


class LogWatch:
    """The committed log of the world, and how far each node's log is known to agree."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self.committed: list[bytes] = []
        self._committed_in: list[int] = []  # The epoch in which each was first committed.
        self._verified = {host.id: 0 for host in world.hosts}
        self._batches: dict[tuple[int, int], tuple[bytes, tuple[int, int]]] = {}
        world.on_disk.append(self._on_disk)

    @property
    def end_of_committed(self) -> int:
        """The offset after the last record known to be committed."""
        return batch_range(self.committed[-1])[1] if self.committed else 0

    def end(self, host: Host) -> tuple[int, int]:
        """Return (epoch of the last batch, log end offset) of the node's log."""
        log = host.disk.log
        return (batch_epoch(log[-1]) if log else 0, host.disk.end_offset)

    def _on_disk(self, host: Host, effect: Durable) -> None:
        """Called before ``effect`` reaches the disk."""
        if type(effect) is AppendLog:
            self._check_append(host, effect.batch)
        elif type(effect) is TruncateLog:
            self._check_truncate(host, effect.end_offset)

    def _check_append(self, host: Host, batch: bytes) -> None:
        log = host.disk.log
        last = (0, 0) if not log else (batch_range(log[-1])[0], batch_epoch(log[-1]))
        base, epoch = batch_range(batch)[0], batch_epoch(batch)
        if epoch < last[1]:
            self._fail("I7", f"{host.name} appended epoch {epoch} at {base} after epoch {last[1]}")
        content, before = self._batches.setdefault((base, epoch), (batch, last))
        if content is not batch and content != batch:
            self._fail("I8", f"two batches of epoch {epoch} start at offset {base} ({host.name})")
        elif before != last:
            self._fail(
                "I8",
                f"{host.name} appended batch (offset {base}, epoch {epoch}) after batch {last},"
                f" elsewhere it follows {before}",
            )

    def _check_truncate(self, host: Host, end_offset: int) -> None:
        disk = host.disk
        keep = len(disk.ends)
        while keep and disk.ends[keep - 1] > end_offset:
            keep -= 1
        if keep < len(self.committed) and keep < len(disk.log):
            lost = self.committed[keep]
            if disk.log[keep] == lost:
                self._fail(
                    "I10",
                    f"{host.name} cut its log at {end_offset} and with it the committed batch at"
                    f" {batch_range(lost)[0]}",
                )
        self._verified[host.id] = min(self._verified[host.id], keep)

    def restarted(self, host: Host) -> None:
        """The node came back with what its disk kept."""
        self._verified[host.id] = min(self._verified[host.id], len(host.disk.log))

    def advanced(self, host: Host, event: TraceEvent) -> None:
        """The node's high watermark is ``event.hw``: what is below it is committed (I10)."""
        log, ends = host.disk.log, host.disk.ends
        index = self._verified[host.id]
        while index < len(log) and ends[index] <= event.hw:
            batch = log[index]
            if index == len(self.committed):
                self.committed.append(batch)
                self._committed_in.append(event.epoch)
                self._check_majority(index, batch, event)
            elif self.committed[index] != batch:
                base = batch_range(batch)[0]
                self._fail(
                    "I10",
                    f"{host.name} counts offset {base} (epoch {batch_epoch(batch)}) as committed,"
                    f" where epoch {batch_epoch(self.committed[index])} was committed before",
                    event,
                )
                return
            index += 1
        self._verified[host.id] = index

    def _check_majority(self, index: int, batch: bytes, event: TraceEvent) -> None:
        hosts = self._world.hosts
        holders = [
            h.name
            for h in hosts
            if h.disk.flushed > index and (h.disk.log[index] is batch or h.disk.log[index] == batch)
        ]
        if len(holders) * 2 <= len(hosts):
            self._fail(
                "I11",
                f"{event.node} counts offset {batch_range(batch)[0]} as committed while only"
                f" {holders} of {len(hosts)} nodes have it on disk",
                event,
            )

    def elected(self, host: Host, event: TraceEvent) -> None:
        """A new leader must hold everything committed in older epochs (I9).

        What newer epochs committed it need not hold: it may have been stopped between its
        election and the moment it told of it.
        """
        log = host.disk.log
        for index in range(self._verified[host.id], len(self.committed)):
            if self._committed_in[index] >= event.epoch:
                return
            if index >= len(log) or log[index] != self.committed[index]:
                self._fail(
                    "I9",
                    f"{host.name} leads epoch {event.epoch} without the committed batch at offset"
                    f" {batch_range(self.committed[index])[0]}",
                    event,
                )
                return

    def _fail(self, kind: str, explanation: str, *events: TraceEvent) -> None:
        self._failures.add(kind, self._world.now, explanation, *events)
