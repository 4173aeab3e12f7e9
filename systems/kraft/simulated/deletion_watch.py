"""Watches what leaders delete from the beginnings of their logs (D11).

A client has asked for it by DeleteRecords, or a limit of the topic allows it: all deleted records
are older than ``retention.ms``, or what is left still has ``retention.bytes``.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.replication.events import DeleteRecordsReceived
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, name_of, replicas_on
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch

TO_THE_HIGH_WATERMARK: Final = -1
ALL: Final = 1 << 62


class DeletionWatch:
    """Judges the leaders of ``world``; ``watch`` knows their logs."""

    def __init__(self, world: World, failures: Failures, watch: RecordWatch) -> None:
        self._world = world
        self._failures = failures
        self._logs = watch.logs
        self._asked: dict[PartitionKey, int] = {}
        """The highest offset up to which any client has asked to delete."""
        self._walls: dict[int, int] = {}
        """The wall clock (µs) of each host at its last step, by which it judges what is old."""
        world.on_step.append(self._on_step)
        record_traffic(world).on_request.append(self._read)
        watch.logs.on_delete.append(self._deleted)

    def _on_step(self, host: Host, event: Any) -> None:
        self._walls[host.id] = host.clock.wall(self._world.now)

    def _read(self, host: Host, message: RecordMessage) -> None:
        event = message.call.event if message.call is not None else None
        if isinstance(event, DeleteRecordsReceived):
            for key, offset in event.parts:
                wanted = ALL if offset == TO_THE_HIGH_WATERMARK else offset
                self._asked[key] = max(wanted, self._asked.get(key, 0))

    def _deleted(self, host: Host, key: PartitionKey, removed: list[Batch]) -> None:
        partition, log = replicas_on(host).get(key), self._logs.of(host.id, key)
        if partition is None or log is None or not partition.leading or not removed:
            return
        if log.start <= self._asked.get(key, 0):
            return
        settings = partition.settings
        oldest_ms = self._walls[host.id] // 1000 - settings.retention_ms
        too_old = settings.retention_ms >= 0 and _newest(removed) < oldest_ms
        too_many = 0 <= settings.retention_bytes <= _size(log)
        if not (too_old or too_many):
            self._failures.add(
                "D11",
                self._world.now,
                f"{host.name} deletes the records of {name_of(key)} below {log.start}, which nobody"
                f" has asked for: {_size(log)} bytes are left, retention.bytes is"
                f" {settings.retention_bytes} and retention.ms {settings.retention_ms}",
            )


def _newest(batches: list[Batch]) -> int:
    return max(batch.max_timestamp for batch in batches)


def _size(log: RecordLog) -> int:
    return sum(batch.size for batch in log.batches)
