"""Looks up offsets and times in each log whose files were cut or opened (D2, D13).

A reader finds records by the indexes of a log and by what the log remembers of its last batches.
These must follow each cut, and a process that starts takes them from the disk. A client seldom asks
for the right offset at the right time. So the last batches of such a log are read once, each by its
offset with a small and a large limit, and their times are looked up.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.server.outgoing import FilePart
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    RecordLogs,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.record_lookups import first_since, wrong_records

MOST: Final = 4
"""How many of the last batches are read."""
LIMITS: Final = (1, 400)
"""Bytes asked for: the first batch only, and some more."""


class LookupRehearsal:
    """Reads the logs of ``world`` after their files have changed; ``logs`` has their content."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._changed: dict[int, set[PartitionKey]] = {}
        """The logs of each host that were cut or opened since they were read."""
        world.on_disk.append(self._on_disk)
        world.on_caused.append(self._on_caused)
        world.on_emit.append(self._on_emit)

    def _on_disk(self, host: Host, effect: Any) -> None:
        if type(effect) is data.Truncate:
            self._changed.setdefault(host.id, set()).add(effect.key)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._changed.setdefault(host.id, set()).add(event.key)

    def _on_emit(self, host: Host) -> None:
        changed = self._changed.get(host.id)
        if not changed or not replicas_on(host):
            return
        disk = disk_of_records(host)
        if disk.trouble is not None:
            return
        for key in sorted(changed):
            log = self._logs.of(host.id, key)
            if log is not None and key not in disk.logs.full and disk.logs.end_of(key) == log.end:
                self._read(host, key, log)
                self._look_up(host, key, log)
        changed.clear()

    def _read(self, host: Host, key: PartitionKey, log: RecordLog) -> None:
        """D2: a reader at an offset gets its batch, and those that follow."""
        for batch in log.batches[-MOST:]:
            offset = max(batch.base_offset, log.start)
            for limit in LIMITS:
                records = self._records(host, key, data.Slice(offset, log.end, limit))
                wrong = wrong_records(log, offset, records) if records else "without a record"
                if wrong:
                    self._failures.add(
                        "D2",
                        self._world.now,
                        f"{host.name} reads {name_of(key)} at {offset}, up to {limit} bytes,"
                        f" {wrong}",
                    )
                    return

    def _records(self, host: Host, key: PartitionKey, wanted: data.Slice) -> bytes:
        records = disk_of_records(host).logs.read(key, wanted, wanted.max_bytes)
        assert not isinstance(records, FilePart), "files of the simulator have no descriptor"
        return records

    def _look_up(self, host: Host, key: PartitionKey, log: RecordLog) -> None:
        """D13: the first record of a time is found, and none of a later time than all records."""
        times = sorted({batch.max_timestamp for batch in log.batches[-MOST:]})
        for timestamp in [*times, *(time + 1 for time in times[-1:])]:
            wanted = data.Lookup(timestamp, log.start, log.end)
            expected = first_since(log, wanted)
            try:
                found = disk_of_records(host).logs.look_up(key, wanted)
            except BatchError as error:
                self._fail_time(host, key, timestamp, f"finds damage, {error}")
                return
            offset = -1 if found is None else found[0]
            if offset != expected:
                self._fail_time(host, key, timestamp, f"gives {offset}, not {expected}")
                return

    def _fail_time(self, host: Host, key: PartitionKey, timestamp: int, what: str) -> None:
        where = f"{host.name} looks up the first record of {name_of(key)} since {timestamp}"
        self._failures.add("D13", self._world.now, f"{where}, and {what}")
