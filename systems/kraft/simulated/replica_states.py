"""Watches what each replica keeps in memory about its log: producers, high watermark, what is
flushed (D3, D5, D1).

All of it is a function of the log on the disk. A replica whose memory differs behaves correctly
until some later request or failure needs what it has wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.log.layout import segment_name, segment_offsets
from kraftwreck.nodes.log.partition.checkpoints import (
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
)
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import UNLIMITED, LogFlushed, LogOpened
from kraftwreck.nodes.replication.flushing import NO_ROOM_US
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import KEPT, Kept
from kraftwreck.simulation.disk import ROOT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Inode
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.sequence_numbers import last_of
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch

Place = tuple[int, PartitionKey]
Points = Mapping[TopicPartition, int]
_POINTS: Final = ROOT / RECOVERY_POINTS
RECENT: Final = 24
"""How many of the last batches of a log are judged when it has grown."""


class ReplicaStates:
    """Judges all replicas of ``world``; ``watch`` knows their logs."""

    def __init__(self, world: World, failures: Failures, watch: RecordWatch) -> None:
        self._world = world
        self._failures = failures
        self._watch = watch
        self._seen: dict[Place, tuple[Partition, LogView, int, int, int]] = {}
        """Partition, log, its end and start and the high watermark, as they were judged last."""
        self._known: dict[Place, dict[int, int]] = {}
        """The epochs of the producers that a replica knew then."""
        self._cut: dict[Place, int] = {}
        """The lowest end of the log since then."""
        self._unflushed: dict[Place, tuple[LogView, int, int, int]] = {}
        """A log with records that are not durable: since when, up to which offset then, and the
        time of the broker then."""
        self._opened: dict[Place, int] = {}
        """The end of the log when it was opened."""
        self._durable: dict[Place, int] = {}
        """The end that was judged to be on the platter."""
        self._told: dict[Place, int] = {}
        """The end that the disk has said to be durable, since the log was opened last."""
        self._points: dict[int, tuple[Inode, Points]] = {}
        """By host: the checkpoint of recovery points that was judged last."""
        if watch.watches:
            world.on_disk.append(self._on_disk)
            world.on_caused.append(self._on_caused)
            world.on_work.append(self._on_work)
            traffic = record_traffic(world)
            traffic.followers.on_fetch.append(self._on_fetch)
            traffic.on_answer.append(self._on_answer)
            world.on_emit.append(self._on_emit)

    def _fail(self, rule: str, explanation: str) -> None:
        self._failures.add(rule, self._world.now, explanation)

    def _on_disk(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is data.Truncate or kind is data.StartAt:
            log = self._note_cut(host, effect.key)
            place = host.id, effect.key
            if log is not None:
                self._judge_point(host, effect.key, log)
                self._told[place] = min(log.end, self._told.get(place, log.end))
            if kind is data.StartAt:
                self._told[place] = effect.offset
        elif kind is data.WriteHighWatermarks:
            replicas = replicas_on(host)
            for key, offset in effect.offsets.items():
                known = replicas.get(key)
                if known is not None and known.hw != offset:
                    self._fail(
                        "D5",
                        f"{host.name} stores {offset} as the high watermark of {name_of(key)},"
                        f" which is {known.hw}",
                    )

    def _on_caused(self, host: Host, event: Any) -> None:
        if type(event) is LogOpened:
            self._note_cut(host, event.key)
            self._told[host.id, event.key] = event.durable_end
        elif type(event) is LogFlushed:
            place = host.id, event.key
            self._told[place] = max(self._told.get(place, 0), event.end_offset)

    def _on_work(self, host: Host) -> None:
        """D1: all below a stored recovery point is on the platter.

        A start after a crash does not look below it.
        """
        disk = host.disk
        if not isinstance(disk, DataDisk) or not disk.files.exists(_POINTS):
            return
        inode = disk.files.inode(_POINTS)
        judged, before = self._points.get(host.id, (None, {}))
        if inode is judged or disk.trouble is not None:
            return
        points = read_offsets(_POINTS, disk.files)
        self._points[host.id] = inode, points
        for key in replicas_on(host):
            log = self._watch.logs.of(host.id, key)
            if log is None or key in disk.logs.full or disk.logs.end_of(key) < 0:
                continue
            name = disk.name_of(key[0]), key[1]
            point, known = points.get(name, 0), before.get(name, 0)
            if point <= max(known, log.start):
                continue
            there = _on_platter(disk, key, log, known)
            if point > there:
                self._fail(
                    "D1",
                    f"{host.name} stores {point} as the recovery point of {name_of(key)}, but a"
                    f" loss of power would leave {there}",
                )

    def _on_fetch(self, host: Host, fetch: data.FetchFrom) -> None:
        """D1: a follower, whose fetch acknowledges its log, vouches for it."""
        for part in fetch.parts:
            self._judge_vouched(host, part.key, part.offset, "fetches")

    def _on_answer(self, host: Host, _: RecordMessage, effect: Any, body: dict[str, Any]) -> None:
        """D1: a leader that acknowledges a batch vouches for it."""
        if type(effect) is not data.ReplyProduce:
            return
        for part in effect.parts:
            log = self._watch.logs.of(host.id, part.key)
            batch = None if part.error or log is None else log.at(part.base_offset)
            if batch is not None:
                self._judge_vouched(host, part.key, batch.next_offset, "acknowledges")

    def _judge_vouched(self, host: Host, key: PartitionKey, end: int, what: str) -> None:
        partition = replicas_on(host).get(key)
        if partition is None or partition.log is None:
            return
        durable = max(partition.durability.end, partition.log.start)
        if end > durable + partition.settings.flush_messages - 1:
            self._fail(
                "D1",
                f"{host.name} {what} {name_of(key)} up to {end}, although only {durable} is durable"
                f" and flush.messages is {partition.settings.flush_messages}",
            )

    def _note_cut(self, host: Host, key: PartitionKey) -> RecordLog | None:
        """Note that the log may end earlier now, and return it."""
        place = host.id, key
        log = self._watch.logs.of(*place)
        if log is not None:
            self._cut[place] = min(log.end, self._cut.get(place, log.end))
        return log

    def _on_emit(self, host: Host) -> None:
        replicas = replicas_on(host)
        if not replicas:
            return
        full = disk_of_records(host).logs.full
        for key, partition in replicas.items():
            view, place = partition.log, (host.id, key)
            log = self._watch.logs.of(host.id, key)
            if view is None or log is None or key in full:
                continue
            self._judge_flush(host, partition)
            before = self._seen.get(place)
            same = before is not None and before[0] is partition
            if before is not None and same:
                state = view, view.end, view.start, partition.hw
                kept = before[1:] == state and place not in self._cut
                if kept and partition.durability.end <= self._durable.get(place, 0):
                    continue
                self._judge_watermark(host, partition, before[4], self._cut.get(place))
            anew = not same or before is None or before[1] is not view or place in self._cut
            if before is None or before[1] is not view:
                self._opened[place] = view.end
            since = None if anew or before is None else before[2]
            self._judge_producers(host, view, log, key, since)
            if not anew and before is not None and before[3] != view.start:
                self._judge_forgotten(host, view, key)
            if since != view.end:
                self._known[place] = {
                    producer: epoch for producer, (epoch, _) in view.producers.state().items()
                }
            self._judge_told(host, partition)
            if partition.settings.flush_messages < UNLIMITED:
                self._judge_durable(host, partition, log)
            self._seen[place] = partition, view, view.end, view.start, partition.hw
            self._cut.pop(place, None)

    def _judge_watermark(
        self, host: Host, partition: Partition, before: int, cut: int | None
    ) -> None:
        """D5: the high watermark of a replica goes back only where its log was cut."""
        least = before if cut is None else min(before, cut)
        if partition.hw < least:
            self._fail(
                "D5",
                f"{host.name}: the high watermark of {name_of(partition.key)} went back from"
                f" {before} to {partition.hw}",
            )

    def _judge_point(self, host: Host, key: PartitionKey, log: RecordLog) -> None:
        """D1: after a cut, the stored recovery point is not above the end of the log.

        A start after a crash refuses a log that ends before all that was durable.
        """
        disk = disk_of_records(host)
        if disk.trouble is not None:
            return
        points = read_offsets(_POINTS, disk.files)
        point = points.get((disk.name_of(key[0]), key[1]), 0)
        if point > log.end:
            self._fail(
                "D1",
                f"{host.name} stores {point} as the recovery point of {name_of(key)}, which ends at"
                f" {log.end}",
            )

    def _judge_producers(
        self, host: Host, view: LogView, log: RecordLog, key: PartitionKey, since: int | None
    ) -> None:
        """D3: what is known of each producer is its last batches in the log.

        ``since`` is the log end up to which they were judged, None to judge all of them.
        What is known may go further back than the log, which loses its oldest batches. It may go
        less far where the log was opened: a snapshot has only the last batch of each.
        """
        if since is not None and since >= log.end:
            return
        state = view.producers.state()
        recent = log.batches[-RECENT].base_offset if len(log.batches) > RECENT else log.start
        opened = max(self._opened.get((host.id, key), 0), recent)
        for producer, (epoch, kept) in _producers(log, None if since is None else recent).items():
            known = state.get(producer)
            own = [each for each in kept if each.base_offset >= opened]
            short = known is None or known[0] != epoch or len(known[1]) < len(own)
            if short or known is None or not _agree(known[1], kept):
                told = "nothing" if known is None else f"epoch {known[0]} and {known[1]}"
                self._fail(
                    "D3",
                    f"{host.name} knows {told} of producer {producer} in {name_of(key)}, whose log"
                    f" has epoch {epoch} and {kept}",
                )
        if since is None:
            begins = log.batches[0].base_offset if log.batches else log.end
            there = {batch.producer_id for batch in log.batches}
            for producer, (_, kept) in state.items():
                if producer not in there and kept and kept[-1].last_offset >= begins:
                    self._fail(
                        "D3",
                        f"{host.name} knows a batch of producer {producer} at"
                        f" {kept[-1].base_offset} of {name_of(key)}, which its log does not have",
                    )

    def _judge_forgotten(self, host: Host, view: LogView, key: PartitionKey) -> None:
        """D3: a replica that deletes records still knows their producers (KIP-360)."""
        state = view.producers.state()
        for producer, epoch in self._known.get((host.id, key), {}).items():
            if state.get(producer, (-1, ()))[0] < epoch:
                self._fail(
                    "D3",
                    f"{host.name} knows epoch {epoch} of producer {producer} in {name_of(key)} no"
                    f" longer, since the log begins at {view.start}",
                )

    def _judge_flush(self, host: Host, partition: Partition) -> None:
        """D1: no record is in memory only for longer than ``flush.ms`` says, if the disk works.

        The time begins no later than the record was appended.
        """
        place, view, settings = (host.id, partition.key), partition.log, partition.settings
        now, durable = self._world.now, partition.durability
        if view is None or durable.end >= view.end:
            self._unflushed.pop(place, None)
            return
        oldest = durable.oldest
        if settings.flush_ms == UNLIMITED and oldest is not None:
            self._unflushed.pop(place, None)
            return
        known = self._unflushed.get(place)
        if known is not None and (known[0] is not view or durable.end >= known[2]):
            known = None
        if oldest is None or (known is not None and oldest > known[3]):
            self._fail(
                "D1",
                f"{host.name} counts the time to the next flush of {name_of(partition.key)} from"
                f" {oldest} us, with records that are not durable from"
                f" {partition.with_.now if known is None else known[3]} us or earlier",
            )
        # A full disk may have no room for an index, and a flush may wait for other work.
        troubled = host.disk.trouble is not None or host.working
        if troubled or known is None:
            self._unflushed[place] = view, now, view.end, partition.with_.now
        elif host.waited(known[1], now, STEPS_US) > settings.flush_ms * 1000 + NO_ROOM_US:
            self._fail(
                "D1",
                f"{host.name} has not flushed the records of {name_of(partition.key)} below"
                f" {known[2]} for {(now - known[1]) / 1_000_000:.3f} s, with flush.ms="
                f"{settings.flush_ms}",
            )

    def _judge_told(self, host: Host, partition: Partition) -> None:
        """D1: a replica takes nothing for durable before its disk has said so."""
        end, told = partition.durability.end, self._told.get((host.id, partition.key))
        if told is not None and end > told:
            self._fail(
                "D1",
                f"{host.name} takes {name_of(partition.key)} for durable up to {end}, its disk has"
                f" said so up to {told}",
            )

    def _judge_durable(self, host: Host, partition: Partition, log: RecordLog) -> None:
        """D1: with ``flush.messages`` a replica vouches for what is on the platter, and a few
        records that follow."""
        place, end = (host.id, partition.key), partition.durability.end
        if end > log.start and self._durable.get(place) != end:
            there = _on_platter(disk_of_records(host), partition.key, log)
            if end > there:
                self._fail(
                    "D1",
                    f"{host.name} takes {name_of(partition.key)} for durable up to {end}, but a"
                    f" loss of power would leave {there}",
                )
        self._durable[place] = end


def _on_platter(disk: DataDisk, key: PartitionKey, log: RecordLog, since: int = 0) -> int:
    """Return the offset up to which a loss of power leaves the log as it is; all below ``since`` is
    known to stay."""
    folder = ROOT / f"{disk.name_of(key[0])}-{key[1]}"
    bases = segment_offsets(disk.files.names(folder))
    if not bases:
        return log.start  # Somebody has removed the files.
    for base, after in zip(bases, [*bases[1:], log.end], strict=True):
        if after <= since:
            continue
        first = bisect_left(log.batches, base, key=_base)
        batches = log.batches[first : bisect_left(log.batches, after, key=_base)]
        path = folder / segment_name(base)
        stable, inode = disk.files.on_platter(path), disk.files.inode(path)
        # Batches that were deleted may still be at the beginning of the file.
        position = len(inode.data) - sum(each.size for each in batches)
        for batch in batches:
            position += batch.size
            if position > stable:
                return batch.base_offset
    return log.end


def _base(batch: Batch) -> int:
    return batch.base_offset


def _producers(log: RecordLog, since: int | None) -> dict[int, tuple[int, tuple[Kept, ...]]]:
    """Return (epoch, last batches of it, oldest first) of the producers with a batch from ``since``
    on, of all without it."""
    newest: dict[int, list[Batch]] = {}
    for batch in reversed(log.batches):
        if since is not None and batch.base_offset < since:
            break
        if not batch.is_idempotent:
            continue
        known = newest.setdefault(batch.producer_id, [])
        if len(known) < KEPT and (not known or known[0].producer_epoch == batch.producer_epoch):
            known.append(batch)
    return {
        producer: (
            batches[0].producer_epoch,
            tuple(
                Kept(each.base_sequence, last_of(each), each.base_offset, each.last_offset)
                for each in reversed(batches)
            ),
        )
        for producer, batches in newest.items()
    }


def _agree(known: tuple[Kept, ...], kept: tuple[Kept, ...]) -> bool:
    """Whether two lists of batches agree as far back as both go; ``kept`` has at least one."""
    both = min(len(known), len(kept))
    return known[-both:] == kept[-both:]
