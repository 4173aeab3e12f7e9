"""Watches whether leaders delete what the limits of their topics no longer keep (D11).

Each broker looks at its logs every ``log.retention.check.interval.ms``. Then full segments that are
committed go, from the first one on: while they are older than ``retention.ms``, or while all others
together still have ``retention.bytes``. The segment that is written is one of these others. The
look that finds all of it too old closes it, and the next one deletes it. A look also removes closed
segments below the log's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.partition.partition_log import Extent
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import Settings
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.replicas import RETENTION_US, Replicas
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import disk_of_records, name_of

INTERVAL: Final = "retention_check_interval_ms"


class _Stale(NamedTuple):
    """A segment that a look closes because it is ``written`` and too old, or removes because it was
    deleted."""

    key: PartitionKey
    base: int
    end: int
    written: bool


class _Look(NamedTuple):
    """A look of a process at ``wall_ms``, and what it closes or removes."""

    node: Any
    core: Replicas
    wall_ms: int
    stale: list[_Stale]


@dataclass(slots=True)
class _Process:
    """A process of a host, with its data plane if it is a broker that stores records.

    ``due`` is when it looks next by its own clock, ``since`` when it has looked last. From ``late``
    on it is judged whether that was too long ago. ``warned``: it was, but the process may have been
    busy until then.
    """

    node: Any
    core: Replicas | None
    due: int
    since: int
    late: int
    warned: bool = False


class RetentionWatch:
    """Judges each look of the leaders of ``world`` at their logs."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._processes: dict[int, _Process] = {}
        self._looks: dict[int, _Look] = {}
        """The last step of each host, if it was a look."""
        world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        self._judge_stale(host)
        known = self._processes.get(host.id)
        if known is None or known.node is not host.node:
            known = self._processes[host.id] = self._begun(host)
        core = known.core
        if core is None:
            return
        if core.retain_at != known.due:
            self._processes[host.id] = self._begun(host)
            self._looked(host, core)
        elif self._world.now >= known.late:
            self._judge_time(host, known)

    def _begun(self, host: Host) -> _Process:
        """Return the host's process as it is when it has just started, or looked."""
        node, now = host.node, self._world.now
        if not isinstance(node, Node) or node.broker is None or node.broker.data is None:
            return _Process(node, None, 0, now, now)
        core = node.broker.data.core
        return _Process(node, core, core.retain_at, now, now + self._interval(host))

    def _interval(self, host: Host) -> int:
        settings = self._world.knobs.settings_of(host.id)
        return settings.get(INTERVAL, RETENTION_US // 1000) * 1000

    def _judge_time(self, host: Host, known: _Process) -> None:
        """D11: a broker looks in time. A second of steps is enough to notice that it is due."""
        interval = self._interval(host)
        if host.waited(known.since, self._world.now, STEPS_US) <= interval:
            return
        if not known.warned:
            known.late, known.warned = self._world.now + STEPS_US, True
            return
        self._processes[host.id] = self._begun(host)
        self._failures.add(
            "D11",
            self._world.now,
            f"{host.name} does not look for records that are too old or too many every"
            f" {interval // 1000} ms",
        )

    def _looked(self, host: Host, core: Replicas) -> None:
        """D11: after a look, each leader's log begins as late as the limits of its topic allow."""
        disk, wall_ms = disk_of_records(host), host.clock.wall(self._world.now) // 1000
        if disk.trouble is None:
            stale = [
                each
                for partition in core.partitions.values()
                for each in _stale(partition, _segments(disk, partition), wall_ms)
            ]
            self._looks[host.id] = _Look(host.node, core, wall_ms, stale)
        for partition in core.partitions.values():
            settings, log = partition.settings, partition.log
            if log is None or not partition.leading or not _is_limited(settings):
                continue
            end = _expired(_segments(disk, partition), settings, partition.hw, wall_ms)
            if log.start < end:
                self._failures.add(
                    "D11",
                    self._world.now,
                    f"{host.name} keeps the records of {name_of(partition.key)} from {log.start} to"
                    f" {end}, with retention.bytes={settings.retention_bytes} and"
                    f" retention.ms={settings.retention_ms}",
                )

    def _judge_stale(self, host: Host) -> None:
        """D11: the step of a look closes what is too old, and removes what was deleted."""
        look = self._looks.pop(host.id, None)
        if look is None or look.node is not host.node:
            return
        disk = disk_of_records(host)
        for partition in look.core.partitions.values():
            for stale in _stale(partition, _segments(disk, partition), look.wall_ms):
                if stale in look.stale:
                    what = "writes" if stale.written else "has deleted, and still has,"
                    self._failures.add(
                        "D11",
                        self._world.now,
                        f"{host.name} {what} the segment {stale.base} of {name_of(stale.key)},"
                        f" which ends at {stale.end}, after a look for old records",
                    )


def _stale(partition: Partition, segments: Sequence[Extent], wall_ms: int) -> Iterator[_Stale]:
    """Yield the segments that a look closes or removes."""
    log, age_ms = partition.log, partition.settings.retention_ms
    if log is None or not segments:
        return
    first, last = segments[0], segments[-1]
    if age_ms >= 0 and last.length and last.max_timestamp < wall_ms - age_ms:
        yield _Stale(partition.key, last.base_offset, last.end_offset, written=True)
    if first is not last and first.end_offset <= log.start:
        yield _Stale(partition.key, first.base_offset, first.end_offset, written=False)


def _is_limited(settings: Settings) -> bool:
    return settings.retention_bytes >= 0 or settings.retention_ms >= 0


def _segments(disk: DataDisk, partition: Partition) -> tuple[Extent, ...]:
    """Return the segments of a log; none if the disk had no room for all of it."""
    key = partition.key
    return () if key in disk.logs.full else disk.logs.extents(key)


def _expired(segments: Sequence[Extent], settings: Settings, hw: int, wall_ms: int) -> int:
    """Return where the last segment ends that is to go, 0 if none is."""
    left, end = sum(each.length for each in segments), 0
    for each in segments[:-1]:
        left -= each.length
        large = 0 <= settings.retention_bytes <= left
        old = 0 <= settings.retention_ms < wall_ms - each.max_timestamp
        if each.end_offset > hw or not (large or old):
            break
        end = each.end_offset
    return end
