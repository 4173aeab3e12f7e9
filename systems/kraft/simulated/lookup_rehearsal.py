"""Looks up offsets and times in each log whose files were cut or opened (D2, D13).

A reader finds records by the indexes of a log and by what the log remembers of its last batches.
These must follow each cut, and a process that starts takes them from the disk. A client seldom asks
for the right offset at the right time. So the last batches of such a log are read once, each by its
offset with a small and a large limit, and their times are looked up. Leftovers of a cut may do harm
only later. So a log is read again when as many batches have followed the cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.server.outgoing import FilePart
from kraftwreck.nodes.server.partition_files import PartitionFiles
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
LARGEST: Final = -3
"""The timestamp that stands for the largest one of a log (KIP-734)."""
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
        self._again: dict[int, dict[PartitionKey, int]] = {}
        """The logs of each host that are to be read again, and where they were cut."""
        world.on_disk.append(self._on_disk)
        world.on_caused.append(self._on_caused)
        world.on_emit.append(self._on_emit)

    def _on_disk(self, host: Host, effect: Any) -> None:
        if type(effect) is data.Truncate:
            log = self._logs.of(host.id, effect.key)
            self._changed.setdefault(host.id, set()).add(effect.key)
            if log is not None:
                self._again.setdefault(host.id, {})[effect.key] = log.end

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._changed.setdefault(host.id, set()).add(event.key)

    def _on_emit(self, host: Host) -> None:
        changed, again = self._changed.get(host.id), self._again.get(host.id)
        if not (changed or again) or not replicas_on(host):
            return
        changed = self._changed.setdefault(host.id, set())
        for key, end in list(again.items()) if again else ():
            batches = log.batches if (log := self._logs.of(host.id, key)) is not None else ()
            if len(batches) >= MOST and batches[-MOST].base_offset >= end:
                del self._again[host.id][key]
                changed.add(key)
        disk = disk_of_records(host)
        if disk.trouble is not None:
            return
        for key in sorted(changed):
            log = self._logs.of(host.id, key)
            if log is not None and key not in disk.logs.full and disk.logs.end_of(key) == log.end:
                for rule, wrong in faults(disk.logs, key, log):
                    self._failures.add(rule, self._world.now, f"{host.name} {wrong}")
        changed.clear()


def faults(logs: PartitionFiles, key: PartitionKey, log: RecordLog) -> Iterator[tuple[str, str]]:
    """Yield the rules that are broken by look-ups in ``logs``, and how; ``log`` is the content."""
    yield from islice(_wrong_reads(logs, key, log), 1)
    yield from islice(_wrong_times(logs, key, log), 1)


def _wrong_reads(
    logs: PartitionFiles, key: PartitionKey, log: RecordLog
) -> Iterator[tuple[str, str]]:
    """D2: a reader at an offset gets its batch, and those that follow."""
    for batch in log.batches[-MOST:]:
        offset = max(batch.base_offset, log.start)
        for limit in LIMITS:
            records = logs.read(key, data.Slice(offset, log.end, limit), limit)
            assert not isinstance(records, FilePart), "files of the simulator have no descriptor"
            wrong = wrong_records(log, offset, records) if records else "without a record"
            if wrong:
                yield "D2", f"reads {name_of(key)} at {offset}, up to {limit} bytes, {wrong}"


def _wrong_times(
    logs: PartitionFiles, key: PartitionKey, log: RecordLog
) -> Iterator[tuple[str, str]]:
    """D13: the first record of a time is found, and none of a later time than all records."""
    times = sorted({batch.max_timestamp for batch in log.batches[-MOST:]})
    asked = [(time, time) for time in [*times, *(time + 1 for time in times[-1:])]]
    first = logs.extents(key)[:1]
    if log.batches and [each.base_offset for each in first] == [log.start]:
        # Otherwise the largest time may be that of a deleted record.
        asked.append((LARGEST, max(batch.max_timestamp for batch in log.batches)))
    for timestamp, since in asked:
        where = f"looks up the first record of {name_of(key)} since {timestamp}"
        expected = first_since(log, data.Lookup(since, log.start, log.end))
        try:
            found = logs.look_up(key, data.Lookup(timestamp, log.start, log.end))
        except BatchError as error:
            yield "D13", f"{where}, and finds damage, {error}"
            return
        offset = -1 if found is None else found[0]
        if offset != expected:
            yield "D13", f"{where}, and gives {offset}, not {expected}"
