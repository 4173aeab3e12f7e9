"""The metadata log on a real disk: segments of record batches, snapshots, the epoch checkpoint.

Rules that make a crash harmless: a segment is complete on disk before the next one is created;
later segments are removed durably before an earlier one is cut; the log is cleaned from its start,
below a snapshot that stays. So only the last segment can be torn, and recovery cuts it there.

Any other defect is disk damage. Recovery rejects it, since a cut would silently drop acknowledged
records. It also rejects a damaged snapshot, even if an older one would do: an operator should look
at bytes that changed by themselves.
"""

from __future__ import annotations

import errno
from pathlib import Path

from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.epochs import EpochCheckpoint
from kraftwreck.nodes.log.layout import (
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_MS,
    METADATA_DIRECTORY,
    inside,
    segment_name,
)
from kraftwreck.nodes.log.media import PLAIN, File, Media
from kraftwreck.nodes.log.recovery import Found, LogCorruptError, find_log
from kraftwreck.nodes.log.scan import epoch_defect, position_of
from kraftwreck.nodes.log.snapshot_files import SnapshotFiles

__all__ = ["LogCorruptError", "MetadataLogFiles"]


class MetadataLogFiles:
    """The log under ``directory/__cluster_metadata-0/``, where ``directory`` is the data directory.

    Holds the directory's lock from construction to :meth:`close`. Call :meth:`recover` first.
    :attr:`start_offset` is the first offset present, :attr:`end_offset` the next to be written. A
    segment ends when it would exceed ``segment_bytes``, or when the next batch is ``segment_ms``
    younger than its first (wall-clock ms of the batches). An OSError leaves the log unchanged.
    Where that is impossible (a failed fsync, a half-done truncation), every later call raises
    OSError until the log is opened again.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        segment_ms: int = DEFAULT_SEGMENT_MS,
        media: Media = PLAIN,
    ) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._directory = Path(directory) / METADATA_DIRECTORY
        self.snapshots = SnapshotFiles(self._directory, media)
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._media = media
        self._segments: list[int] = []
        self._epochs = EpochCheckpoint(self._directory, media)
        self._epoch_before: int | None = 0
        self._file: File | None = None
        self._length = 0
        self._first_ms = 0
        self._unusable: str | None = "it was not recovered"
        self._lock = media.lock(Path(directory))

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, offset of its first record) of each epoch in the log, ascending."""
        return tuple(self._epochs.entries)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record; if the log is empty, of the one before its start; or 0."""
        return self._last_epoch or 0

    # --- opening and closing ------------------------------------------------------------

    def recover(self) -> list[bytes]:
        """Read all batches, cut a torn tail, and make the rest durable.

        Stale files and snapshots below the log's start are removed. A log that ends before its
        latest snapshot, by (epoch, offset), is emptied to start there. Raises
        :class:`LogCorruptError` for damage that no crash can cause, and OSError.
        """
        return self.recover_all().batches

    def recover_all(self) -> Found:
        """Do :meth:`recover`; return also the snapshots."""
        self._lock.check()
        self._unusable = "it was not recovered"
        self._close_segment()
        self.snapshots.close()
        self._media.make_directory(self._directory)
        found = find_log(self._directory, self._media, self.snapshots, self._epochs)
        self._segments = found.segments
        self._epoch_before = found.epoch_before
        self.start_offset, self.end_offset = found.segments[0], found.end_offset
        file = self._open_segment(self._segments[-1])
        if found.torn:
            file.truncate(found.last_length)
        self._length = found.last_length
        self._note_first_batch()
        if found.restart is not None:
            self._restart_at(*found.restart)
            found.batches = []
        # Batches of a killed process may be in the page cache only; from here on this node may
        # report that it has them.
        self._active.fsync()
        self.snapshots.remove_below(self.start_offset)
        self._media.fsync_directory(self._directory)
        self._epochs.write()
        self._unusable = None
        return found

    def close(self) -> None:
        """Close the files and release the directory, without flushing; may be repeated."""
        self._unusable = "it was closed"
        self._close_segment()
        self.snapshots.close()
        self._lock.release()

    # --- writing ------------------------------------------------------------------------

    def append(self, batch: bytes) -> None:
        """write(2) one encoded batch at the end; not durable before :meth:`flush`.

        Raises ValueError unless it continues the log, and OSError with the log unchanged.
        """
        self._check_usable()
        header = parse_header(batch)
        if header.length != len(batch):
            raise ValueError(f"batch has {len(batch)} bytes but says {header.length}")
        if header.base_offset != self.end_offset:
            raise ValueError(f"batch starts at {header.base_offset}, log ends at {self.end_offset}")
        if (defect := epoch_defect(header, self._last_epoch)) is not None:
            raise ValueError(f"batch at {header.base_offset}: {defect}")
        if self._length and (
            self._length + len(batch) > self._segment_bytes
            or header.max_timestamp - self._first_ms >= self._segment_ms
        ):
            self._roll()
        known = len(self._epochs.entries)
        try:
            self._active.append(batch)
            if self._epochs.note(header.epoch, header.base_offset):
                self._epochs.write()
        except OSError as error:
            del self._epochs.entries[known:]
            self._cut_back(error)
            raise
        if not self._length:
            self._first_ms = header.base_timestamp
        self._length += len(batch)
        self.end_offset = header.last_offset + 1

    def flush(self) -> None:
        """fsync all appended batches. Raises OSError, and then the log is unusable.

        After a failed fsync the kernel no longer knows which pages are on disk.
        """
        self._check_usable()
        try:
            self._active.fsync()
        except OSError as error:
            self._unusable = f"fsync failed: {error}"
            raise

    def truncate(self, end_offset: int) -> None:
        """Cut the log so that it ends at ``end_offset``; durable on return.

        Raises ValueError, with nothing done, for an offset outside the log or inside a batch; and
        OSError.
        """
        self._check_usable()
        if not self.start_offset <= end_offset <= self.end_offset:
            span = f"{self.start_offset} to {self.end_offset}"
            raise ValueError(f"cannot truncate to {end_offset}: the log has {span}")
        kept = [base for base in self._segments if base < end_offset] or self._segments[:1]
        length = position_of(self._media.read(self._path(kept[-1])), end_offset)
        try:
            if len(kept) < len(self._segments):
                self._remove_segments(list(reversed(self._segments[len(kept) :])))
                self._segments = kept
                self._open_segment(kept[-1])
            self._active.truncate(length)
            self._active.fsync()
            self._length = length
            self.end_offset = end_offset
            self._note_first_batch()
            self._epochs.forget_from(end_offset)
            self._epochs.write()
        except OSError as error:
            self._unusable = f"truncation failed: {error}"
            raise

    # --- below a snapshot ---------------------------------------------------------------

    def install(self, end_offset: int, epoch: int) -> None:
        """Empty the log and let it begin at the end of a complete snapshot; durable on return.

        Older snapshots are removed. Raises ValueError if there is no such snapshot, and OSError.
        """
        self._check_usable()
        if (end_offset, epoch) not in self.snapshots.ids:
            raise ValueError(f"there is no snapshot of offset {end_offset} and epoch {epoch}")
        try:
            self._restart_at(end_offset, epoch)
            self.snapshots.remove_below(end_offset)
        except OSError as error:
            self._unusable = f"installing a snapshot failed: {error}"
            raise

    def clean(self, start_offset: int) -> None:
        """Remove segments wholly below ``start_offset`` and snapshots that end before it; durably.

        Raises ValueError, with nothing done, unless a snapshot ends at ``start_offset`` and the
        log reaches up to there; and OSError.
        """
        self._check_usable()
        if all(end != start_offset for end, _ in self.snapshots.ids):
            raise ValueError(f"cannot clean up to {start_offset}: no snapshot ends there")
        if start_offset > self.end_offset:
            raise ValueError(f"cannot clean up to {start_offset}: the log ends before it")
        kept = list(self._segments)
        while len(kept) > 1 and kept[1] <= start_offset:
            del kept[0]
        gone = self._segments[: len(self._segments) - len(kept)]
        try:
            if gone:
                self._remove_segments(gone)
                self._segments = kept
                self.start_offset = kept[0]
                before = self._epochs.forget_below(kept[0], self.end_offset)
                self._epoch_before = self._epoch_before if before is None else before
                self._epochs.write()
            self.snapshots.remove_below(start_offset)
        except OSError as error:
            self._unusable = f"cleaning failed: {error}"
            raise

    # --- inside -------------------------------------------------------------------------

    @property
    def _last_epoch(self) -> int | None:
        entries = self._epochs.entries
        return entries[-1][0] if entries else self._epoch_before

    @property
    def _active(self) -> File:
        if self._file is None:
            raise OSError(errno.EIO, "the log has no open segment")
        return self._file

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise OSError(errno.EIO, f"the log cannot be used: {self._unusable}")

    def _path(self, base_offset: int) -> Path:
        return inside(self._directory, segment_name(base_offset))

    def _open_segment(self, base_offset: int) -> File:
        self._close_segment()
        self._file = self._media.open(self._path(base_offset))
        return self._file

    def _close_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _remove_segments(self, base_offsets: list[int]) -> None:
        """Remove segments in this order, so that a crash leaves the others without a gap."""
        for base_offset in base_offsets:
            self._media.unlink(self._path(base_offset))
        self._media.fsync_directory(self._directory)

    def _restart_at(self, offset: int, epoch: int) -> None:
        # Last first: a crash leaves the beginning of the log. If nothing is left, recovery begins
        # at the latest snapshot, which is this one.
        self._close_segment()
        self._remove_segments(list(reversed(self._segments)))
        self._segments = [offset]
        self._open_segment(offset)
        self._media.fsync_directory(self._directory)
        self._length = 0
        self.start_offset = self.end_offset = offset
        self._epoch_before = epoch
        self._epochs.entries = []
        self._epochs.write()

    def _roll(self) -> None:
        self.flush()
        file = self._media.create(self._path(self.end_offset))
        try:
            self._media.fsync_directory(self._directory)
        except OSError as error:
            file.close()
            # The name may or may not be on disk; recovery accepts an empty last segment.
            self._unusable = f"fsync failed: {error}"
            raise
        self._close_segment()
        self._file = file
        self._length = 0
        self._segments.append(self.end_offset)

    def _note_first_batch(self) -> None:
        if self._length:
            head = self._media.read_at(self._path(self._segments[-1]), 0, 64)
            self._first_ms = parse_header(head).base_timestamp

    def _cut_back(self, cause: OSError) -> None:
        try:
            self._active.truncate(self._length)
        except OSError as error:
            self._unusable = f"append failed ({cause}) and could not be undone ({error})"
