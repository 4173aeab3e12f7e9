"""Watches how brokers divide logs into segments (D17).

A log begins a segment for each batch that does not fit into the last one by ``segment.bytes``, or
that is newer than its first batch by more than ``segment.ms``. It begins one, too, once all of the
last one is older than ``retention.ms``, and none otherwise.
The broker takes note of each segment that is full, as only those may be deleted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.batch import NO_TIMESTAMP
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    RecordLogs,
    disk_of_records,
    name_of,
)

Place = tuple[int, PartitionKey]


class Limits(NamedTuple):
    """The most bytes of a segment with several batches, and ms between their timestamps."""

    size: int
    age_ms: int


class Written(NamedTuple):
    """The segment that a log writes. ``first_ms`` is the timestamp of its first batch, -1 if it has
    none or was deleted."""

    base: int
    length: int
    end: int
    first_ms: int


class SegmentWatch:
    """Judges each append of the brokers of ``world``; ``logs`` has the content of their logs."""

    def __init__(self, world: World, failures: Failures, logs: RecordLogs) -> None:
        self._world = world
        self._failures = failures
        self._logs = logs
        self._shapes: dict[Place, data.ShapeLog] = {}
        """The configs of topics that have reached a log since it was opened."""
        self._last: dict[Place, Written] = {}
        """The segment after the last append, unless another operation has followed."""
        self._full: dict[Place, tuple[int, int]] = {}
        """A full segment, and the time of the append after it, until the broker has noted it."""
        self._noted: dict[Place, int] = {}
        """The last full segment that the broker has noted."""
        world.on_caused.append(self._on_caused)
        world.on_disk.append(self._on_disk)

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._shapes.pop((host.id, event.key), None)
            self._forget((host.id, event.key))
        elif type(event) is SegmentClosed:
            place = host.id, event.key
            self._noted[place] = event.base_offset
            if self._full.get(place, (event.base_offset + 1, 0))[0] <= event.base_offset:
                del self._full[place]

    def _on_disk(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is data.Append:
            self._appended(host, effect.key, effect.batch)
        elif kind is data.ShapeLog:
            self._shapes[host.id, effect.key] = effect
        elif kind is data.RollLog:
            self._last.pop((host.id, effect.key), None)
        elif kind is data.Truncate or kind is data.StartAt or kind is data.RemoveLog:
            self._forget((host.id, effect.key))

    def _forget(self, place: Place) -> None:
        for known in (self._last, self._full, self._noted):
            known.pop(place, None)

    def _appended(self, host: Host, key: PartitionKey, batch: Batch) -> None:
        disk, place = disk_of_records(host), (host.id, key)
        last, log = self._last.pop(place, None), self._logs.of(host.id, key)
        if log is None or key in disk.logs.full or disk.logs.end_of(key) != batch.next_offset:
            return  # It had no room, or the process dies.
        *closed, written = disk.logs.extents(key)
        self._judge_note(host, key)
        begins = bool(closed) and written.base_offset == batch.base_offset
        if begins and self._noted.get(place, -1) < closed[-1].base_offset:
            self._full.setdefault(place, (closed[-1].base_offset, self._world.now))
        base, length = written.base_offset, written.length
        same = last is not None and last.base == base
        first_ms = last.first_ms if last is not None and same else _first_ms(log, base)
        self._last[place] = Written(base, length, batch.next_offset, first_ms)
        limits = self._limits(disk, place)
        if base < batch.base_offset:
            wrong = _too_much(limits, length, first_ms, batch)
        else:
            wrong = "" if last is None or same else _too_early(limits, last, batch)
        if wrong:
            self._failures.add(
                "D17",
                self._world.now,
                f"{host.name} appends at {batch.base_offset} of {name_of(key)} to the segment"
                f" {base}: {wrong}, with segment.bytes={limits.size} and"
                f" segment.ms={limits.age_ms}",
            )

    def _judge_note(self, host: Host, key: PartitionKey) -> None:
        """D17: a broker has noted the last full segment within a second of steps."""
        full = self._full.get((host.id, key))
        if full is not None and host.waited(full[1], self._world.now, 0) > STEPS_US:
            del self._full[host.id, key]
            self._failures.add(
                "D17",
                self._world.now,
                f"{host.name} has not noted that the segment {full[0]} of {name_of(key)} is full",
            )

    def _limits(self, disk: DataDisk, place: Place) -> Limits:
        own, shape = disk.settings, self._shapes.get(place)
        size = own.segment_bytes if shape is None else shape.segment_bytes
        age_ms = own.segment_ms if shape is None else shape.segment_ms
        return Limits(
            own.segment_bytes if size is None else size,
            own.segment_ms if age_ms is None else age_ms,
        )


def _first_ms(log: RecordLog, base: int) -> int:
    first = log.at(base)
    return NO_TIMESTAMP if first is None else first.max_timestamp


def _age_ms(first_ms: int, batch: Batch) -> int:
    return 0 if first_ms == NO_TIMESTAMP else batch.max_timestamp - first_ms


def _too_much(limits: Limits, length: int, first_ms: int, batch: Batch) -> str:
    """Return why the batch belonged into a segment of its own, "" if it did not."""
    if length > limits.size:
        return f"it has {length} bytes then"
    if (age_ms := _age_ms(first_ms, batch)) > limits.age_ms:
        return f"its first batch is {age_ms} ms older"
    return ""


def _too_early(limits: Limits, last: Written, batch: Batch) -> str:
    """Return why the batch belonged into the segment before, "" if it did not.

    A batch whose age there is not known may have been too new.
    """
    length = last.length + batch.size
    if last.first_ms == NO_TIMESTAMP or length > limits.size:
        return ""
    if (age_ms := _age_ms(last.first_ms, batch)) > limits.age_ms:
        return ""
    return f"the one before would have {length} bytes, and a first batch {age_ms} ms older"
