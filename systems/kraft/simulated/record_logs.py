"""The logs of partitions as they must be on the disks of brokers: headers, by host and partition.

Each disk effect changes the expected log. When a process opens a log, the file is compared with it:
a killed process loses nothing, a loss of power may lose what was not flushed (F1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk


@dataclass(slots=True)
class RecordLog:
    """The expected log of one replica. ``losses`` counts what its disk had lost by then.

    The replica knows the producers of records from ``began`` on. ``had`` is the furthest end that
    it had before a loss, 0 if there was none. ``removed`` is where an earlier replica of the host
    ended when it was removed. ``interrupted``: an operation on it was, or failed, before it was
    opened.
    """

    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    epochs: tuple[tuple[int, int], ...] = ()
    losses: int = 0
    had: int = 0
    removed: int = 0
    began: int = 0
    interrupted: bool = False

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.batches[-1].next_offset if self.batches else self.start

    def cut(self, end_offset: int) -> list[Batch]:
        """Remove the batches from the one with ``end_offset`` on, and return them."""
        place = len(self.batches)
        while place and self.batches[place - 1].next_offset > end_offset:
            place -= 1
        removed = self.batches[place:]
        del self.batches[place:]
        return removed

    def at(self, offset: int) -> Batch | None:
        """Return the batch that begins at ``offset``, None without one."""
        place = bisect_left(self.batches, offset, key=_base)
        found = self.batches[place] if place < len(self.batches) else None
        return found if found is not None and found.base_offset == offset else None

    def with_content_of(self, sent: Batch) -> Batch | None:
        """Return the last batch with the records of ``sent``, wherever it is, None without one."""
        wanted = sent.crc, sent.producer_id
        return next((e for e in reversed(self.batches) if (e.crc, e.producer_id) == wanted), None)


def _base(batch: Batch) -> int:
    return batch.base_offset


class RecordLogs:
    """The expected logs of all replicas.

    ``on_append`` is called with each batch that a replica appends, ``on_cut`` with those that it
    cuts from the end of its log. ``on_delete`` is called with those that it deletes from the
    beginning, and with where the log began before.
    """

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._logs: dict[tuple[int, PartitionKey], RecordLog] = {}
        self._removed: dict[tuple[int, PartitionKey], int] = {}
        """Where the replicas ended that hosts have removed."""
        self.on_append: list[Callable[[Host, PartitionKey, Batch], None]] = []
        self.on_cut: list[Callable[[Host, PartitionKey, list[Batch]], None]] = []
        self.on_delete: list[Callable[[Host, PartitionKey, int, list[Batch]], None]] = []
        world.on_disk.append(self._on_disk)
        world.on_caused.append(self._on_caused)
        world.on_wipe.append(self._wiped)

    def of(self, host_id: int, key: PartitionKey) -> RecordLog | None:
        """Return the log of a replica, None if its host never opened it."""
        return self._logs.get((host_id, key))

    def lossless(self, host: Host, key: PartitionKey) -> bool:
        """Whether the disk has lost nothing since the log was opened."""
        log = self.of(host.id, key)
        return log is not None and log.losses == disk_of_records(host).losses

    def replicas(self, key: PartitionKey) -> list[tuple[int, RecordLog]]:
        """Return (host id, log) of all replicas that have one."""
        return [(host, log) for (host, each), log in self._logs.items() if each == key]

    def partitions(self) -> list[PartitionKey]:
        """Return all partitions."""
        return sorted({key for _, key in self._logs})

    def on_host(self, host: Host) -> list[PartitionKey]:
        """Return the partitions of which a host has logs."""
        return [key for host_id, key in self._logs if host_id == host.id]

    def remove(self, host: Host, key: PartitionKey) -> None:
        """Expect the log no longer, if there was one."""
        log = self._logs.pop((host.id, key), None)
        if log is not None:
            self._removed[host.id, key] = max(log.had, log.end, log.removed)

    def _wiped(self, host: Host) -> None:
        for place in [place for place in self._logs if place[0] == host.id]:
            del self._logs[place]

    def _on_disk(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is data.Append:
            if effect.key not in disk_of_records(host).logs.full:
                self._logs[host.id, effect.key].batches.append(effect.batch.bare())
                for told in self.on_append:
                    told(host, effect.key, effect.batch)
        elif kind is data.RemoveLog:
            self.remove(host, effect.key)
        elif kind is data.WriteEpochs:
            if effect.key not in disk_of_records(host).logs.full:
                self._logs[host.id, effect.key].epochs = effect.entries
        elif kind is data.Truncate:
            removed = self._logs[host.id, effect.key].cut(effect.end_offset)
            for heard in self.on_cut:
                heard(host, effect.key, removed)
        elif kind is data.StartAt:
            log = self._logs[host.id, effect.key]
            log.batches.clear()
            log.start = log.began = effect.offset
            log.epochs = ()
        elif kind is data.DeleteUpTo:
            log = self._logs[host.id, effect.key]
            began, log.start = log.start, effect.start_offset
            deleted: list[Batch] = []
            while log.batches and log.batches[0].next_offset <= log.start:
                deleted.append(log.batches.pop(0))
            for learned in self.on_delete:
                learned(host, effect.key, began, deleted)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._opened(host, event.key)

    def _opened(self, host: Host, key: PartitionKey) -> None:
        disk = disk_of_records(host)
        start, batches = disk.logs.content(key)
        kept = [batch for batch in batches if batch.next_offset > start]
        known = self._logs.get((host.id, key))
        opened = RecordLog(start, kept, losses=disk.losses, began=start)
        opened.removed = self._removed.get((host.id, key), 0)
        self._logs[host.id, key] = opened
        opened.interrupted = key in disk.interrupted
        disk.interrupted.discard(key)
        if opened.interrupted:
            return
        if known is None:
            if kept:
                self._failures.add(
                    "F1",
                    self._world.now,
                    f"{host.name} opened {name_of(key)}, which it never had, with {start} to"
                    f" {opened.end}",
                )
            return
        if disk.orderly:
            # A snapshot has all producers. After a crash they are read from the log, as in Apache
            # Kafka.
            opened.began = known.began
        lost = known.losses != disk.losses
        opened.had = max(known.had, known.end) if lost else known.had
        same = kept == known.batches[: len(kept)] if lost else kept == known.batches
        if not same:
            self._failures.add(
                "F1",
                self._world.now,
                f"{host.name} opened {name_of(key)} with {start} to {opened.end}, which had"
                f" {known.start} to {known.end}{' before a loss of power' if lost else ''}",
            )


def replicas_on(host: Host) -> Mapping[PartitionKey, Partition]:
    """Return the replicas of a broker that runs and stores records; none of any other host."""
    node = host.node
    if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
        return {}
    return node.broker.data.core.partitions


def has_stopped(host: Host) -> bool:
    """Return whether the broker on ``host`` has ended its work, so that its process ends soon."""
    node = host.node
    return isinstance(node, Node) and node.broker is not None and node.broker.stopped


def disk_of_records(host: Host) -> DataDisk:
    """Return the disk of a broker that stores records."""
    disk = host.disk
    assert isinstance(disk, DataDisk)
    return disk


def name_of(key: PartitionKey) -> str:
    """Return a partition as text: the beginning of its topic id, and its number."""
    return f"{key[0].hex()[:8]}-{key[1]}"
