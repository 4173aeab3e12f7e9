"""The logs of user partitions on the disk of a broker: the disk effects of its data plane.

Their folders, and the checkpoints of their offsets, are those of a
:class:`~nodes.server.log_directory.LogDirectory`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final, TypeGuard, get_args

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.media import NO_ROOM, PLAIN, Media
from kraftwreck.nodes.log.partition.checkpoints import TopicPartition
from kraftwreck.nodes.log.partition.partition_log import Extent, Flush, PartitionLog, Slice
from kraftwreck.nodes.log.partition.producer_snapshot import ProducerEntry
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.log.partition.times import offset_at
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import AppendFailed, LogFlushed, LogOpened, SegmentClosed
from kraftwreck.nodes.replication.headers import Batch, PartitionKey, batch_of
from kraftwreck.nodes.replication.producers import KEPT
from kraftwreck.nodes.server.disk_worker import Elsewhere, at_once
from kraftwreck.nodes.server.log_directory import LogDirectory
from kraftwreck.nodes.server.outgoing import FilePart

DiskEffect = (
    data.OpenLog
    | data.ShapeLog
    | data.RemoveLog
    | data.Append
    | data.FlushLog
    | data.Truncate
    | data.StartAt
    | data.DeleteUpTo
    | data.RollLog
    | data.WriteEpochs
    | data.WriteHighWatermarks
)
_DISK_EFFECTS: Final = frozenset(get_args(DiskEffect))
DiskEvent = LogOpened | SegmentClosed | AppendFailed | LogFlushed

_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 12
_SEQUENCES: Final = 1 << 31
_LARGEST_TIMESTAMP: Final = -3
INLINE_BYTES: Final = 32 << 10
"""More bytes are sent from their file, without a copy in memory."""


class _Replica:
    """One log, its name, and the last batches of its idempotent producers.

    ``cuts`` counts how often the log was shortened since it was opened last.
    """

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.cuts = 0
        self.producers: dict[int, deque[Batch]] = {}
        self.log: PartitionLog

    def note(self, batch: Batch) -> None:
        """Keep the batch if a producer numbered it."""
        if batch.is_idempotent:
            self.producers.setdefault(batch.producer_id, deque(maxlen=KEPT)).append(batch.bare())

    def entries(self) -> Iterable[ProducerEntry]:
        """Return the last batch of each producer, for a snapshot."""
        for kept in self.producers.values():
            last = kept[-1]
            yield ProducerEntry(
                last.producer_id,
                last.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset_delta,
                last.max_timestamp,
            )

    def rebuild(self) -> None:
        """Take the producers from the newest snapshot, and from the batches after it."""
        self.producers = {}
        entries, offset = self.log.stored_producers()
        for entry in sorted(entries, key=lambda each: each.last_offset):
            self.note(_stored(entry))
        for header in self.log.batches(offset):
            self.note(batch_of(header))

    def opened(self, key: PartitionKey, high_watermark: int) -> LogOpened:
        """Return the state of the log for the core."""
        batches = [each for kept in self.producers.values() for each in kept]
        log = self.log
        return LogOpened(
            key,
            log.start_offset,
            log.end_offset,
            log.epochs,
            tuple(sorted(batches, key=lambda each: each.base_offset)),
            high_watermark,
            log.recovery_point,
            log.size,
        )


def _stored(entry: ProducerEntry) -> Batch:
    delta = entry.offset_delta
    return Batch(
        entry.last_offset - delta,
        delta,
        -1,
        entry.producer_id,
        entry.epoch,
        (entry.last_sequence - delta) % _SEQUENCES,
        entry.timestamp_ms,
        delta + 1,
        0,
        0,
        0,
    )


def _is_of_disk(effect: object) -> TypeGuard[DiskEffect]:
    return type(effect) in _DISK_EFFECTS


def _closed(key: PartitionKey, full: Extent) -> SegmentClosed:
    return SegmentClosed(key, full.base_offset, full.end_offset, full.length, full.max_timestamp)


def _placed(batch: Batch) -> bytearray | memoryview:
    """Return the bytes with the offset and the epoch of the leader, without a copy if possible.

    Those that a follower fetched have them already.
    """
    content = batch.handle
    assert isinstance(content, bytes | bytearray | memoryview)
    view = memoryview(content)
    if view.readonly:
        (offset,), (epoch,) = _OFFSET.unpack_from(view), _EPOCH.unpack_from(view, _EPOCH_AT)
        if (offset, epoch) == (batch.base_offset, batch.leader_epoch):
            return view
        view = memoryview(bytearray(view))
    _OFFSET.pack_into(view, 0, batch.base_offset)
    _EPOCH.pack_into(view, _EPOCH_AT, batch.leader_epoch)
    return view


def _no_work() -> None:
    """There is nothing to do elsewhere."""


def _nothing(_: None) -> None:
    """Work elsewhere has ended, and nobody waits for it."""


class PartitionFiles:
    """The logs below ``directory``; ``name_of`` gives the name of a topic id that is in use.

    ``orderly``: the process before closed them all. ``elsewhere`` does what may take long: opening,
    removing, and making a full segment durable. Appends reach the page cache. Leader epochs,
    truncations and checkpoints are durable on return. Invariant: at any moment the recovery point
    in the checkpoint is at most the end of the log, and all below it is durable.

    A full disk fails single appends, see AppendFailed. All methods raise OSError, after which the
    process must end. The constructor and
    :meth:`carry_out` also raise CheckpointError and LogCorruptError for damage that no crash
    explains.
    """

    def __init__(
        self,
        directory: Path,
        name_of: Callable[[bytes], str],
        settings: LogSettings,
        media: Media = PLAIN,
        *,
        orderly: bool = False,
        elsewhere: Elsewhere = at_once,
    ) -> None:
        self._directory = LogDirectory(directory, media)
        self._elsewhere = elsewhere
        self._busy: dict[PartitionKey, list[DiskEffect]] = {}
        """Logs that are being opened or removed, with the effects that wait for that."""
        self._opening: set[PartitionKey] = set()
        self._removing: dict[PartitionKey, TopicPartition] = {}
        self._keeps_others = False
        """Whether logs that are not this broker's any longer are still to be removed."""
        self._told: list[DiskEvent] = []
        self.tell: Callable[[list[DiskEvent]], None] | None = None
        """Takes the events of work elsewhere, all of one piece together: what they cause comes
        after them. None: they are results of :meth:`carry_out`."""
        self._name_of = name_of
        self._settings = settings
        self._media = media
        self._orderly = orderly
        self.full: set[PartitionKey] = set()
        """Logs for whose batches there was no room in the step that is being carried out."""
        self._replicas: dict[PartitionKey, _Replica] = {}

    @property
    def unremoved(self) -> list[PartitionKey]:
        """The logs that are being removed, or will be when other work on them has ended."""
        return [
            key
            for key, waiting in self._busy.items()
            if key in self._removing or any(isinstance(each, data.RemoveLog) for each in waiting)
        ]

    def carry_out_all(self, effects: Iterable[object]) -> list[DiskEvent]:
        """Carry out those of a step's effects that are of this disk, and return their events."""
        self.full.clear()
        events: list[DiskEvent] = []
        for effect in effects:
            if _is_of_disk(effect):
                events += self.carry_out(effect)
        return events

    def carry_out(self, effect: DiskEffect) -> list[DiskEvent]:
        """Carry out one effect, and return the events that it causes, in order.

        Those of work elsewhere come later, by ``tell``.
        """
        match effect:
            case data.Append():
                return self._append(effect)
            case data.OpenLog() | data.RemoveLog() if effect.key in self._busy:
                self._busy[effect.key].append(effect)
                return []
            case data.OpenLog():
                self._open(effect.key)
            case data.ShapeLog():
                self._shape(effect)
            case data.RemoveLog():
                self._remove(effect.key)
            case data.FlushLog():
                self._flush(effect.key, effect.number)
            case data.Truncate():
                self._truncate(effect.key, effect.end_offset)
            case data.StartAt():
                self._restart(effect.key, effect.offset)
            case data.DeleteUpTo():
                self._delete(effect.key, effect.start_offset)
            case data.RollLog():
                return self._roll(effect.key, effect.before_ms)
            case data.WriteEpochs():
                if effect.key not in self.full:  # They are of batches for which there was no room.
                    self._replicas[effect.key].log.write_epochs(effect.entries)
            case data.WriteHighWatermarks():
                for key, offset in effect.offsets.items():
                    self._directory.high_watermarks[self._replicas[key].name] = offset
                self._elsewhere(self._directory.write_high_watermarks, _nothing)
        return self._take_told()

    def keep(self, keys: Collection[PartitionKey]) -> None:
        """Remove the logs that are of none of ``keys``: they went elsewhere in the meantime."""
        self._keeps_others = True
        self._elsewhere(partial(self._directory.remove_others, keys), self._kept)

    def _kept(self, _: None) -> None:
        self._keeps_others = False

    def read(self, key: PartitionKey, wanted: data.Slice, limit: int) -> bytes | FilePart:
        """Return the records that an answer to a Fetch names: at least a batch, or up to ``limit``.

        Empty if the log has none of them any longer. Many bytes stay in their file.
        """
        most = min(wanted.max_bytes, limit)
        found = self.slice(key, data.Slice(wanted.offset, wanted.end_offset, most))
        if found is None:
            return b""
        if found.length > INLINE_BYTES:
            fd = self._media.descriptor(found.path)
            if fd is not None:
                return FilePart(fd, found.position, found.length)
        return self._replicas[key].log.content(found)

    def look_up(self, key: PartitionKey, wanted: data.Lookup) -> tuple[int, int, int] | None:
        """Return offset, timestamp and leader epoch of the record that ListOffsets asks for."""
        replica = self._replicas.get(key)
        if replica is None:
            return None
        log, timestamp = replica.log, wanted.timestamp
        if timestamp == _LARGEST_TIMESTAMP:
            largest = log.largest_timestamp()
            if largest is None:
                return None
            timestamp = largest[1][1].max_timestamp
        return offset_at(log, self._media, timestamp, wanted.start_offset, wanted.end_offset)

    def content(self, key: PartitionKey) -> tuple[int, list[Batch]]:
        """Return the start of a log, and the headers of its batches. Raises OSError."""
        log = self._replicas[key].log
        return log.start_offset, [batch_of(header) for header in log.batches(log.start_offset)]

    def sizes(self) -> dict[PartitionKey, int]:
        """Return the bytes of each log's segments."""
        return {key: replica.log.size for key, replica in self._replicas.items()}

    def folder(self, key: PartitionKey) -> Path:
        """Return the directory of an open log."""
        return self._replicas[key].log.directory

    def extents(self, key: PartitionKey) -> tuple[Extent, ...]:
        """Return the segments of a log, ascending; none if there is no log."""
        replica = self._replicas.get(key)
        return () if replica is None else replica.log.extents

    def end_of(self, key: PartitionKey) -> int:
        """Return the offset of the next record of a log, -1 if there is no log."""
        replica = self._replicas.get(key)
        return -1 if replica is None else replica.log.end_offset

    def slice(self, key: PartitionKey, wanted: data.Slice) -> Slice | None:
        """Return where the bytes are that an answer to a Fetch names, None if there are none."""
        replica = self._replicas.get(key)
        if replica is None:
            return None
        log = replica.log
        if not log.start_offset <= wanted.offset <= log.end_offset:
            return None
        return log.read(wanted.offset, wanted.end_offset, wanted.max_bytes)

    def close(self) -> bool:
        """Make all logs durable and close them; return whether the next start need not check any.

        A log that is still being opened after a crash has not been checked, nor one of another
        broker that is still there. One that is still to be removed was not made durable. This
        broker may get their replicas back.
        """
        for replica in self._replicas.values():
            replica.log.close()
            self._directory.recovery_points[replica.name] = replica.log.end_offset
        self._directory.close()
        self._replicas.clear()
        left = any(self._directory.has(key[0], name) for key, name in self._removing.items())
        return not left and (self._orderly or not (self._opening or self._keeps_others))

    # --- inside -----------------------------------------------------------------------------

    def _open(self, key: PartitionKey) -> None:
        replica = self._replicas.get(key)
        if replica is not None:
            replica.log.settings = self._settings
            replica.rebuild()
            self._tell_opened(key, replica)
            return
        self._busy[key] = []
        self._opening.add(key)
        name = self._name_of(key[0]), key[1]
        self._elsewhere(partial(self._load, key[0], _Replica(name)), partial(self._loaded, key))

    def _load(self, topic_id: bytes, replica: _Replica) -> _Replica:
        """Recover a log; not on the loop, and nothing else knows it meanwhile."""
        directory, name = self._directory, replica.name
        directory.prepare(name, topic_id)
        replica.log = PartitionLog(
            directory.folder(name),
            replica.entries,
            self._settings,
            directory.log_starts.get(name, 0),
            None if self._orderly else directory.recovery_points.get(name, 0),
            self._media,
        )
        replica.rebuild()
        return replica

    def _loaded(self, key: PartitionKey, replica: _Replica) -> None:
        self._opening.discard(key)
        self._replicas[key] = replica
        if not self._busy[key]:
            self._tell_opened(key, replica)
        self._free(key)

    def _free(self, key: PartitionKey) -> None:
        """Carry out what has waited for a log: of several, the last one counts."""
        waited = self._busy.pop(key)
        self._removing.pop(key, None)
        if waited:
            self._remove(key)
            if isinstance(waited[-1], data.OpenLog):
                self._told += self.carry_out(waited[-1])
        self._say_told()

    def _say_told(self) -> None:
        """Let events of work elsewhere go where they belong; without that, to the caller."""
        if self.tell is not None and self._told:
            self.tell(self._take_told())

    def _take_told(self) -> list[DiskEvent]:
        told, self._told[:] = self._told[:], []
        return told

    def _tell_opened(self, key: PartitionKey, replica: _Replica) -> None:
        replica.cuts = 0
        self._directory.lower_high_watermark(replica.name, replica.log.end_offset)
        high_watermark = self._directory.high_watermarks.get(replica.name, 0)
        self._told.append(replica.opened(key, high_watermark))
        self._told += (_closed(key, each) for each in replica.log.extents[:-1])

    def _shape(self, effect: data.ShapeLog) -> None:
        own = self._settings
        size, age, interval = effect.segment_bytes, effect.segment_ms, effect.index_interval_bytes
        self._replicas[effect.key].log.settings = replace(
            own,
            segment_bytes=own.segment_bytes if size is None else size,
            segment_ms=own.segment_ms if age is None else age,
            index_interval_bytes=own.index_interval_bytes if interval is None else interval,
        )

    def _remove(self, key: PartitionKey) -> None:
        replica = self._replicas.pop(key, None)
        if replica is not None:
            replica.log.discard()
            self._busy[key] = []
            self._removing[key] = replica.name
            work = partial(self._directory.remove, key[0], replica.name)
            self._elsewhere(work, lambda _: self._free(key))

    def _append(self, effect: data.Append) -> list[DiskEvent]:
        if effect.key in self.full:
            return []  # It would leave a gap.
        replica, batch = self._replicas[effect.key], effect.batch
        content = _placed(batch)
        log = replica.log
        segment = log.active_base
        events: list[DiskEvent] = []
        try:
            log.append(content, [parse_header(content)])
            replica.note(batch)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.full.add(effect.key)
            events.append(AppendFailed(effect.key, log.end_offset))
        return events + self._completed(effect.key, segment)

    def _completed(self, key: PartitionKey, segment: int) -> list[DiskEvent]:
        """Return what follows if ``segment`` is not written any longer: it is made durable."""
        log = self._replicas[key].log
        if log.active_base == segment:
            return []
        closed = _closed(key, log.extents[-2])
        self._flush(key, 0)
        return [closed, *self._take_told()]

    def _roll(self, key: PartitionKey, before_ms: int) -> list[DiskEvent]:
        log = self._replicas[key].log
        segment = log.active_base
        if log.extents[-1].max_timestamp >= before_ms:
            return []
        try:
            log.roll()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # There may be room at the next look for old records.
        return self._completed(key, segment)

    def _flush(self, key: PartitionKey, number: int) -> None:
        """Make a log durable up to its end, in time; LogFlushed says how far it is.

        ``number`` is that of the core's request, 0 if it has not asked.
        """
        replica = self._replicas[key]
        end = partial(self._flushed, key, replica, number)
        try:
            flush = replica.log.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            # A later one covers this, too.
            self._elsewhere(_no_work, lambda _: end(None))
            return
        self._elsewhere(flush.run, lambda _: end(flush))

    def _flushed(
        self, key: PartitionKey, replica: _Replica, number: int, flush: Flush | None
    ) -> None:
        if self._replicas.get(key) is not replica:
            return  # Another log may have its name.
        if flush is not None:
            replica.log.flushed(flush)
        if key not in self._busy:
            point = replica.log.recovery_point
            self._told.append(LogFlushed(key, number, replica.cuts, point))
            self._say_told()
        points = self._directory.recovery_points
        if points.get(replica.name, 0) < replica.log.recovery_point:
            points[replica.name] = replica.log.recovery_point
            self._elsewhere(self._directory.write_recovery_points, _nothing)

    def _truncate(self, key: PartitionKey, end_offset: int) -> None:
        replica = self._replicas[key]
        # The batch that the offset is inside of goes, too.
        end = replica.log.truncated_end(end_offset)
        self._directory.lower_recovery_point(replica.name, end)
        self._directory.lower_high_watermark(replica.name, end)
        replica.log.truncate(end_offset)
        replica.cuts += 1
        replica.rebuild()

    def _restart(self, key: PartitionKey, offset: int) -> None:
        directory, replica = self._directory, self._replicas[key]
        directory.lower_recovery_point(replica.name, 0)
        directory.lower_high_watermark(replica.name, offset)
        # A start that finds no segment takes the checkpoint for the log's beginning. It is lower
        # where a process has died between a new beginning and its checkpoint.
        directory.set_log_start(replica.name, min(offset, replica.log.start_offset))
        replica.log.restart(offset)
        replica.cuts += 1
        replica.rebuild()
        directory.set_log_start(replica.name, offset)

    def _delete(self, key: PartitionKey, start_offset: int) -> None:
        replica = self._replicas[key]
        if key in self.full:  # The core had batches up to there, for which there was no room.
            start_offset = min(start_offset, replica.log.end_offset)
        # The checkpoint first: a log that begins later than it says is correct, and one that begins
        # earlier again would show deleted records.
        self._directory.set_log_start(replica.name, start_offset)
        garbage = replica.log.delete_below(start_offset)
        if garbage:
            self._elsewhere(partial(self._unlink, garbage), _nothing)

    def _unlink(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._media.unlink(path)
