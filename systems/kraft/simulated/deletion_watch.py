"""Watches what leaders delete from the beginnings of their logs (D11).

A client has asked for it by DeleteRecords, or a limit of the topic allows it for each batch: it is
older than ``retention.ms``, or what follows it still has ``retention.bytes``.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.replication.events import DeleteRecordsReceived
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, name_of, replicas_on
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step

TO_THE_HIGH_WATERMARK: Final = -1


class DeletionWatch:
    """Judges the leaders of ``world``; ``watch`` knows their logs."""

    def __init__(self, world: World, failures: Failures, watch: RecordWatch) -> None:
        self._world = world
        self._failures = failures
        self._logs = watch.logs
        self._asked: dict[PartitionKey, int] = {}
        """The highest offset up to which any client has asked to delete."""
        self._open: set[tuple[int, int, PartitionKey]] = set()
        """Requests to delete up to the high watermark, by host and its life, until it knows one."""
        self._walls: dict[int, int] = {}
        """The wall clock (µs) of each host at its last step, by which it judges what is old."""
        world.on_step.append(self._on_step)
        world.on_emit.append(self._on_emit)
        record_traffic(world).on_request.append(self._read)
        watch.logs.on_delete.append(self._deleted)

    def _on_step(self, host: Host, event: Any) -> None:
        self._walls[host.id] = host.clock.wall(self._world.now)
        for request in requests_of_step(event):
            for key, offset in request.parts if isinstance(request, DeleteRecordsReceived) else ():
                if offset == TO_THE_HIGH_WATERMARK:
                    self._open.add((host.id, host.life, key))

    def _read(self, host: Host, message: RecordMessage) -> None:
        event = message.call.event if message.call is not None else None
        if isinstance(event, DeleteRecordsReceived):
            for key, offset in event.parts:
                if offset != TO_THE_HIGH_WATERMARK:
                    self._asked[key] = max(offset, self._asked.get(key, 0))

    def _on_emit(self, host: Host) -> None:
        for place in [place for place in self._open if place[0] == host.id]:
            partition = replicas_on(host).get(place[2])
            if partition is None or not partition.is_opening:
                self._open.discard(place)
                self._asks_for_all(place, host, partition)

    def _asks_for_all(
        self, place: tuple[int, int, PartitionKey], host: Host, partition: Partition | None
    ) -> None:
        """Take what is committed after the step that handles a request as what it asked for."""
        _, life, key = place
        if partition is not None and partition.leading and life == host.life:
            self._asked[key] = max(partition.hw, self._asked.get(key, 0))

    def _deleted(self, host: Host, key: PartitionKey, began: int, removed: list[Batch]) -> None:
        partition, log = replicas_on(host).get(key), self._logs.of(host.id, key)
        if partition is None or log is None or not partition.leading or not removed:
            return
        place = host.id, host.life, key
        if place in self._open:
            self._asks_for_all(place, host, partition)
        if log.start <= self._asked.get(key, 0):
            return
        settings = partition.settings
        oldest_ms = self._walls[host.id] // 1000 - settings.retention_ms
        left = _size(log)
        kept = False
        for batch in reversed(removed):
            too_old = settings.retention_ms >= 0 and batch.max_timestamp < oldest_ms
            kept |= not (too_old or 0 <= settings.retention_bytes <= left)
            left += batch.size
        if kept:
            self._failures.add(
                "D11",
                self._world.now,
                f"{host.name} deletes the records of {name_of(key)} below {log.start}, which nobody"
                f" has asked for: {_size(log)} bytes are left, retention.bytes is"
                f" {settings.retention_bytes} and retention.ms {settings.retention_ms}",
            )


def _size(log: RecordLog) -> int:
    return sum(batch.size for batch in log.batches)
