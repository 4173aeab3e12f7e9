"""Watches that a log which is opened again has the producers of deleted batches (D3, KIP-360).

The snapshot of producers at the beginning of the first segment has them: a kill loses no file. A
loss of power may take a snapshot, and an interrupted operation may leave a segment without one.
The rule then expects a snapshot of later segments only.

Few logs are opened again while that snapshot is the only one with a producer. So each deletion must
keep the snapshots at the beginnings of the segments that it leaves, and each cut must remove those
above the new end.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.log.partition.names import SNAPSHOT, offsets_of
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import RecordLogs, disk_of_records, name_of

Place = tuple[int, PartitionKey]


class ProducerMemory:
    """Judges the logs of ``world`` when they are opened; ``logs`` are those that are expected."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._deleted: dict[Place, dict[int, tuple[int, int]]] = {}
        """The producers of deleted batches: the epoch and the end of the last batch of each."""
        self._losses: dict[Place, int] = {}
        """The losses of the disk when a log was opened last."""
        self._certain: dict[Place, int] = {}
        """Where a log ended when it was opened after a loss: later segments have snapshots."""
        self._kept: tuple[PartitionKey, frozenset[int]] | None = None
        """The log in which records are being deleted, and its snapshots before that."""
        logs.on_delete.append(self._on_delete)
        world.on_write.append(self._on_write)
        world.on_disk.append(self._on_disk)
        world.on_caused.append(self._on_caused)
        world.on_wipe.append(self._on_wipe)

    def _on_delete(self, host: Host, key: PartitionKey, _: int, deleted: list[Batch]) -> None:
        known = self._deleted.setdefault((host.id, key), {})
        for batch in deleted:
            if batch.is_idempotent:
                known[batch.producer_id] = batch.producer_epoch, batch.next_offset

    def _on_disk(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is data.DeleteUpTo:
            self._judge_snapshots(host, effect.key)
        elif kind is data.Truncate:
            self._judge_cut(host, effect.key)
            self._keep_below_first_segment(host, effect.key)
        elif kind is data.StartAt or kind is data.RemoveLog:
            self._deleted.pop((host.id, effect.key), None)

    def _on_write(self, host: Host, effect: Any) -> None:
        if type(effect) is data.DeleteUpTo:
            self._kept = effect.key, _snapshots(host, effect.key)

    def _judge_snapshots(self, host: Host, key: PartitionKey) -> None:
        before, self._kept = self._kept, None
        if before is None or before[0] != key:
            return
        bases = {each.base_offset for each in disk_of_records(host).logs.extents(key)}
        for base in sorted(bases & (before[1] - _snapshots(host, key))):
            self._failures.add(
                "D3",
                self._world.now,
                f"{host.name} deletes records of {name_of(key)}, and the snapshot of producers at"
                f" {base}, where a segment begins that it keeps",
            )

    def _judge_cut(self, host: Host, key: PartitionKey) -> None:
        end = disk_of_records(host).logs.end_of(key)
        for offset in sorted(_snapshots(host, key)):
            if offset > end:
                self._failures.add(
                    "D3",
                    self._world.now,
                    f"{host.name} keeps the snapshot of producers at {offset} of"
                    f" {name_of(key)}, which it has cut at {end}",
                )

    def _on_wipe(self, host: Host) -> None:
        memories: tuple[dict[Place, Any], ...] = self._deleted, self._losses, self._certain
        for memory in memories:
            for place in [place for place in memory if place[0] == host.id]:
                del memory[place]

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is not LogOpened:
            return
        place = host.id, event.key
        log = self._logs.of(*place)
        if log is None:
            return
        lost = log.losses != self._losses.get(place, log.losses)
        self._losses[place] = log.losses
        if lost or log.interrupted:
            self._certain[place] = log.end
            self._deleted.pop(place, None)
        self._keep_below_first_segment(host, event.key)
        has = {batch.producer_id: batch.producer_epoch for batch in event.producers}
        for producer, (epoch, end) in self._deleted.get(place, {}).items():
            if has.get(producer, -1) < epoch:
                self._failures.add(
                    "D3",
                    self._world.now,
                    f"{host.name} opens {name_of(event.key)} without epoch {epoch} of producer"
                    f" {producer}, whose batches below {end} it had deleted",
                )

    def _keep_below_first_segment(self, host: Host, key: PartitionKey) -> None:
        """Forget the producers with a batch in the first segment: no snapshot need have them."""
        place = host.id, key
        known = self._deleted.get(place)
        if known is None:
            return
        extents = disk_of_records(host).logs.extents(key)
        first = extents[0].base_offset if extents else -1
        if first <= self._certain.get(place, -1):
            del self._deleted[place]
            return
        self._deleted[place] = {
            producer: last for producer, last in known.items() if last[1] <= first
        }


def _snapshots(host: Host, key: PartitionKey) -> frozenset[int]:
    """Return the offsets of the snapshots of producers of a log."""
    disk = disk_of_records(host)
    return frozenset(offsets_of(disk.files.names(disk.logs.folder(key)), SNAPSHOT))
