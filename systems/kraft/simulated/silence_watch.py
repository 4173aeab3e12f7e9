"""Watches produces that ask for no acknowledgement (D16).

Their producer gets no answer. A closed connection is all by which it learns that a batch was
refused, for example as the broker does not lead the partition.
"""

from __future__ import annotations

from kraftwreck.nodes.replication.events import ProduceReceived
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.server.data_calls import ProduceCall
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import RecordLogs, disk_of_records, name_of


class SilenceWatch:
    """Judges the brokers of ``world``; ``logs`` are the logs on their disks."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        record_traffic(world).on_silence.append(self._on_silence)

    def _on_silence(self, host: Host, message: RecordMessage, closes: bool) -> None:
        call = message.call
        if not isinstance(call, ProduceCall) or not isinstance(call.event, ProduceReceived):
            return
        event = call.event
        full = disk_of_records(host).logs.full
        if any(key in full for key, _ in event.batches):
            return
        lost = [key for key, batch in event.batches if not self._has(host, key, batch)]
        if bool(lost or call.failed) == closes:
            return
        names = ", ".join(name_of(key) for key in lost or [key for key, _ in event.batches])
        what = "closes" if closes else "leaves open"
        have = "in its log" if closes else "not in its log"
        self._failures.add(
            "D16",
            self._world.now,
            f"{host.name} {what} the connection of a producer without acknowledgements, whose batch"
            f" of {names} is {have}",
        )

    def _has(self, host: Host, key: PartitionKey, batch: Batch) -> bool:
        log = self._logs.of(host.id, key)
        return log is not None and log.with_content_of(batch) is not None
