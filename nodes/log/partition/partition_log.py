"""The log of one user partition: batches in segments, their indexes, epochs and producers.

Appends reach the page cache; only :class:`Flush` makes them durable, and it may run in another
thread. Batches are opaque: nothing here decodes a record. A crash leaves a prefix of what was
written after the recovery point, see :mod:`nodes.log.partition.recovery`.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.nodes.log.batch import NO_TIMESTAMP, BatchHeader
from kraftwreck.nodes.log.epochs import EpochCheckpoint
from kraftwreck.nodes.log.media import NO_ROOM, PLAIN, Buffer, File, Media
from kraftwreck.nodes.log.partition.headers import Placed
from kraftwreck.nodes.log.partition.names import (
    DELETED,
    OFFSET_INDEX,
    SEGMENT_FILES,
    SNAPSHOT,
    TIME_INDEX,
    numbered,
    offsets_of,
)
from kraftwreck.nodes.log.partition.producer_snapshot import (
    ProducerEntry,
    ProducerSnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from kraftwreck.nodes.log.partition.recovery import open_segments, remove_segments
from kraftwreck.nodes.log.partition.segment import LARGEST_DELTA, Segment
from kraftwreck.nodes.log.partition.settings import LogSettings

Producers = Callable[[], Iterable[ProducerEntry]]


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches: ``length`` bytes of the file at ``path`` from ``position`` on."""

    path: Path
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Extent:
    """A segment: its first offset, the one after its last, its bytes, its largest time in ms."""

    base_offset: int
    end_offset: int
    length: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Files to make durable, so that the log is durable below ``end_offset``.

    :meth:`run` may be called in another thread; :meth:`PartitionLog.flushed` then notes the end,
    unless the log was cut meanwhile: ``cuts`` counts that.
    """

    paths: tuple[Path, ...]
    directory: Path
    end_offset: int
    media: Media
    cuts: int = 0

    def run(self) -> None:
        """fsync all of them. Raises OSError, after which the process must end.

        The kernel no longer knows then which pages are on disk.
        """
        for path in self.paths:
            # A file that retention has removed in between needs no fsync.
            with contextlib.suppress(FileNotFoundError):
                self.media.fsync(path)
        self.media.fsync_directory(self.directory)


class PartitionLog:
    """The log in ``directory``, which is created if missing.

    ``recovery_point`` is the offset below which all is durable, None after an orderly stop.
    ``start_offset`` is that of the checkpoint of log starts; the log may begin later, never
    earlier. ``producers`` returns the producers' state up to the log's end; it is called whenever a
    segment is complete. :attr:`cut` says why recovery removed bytes, None if it removed none. After
    an OSError of :meth:`append` the log is unchanged. Where that is impossible every later change
    raises OSError.

    Raises :class:`LogCorruptError` for damage below the recovery point, and OSError.
    """

    def __init__(
        self,
        directory: Path,
        producers: Producers,
        settings: LogSettings,
        start_offset: int = 0,
        recovery_point: int | None = 0,
        media: Media = PLAIN,
    ) -> None:
        self.directory = directory
        self.settings = settings
        self._producers = producers
        self._media = media
        self._epochs = EpochCheckpoint(directory, media)
        self._unusable: str | None = None
        self._cuts = 0
        media.make_directory(directory)
        opened = open_segments(
            directory, settings, media, self._epochs, start_offset, recovery_point
        )
        self.cut = opened.cut
        self._segments = opened.segments
        self.start_offset = max(start_offset, self._segments[0].base_offset)
        self.recovery_point = self.end_offset if recovery_point is None else recovery_point
        self.recovery_point = max(min(self.recovery_point, self.end_offset), self.start_offset)
        self._file: File = media.open(self._active.path)
        if self.start_offset > self.end_offset:
            # The checkpoint knows of a removal that the segments do not.
            self.restart(self.start_offset)
        else:
            self._epochs.forget_below(self.start_offset, -1)
            # Most starts change nothing, and a write needs an fsync.
            if self._epochs.read() != {start: epoch for epoch, start in self._epochs.entries}:
                self._epochs.write()

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._active.end_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.length for segment in self._segments)

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset) of each leader epoch, ascending."""
        return tuple(self._epochs.entries)

    @property
    def segments(self) -> tuple[int, ...]:
        """The base offsets of the segments, ascending."""
        return tuple(segment.base_offset for segment in self._segments)

    @property
    def active_base(self) -> int:
        """The base offset of the segment that is written."""
        return self._active.base_offset

    @property
    def extents(self) -> tuple[Extent, ...]:
        """All segments, ascending; the last one is still written."""
        return tuple(
            Extent(each.base_offset, each.end_offset, each.length, each.largest[0])
            for each in self._segments
        )

    def discard(self) -> None:
        """Close the log without making anything durable, since its files are to be removed."""
        self._unusable = "it was removed"
        self._file.close()

    def close(self) -> None:
        """Make all durable, with indexes and producers, so that the next start reads little.

        Raises OSError; the log is closed all the same, and its stop was not orderly.
        """
        try:
            self._check_usable()
            self._active.finish()
            self._write_producers()
            self.flush().run()
        finally:
            self._unusable = "it was closed"
            self._file.close()

    # --- writing ------------------------------------------------------------------------

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> bool:
        """write(2) whole batches at the end, whose ``headers`` are given; not durable.

        Begins a new segment if they would make this one too large or if it is too old, and returns
        whether it did. Raises ValueError unless they continue the log, and OSError with the log
        unchanged.
        """
        self._check_usable()
        self._check_batches(data, headers)
        rolls = self._must_roll(len(data), headers)
        if rolls:
            self.roll()
        active = self._active
        if active.offsets.is_full():
            active.write_indexes()
        known = len(self._epochs.entries)
        for header in headers:
            self._epochs.note(header.epoch, header.base_offset)
        try:
            if len(self._epochs.entries) > known:
                self._epochs.write()
            self._file.append(data)
        except OSError as error:
            self._undo(known, error)
            raise
        position = active.length
        for header in headers:
            active.note(header, position)
            position += header.length
        return rolls

    def write_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Replace the (epoch, start offset) of all leader epochs, durably.

        A leader's epoch begins at the log's end, also if it never has a record.
        """
        self._check_usable()
        self._epochs.entries = list(entries)
        self._epochs.write()

    def roll(self) -> None:
        """Complete the last segment and begin a new one; nothing happens to an empty one."""
        self._check_usable()
        if self._active.length == 0:
            return
        end = self.end_offset
        self._active.finish()
        self._write_producers()
        segment = Segment(self.directory, end, self.settings.index_interval_bytes, self._media)
        file = self._media.create(segment.path)
        try:
            for suffix in (OFFSET_INDEX, TIME_INDEX):
                self._media.open(self.directory / numbered(end, suffix), fresh=True).close()
        except OSError:
            file.close()
            self._media.unlink(segment.path)
            raise
        self._file.close()
        self._file = file
        self._active.tail.clear()
        self._segments.append(segment)

    def flush(self) -> Flush:
        """Return what makes the log durable up to its end; nothing is durable before it ran."""
        self._check_usable()
        paths: list[Path] = []
        for segment in self._segments:
            if segment.end_offset > self.recovery_point or segment is self._active:
                segment.write_indexes()
                base = segment.base_offset
                paths.append(segment.path)
                paths += (self.directory / numbered(base, s) for s in (OFFSET_INDEX, TIME_INDEX))
        ends = {self.end_offset, *(each.base_offset for each in self._segments)}
        unsure = (each for each in sorted(ends) if each >= self.recovery_point)
        paths += (self.directory / numbered(each, SNAPSHOT) for each in unsure)
        return Flush(tuple(paths), self.directory, self.end_offset, self._media, self._cuts)

    def flushed(self, flush: Flush) -> None:
        """Raise the recovery point to where ``flush`` made the log durable."""
        if flush.cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    # --- removing -----------------------------------------------------------------------

    def truncate(self, end_offset: int) -> None:
        """Remove the batches from that with ``end_offset`` on; durable on return.

        A batch that has the offset inside of it goes, too. A recovery point above
        :meth:`truncated_end` that is stored elsewhere must be lowered durably first: after a crash
        it would say that durable batches are missing. Raises ValueError for an offset outside of
        the log, and OSError, after which the log cannot be used.
        """
        self._check_usable()
        if not self.start_offset <= end_offset <= self.end_offset:
            span = f"{self.start_offset} to {self.end_offset}"
            raise ValueError(f"cannot truncate to {end_offset}: the log has {span}")
        self._cuts += 1
        try:
            # Producers of another history than the log's must never come back.
            self._remove_snapshots(lambda offset: offset > end_offset)
            self._media.fsync_directory(self.directory)
            kept = self._segments_below(end_offset)
            self._file.close()
            gone = [segment.base_offset for segment in self._segments[len(kept) :]]
            remove_segments(self.directory, gone[::-1], self._media)
            self._segments = kept
            self._active.cut(end_offset)
            self._file = self._media.open(self._active.path)
            self._epochs.forget_from(self.end_offset)
            self._epochs.write()
            self.recovery_point = min(self.recovery_point, self.end_offset)
            if self.end_offset < self.start_offset:
                self.restart(self.start_offset)
        except OSError as error:
            self._unusable = f"truncation failed: {error}"
            raise

    def truncated_end(self, end_offset: int) -> int:
        """Return the offset at which the log ends once it is truncated to ``end_offset``, unless it
        begins after that."""
        return self._segments_below(end_offset)[-1].cut_end(end_offset)

    def _segments_below(self, end_offset: int) -> list[Segment]:
        return [s for s in self._segments if s.base_offset < end_offset] or self._segments[:1]

    def restart(self, start_offset: int) -> None:
        """Remove everything and begin at ``start_offset``; durable on return. Raises OSError."""
        self._check_usable()
        self._cuts += 1
        try:
            self._file.close()
            remove_segments(self.directory, list(self.segments)[::-1], self._media)
            interval = self.settings.index_interval_bytes
            self._segments = [Segment(self.directory, start_offset, interval, self._media)]
            self._file = self._media.create(self._active.path)
            self._active.recover(0)
            self._remove_snapshots(lambda _: True)
            self._media.fsync_directory(self.directory)
            self._epochs.entries = []
            self._epochs.write()
            self.start_offset = self.recovery_point = start_offset
        except OSError as error:
            self._unusable = f"emptying failed: {error}"
            raise

    def delete_below(self, start_offset: int) -> list[Path]:
        """Let the log begin at ``start_offset``; return files to be removed, at any time.

        These have a name that the next start removes as well. Raises ValueError for an offset
        behind the end, and OSError.
        """
        self._check_usable()
        if start_offset > self.end_offset:
            raise ValueError(f"the log ends at {self.end_offset}, before {start_offset}")
        if start_offset < self.start_offset:
            return []
        self.start_offset = start_offset
        self.recovery_point = max(self.recovery_point, start_offset)
        garbage: list[Path] = []
        while len(self._segments) > 1 and self._segments[1].base_offset <= start_offset:
            gone = self._segments.pop(0)
            for suffix in (".log", *SEGMENT_FILES):
                path = self.directory / numbered(gone.base_offset, suffix)
                if self._media.exists(path):
                    garbage.append(path.with_name(path.name + DELETED))
                    self._media.rename(path, garbage[-1])
        self._epochs.forget_below(start_offset, -1)
        self._epochs.write()
        self._remove_snapshots(lambda offset: offset < self._segments[0].base_offset)
        return garbage

    # --- reading ------------------------------------------------------------------------

    def read(self, offset: int, limit: int, most_bytes: int) -> Slice | None:
        """Return the bytes from the batch with ``offset`` on, up to the batch with ``limit``.

        Whole batches of one segment: the first, and others up to ``most_bytes`` with it. None if
        there is none. Raises ValueError for an offset outside of the log, and OSError.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ValueError(f"offset {offset} is not in {self.start_offset} to {self.end_offset}")
        active = self._active
        if active.tail.has(offset) and not self.settings.gaps:
            near = active.tail.extent(offset, limit, most_bytes, active.end_offset, active.length)
            return None if near is None else Slice(active.path, near[0], near[1] - near[0])
        for segment in self._segments[self._number_of(offset) :]:
            placed = segment.find(offset)
            if placed is None:
                continue
            position, header = placed
            if header.last_offset >= limit:
                return None
            end = segment.length
            if limit < segment.end_offset:
                following = segment.find(limit)
                end = end if following is None else following[0]
            if position + most_bytes < end:
                end = max(segment.boundary(position + most_bytes), position + header.length)
            return Slice(segment.path, position, end - position)
        return None

    def content(self, part: Slice) -> bytes:
        """Return the bytes of a slice. Most readers are at the log's end, whose file is open.

        Raises OSError.
        """
        if part.path is self._active.path:
            return self._file.read_at(part.position, part.length)
        return self._media.read_at(part.path, part.position, part.length)

    def batches(self, offset: int) -> Iterator[BatchHeader]:
        """Yield the headers from the batch with ``offset`` on. Raises OSError."""
        for segment in self._segments[self._number_of(offset) :]:
            for _, header in segment.batches(offset):
                yield header

    def find_time(self, timestamp: int) -> tuple[Path, Placed] | None:
        """Return the first batch with a record of ``timestamp`` (ms) or later, None without one."""
        for segment in self._segments:
            if segment.largest[0] >= timestamp and segment.end_offset > self.start_offset:
                placed = segment.find_time(timestamp)
                if placed is not None:
                    return segment.path, placed
        return None

    def largest_timestamp(self) -> tuple[Path, Placed] | None:
        """Return the first batch with the largest timestamp, None if no batch has one."""
        largest = max((segment.largest[0] for segment in self._segments), default=NO_TIMESTAMP)
        return None if largest == NO_TIMESTAMP else self.find_time(largest)

    def stored_producers(self) -> tuple[list[ProducerEntry], int]:
        """Return the producers of the newest snapshot, and the offset from which batches follow.

        Damaged snapshots and those above the end are removed. Raises OSError.
        """
        self._remove_snapshots(lambda offset: offset > self.end_offset)
        for offset in reversed(offsets_of(self._media.names(self.directory), SNAPSHOT)):
            path = self.directory / numbered(offset, SNAPSHOT)
            try:
                return decode_snapshot(self._media.read(path)), max(offset, self.start_offset)
            except ProducerSnapshotError:
                self._media.unlink(path)
        return [], self.start_offset

    # --- inside -------------------------------------------------------------------------

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise OSError(errno.EIO, f"{self.directory}: {self._unusable}")

    def _check_batches(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        end, length = self.end_offset, 0
        epoch = self._epochs.entries[-1][0] if self._epochs.entries else -1
        for header in headers:
            if header.base_offset < end or (header.base_offset > end and not self.settings.gaps):
                raise ValueError(f"batch starts at {header.base_offset}, log ends at {end}")
            if header.epoch < epoch:
                raise ValueError(f"batch at {end} has epoch {header.epoch} after {epoch}")
            end, epoch = header.last_offset + 1, header.epoch
            length += header.length
        if length != len(data) or not headers:
            raise ValueError(f"batches have {length} bytes, not {len(data)}")

    def _must_roll(self, size: int, headers: Sequence[BatchHeader]) -> bool:
        active = self._active
        if active.first_ms is None:
            return False
        newest = max(header.max_timestamp for header in headers)
        age = newest - active.first_ms if active.first_ms != NO_TIMESTAMP else 0
        return (
            active.length + size > self.settings.segment_bytes
            or age > self.settings.segment_ms
            or headers[-1].last_offset - active.base_offset > LARGEST_DELTA
        )

    def _undo(self, known_epochs: int, cause: OSError) -> None:
        grew = len(self._epochs.entries) > known_epochs
        del self._epochs.entries[known_epochs:]
        try:
            self._file.truncate(self._active.length)
            if grew:
                self._epochs.write()
        except OSError as error:
            # An entry too many in the file of epochs is harmless: it is removed at the next start.
            if error.errno not in NO_ROOM:
                self._unusable = f"append failed ({cause}) and could not be undone ({error})"

    def _number_of(self, offset: int) -> int:
        low, high = 0, len(self._segments)
        while high - low > 1:
            middle = (low + high) // 2
            if self._segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle
        return low

    def _write_producers(self) -> None:
        """Write the producers' snapshot at the end of the log, unless it is there.

        A kill while it were written again would lose producers whose batches are deleted.
        """
        path = self.directory / numbered(self.end_offset, SNAPSHOT)
        if self._media.exists(path):
            return
        file = self._media.open(path, fresh=True)
        try:
            file.append(encode_snapshot(self._producers()))
        except OSError:
            self._media.unlink(path)
            raise
        finally:
            file.close()

    def _remove_snapshots(self, unwanted: Callable[[int], bool]) -> None:
        for offset in offsets_of(self._media.names(self.directory), SNAPSHOT):
            if unwanted(offset):
                self._media.unlink(self.directory / numbered(offset, SNAPSHOT))
