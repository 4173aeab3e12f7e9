"""The metadata log on a real disk: segments of record batches and the leader-epoch checkpoint.

Rules that make a crash harmless: a segment is complete on disk before the next one is created;
later segments are gone, durably, before an earlier one is cut. So only the last segment can be
torn, and recovery cuts it at its first bad byte. A defect anywhere else is a damaged disk and is
refused rather than cut, for it would silently take back what was acknowledged.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from nodes.log.atomic import TEMPORARY_SUFFIX, fsync_directory, replace_file, write_fully
from nodes.log.batch import parse_header
from nodes.log.layout import EPOCH_CHECKPOINT, METADATA_DIRECTORY, segment_name, segment_offsets
from nodes.log.lock import DirectoryLock
from nodes.log.scan import position_of, scan_segment

DEFAULT_SEGMENT_BYTES: Final = 1 << 30


class LogCorruptError(Exception):
    """The log is damaged where no crash can damage it; the node must not start."""


class MetadataLogFiles:
    """The log under ``directory/__cluster_metadata-0/``, where ``directory`` is the data directory.

    Holds the directory's lock from construction to :meth:`close`. Call :meth:`recover` first.
    Offsets: :attr:`start_offset` is the first one present, :attr:`end_offset` the next to be
    written. Any OSError leaves the log as it was; where that cannot be had (a failed fsync, a
    half-done truncation), everything afterwards raises OSError until it is opened anew.
    """

    def __init__(self, directory: Path, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._directory = Path(directory) / METADATA_DIRECTORY
        self._segment_bytes = segment_bytes
        self._segments: list[int] = []
        self._epochs: list[tuple[int, int]] = []
        self._fd = -1
        self._length = 0
        self._unusable: str | None = "it was not recovered"
        self._lock = DirectoryLock(Path(directory))

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, offset of its first record) of each epoch in the log, ascending."""
        return tuple(self._epochs)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, 0 if there is none."""
        return self._epochs[-1][0] if self._epochs else 0

    # --- opening and closing ------------------------------------------------------------

    def recover(self) -> list[bytes]:
        """Read all batches, cut a torn tail, and make what is left durable.

        Raises :class:`LogCorruptError` for damage before the last segment, and OSError.
        """
        self._lock.check()
        self._unusable = "it was not recovered"
        self._close_segment()
        if not self._directory.exists():
            self._directory.mkdir()
            fsync_directory(self._directory.parent)
        stale = self._directory / (EPOCH_CHECKPOINT + TEMPORARY_SUFFIX)
        stale.unlink(missing_ok=True)
        self._segments = segment_offsets(self._directory) or [0]
        self.start_offset = self.end_offset = self._segments[0]
        self._epochs = []
        batches: list[bytes] = []
        for base_offset in self._segments:
            path = self._directory / segment_name(base_offset)
            if base_offset != self.end_offset:
                raise LogCorruptError(f"{path}: the segment before ends at {self.end_offset}")
            self._open_segment(base_offset)
            scan = scan_segment(path.read_bytes(), base_offset, self.last_epoch)
            if scan.defect is not None:
                if base_offset != self._segments[-1]:
                    raise LogCorruptError(f"{path}, byte {scan.length}: {scan.defect}")
                os.ftruncate(self._fd, scan.length)
            self._length = scan.length
            for batch in scan.batches:
                self._note_epoch(batch)
            batches += scan.batches
            self.end_offset = scan.end_offset
        # Batches of a killed process may be in the page cache only; from here on others may be
        # told that this node has them.
        os.fsync(self._fd)
        fsync_directory(self._directory)
        self._write_checkpoint()
        self._unusable = None
        return batches

    def close(self) -> None:
        """Close the files and let go of the directory, without flushing; harmless repeated."""
        self._unusable = "it was closed"
        self._close_segment()
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
        if header.epoch < self.last_epoch:
            raise ValueError(f"batch has epoch {header.epoch}, log has {self.last_epoch} already")
        if self._length and self._length + len(batch) > self._segment_bytes:
            self._roll()
        known = len(self._epochs)
        try:
            write_fully(self._fd, batch)
            if self._note_epoch(batch):
                self._write_checkpoint()
        except OSError as error:
            del self._epochs[known:]
            self._cut_back(error)
            raise
        self._length += len(batch)
        self.end_offset = header.last_offset + 1

    def flush(self) -> None:
        """fsync all that was appended. Raises OSError, and then the log is of no further use:
        after a failed fsync the kernel no longer knows which pages are on disk."""
        self._check_usable()
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._unusable = f"fsync failed: {error}"
            raise

    def truncate(self, end_offset: int) -> None:
        """Cut the log so that it ends at ``end_offset``; durable on return.

        Raises ValueError, with nothing done, outside of the log or inside of a batch; and OSError.
        """
        self._check_usable()
        if not self.start_offset <= end_offset <= self.end_offset:
            span = f"{self.start_offset} to {self.end_offset}"
            raise ValueError(f"cannot truncate to {end_offset}: the log has {span}")
        kept = [base for base in self._segments if base < end_offset] or self._segments[:1]
        path = self._directory / segment_name(kept[-1])
        length = position_of(path.read_bytes(), end_offset)
        try:
            if len(kept) < len(self._segments):
                for base_offset in reversed(self._segments[len(kept) :]):
                    (self._directory / segment_name(base_offset)).unlink()
                fsync_directory(self._directory)
                self._segments = kept
                self._close_segment()
                self._open_segment(kept[-1])
            os.ftruncate(self._fd, length)
            os.fsync(self._fd)
            self._length = length
            self.end_offset = end_offset
            self._epochs = [entry for entry in self._epochs if entry[1] < end_offset]
            self._write_checkpoint()
        except OSError as error:
            self._unusable = f"truncation failed: {error}"
            raise

    # --- inside -------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise OSError(errno.EIO, f"the log cannot be used: {self._unusable}")

    def _open_segment(self, base_offset: int) -> None:
        self._close_segment()
        path = self._directory / segment_name(base_offset)
        # O_APPEND: after a cut the next write goes to the new end.
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def _close_segment(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _roll(self) -> None:
        self.flush()
        path = self._directory / segment_name(self.end_offset)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(path, flags, 0o644)
        try:
            fsync_directory(self._directory)
        except OSError as error:
            os.close(fd)
            # Nobody knows whether the name is on disk; recovery takes an empty last segment.
            self._unusable = f"fsync failed: {error}"
            raise
        self._close_segment()
        self._fd = fd
        self._length = 0
        self._segments.append(self.end_offset)

    def _cut_back(self, cause: OSError) -> None:
        try:
            os.ftruncate(self._fd, self._length)
        except OSError as error:
            self._unusable = f"append failed ({cause}) and could not be undone ({error})"

    def _note_epoch(self, batch: bytes) -> bool:
        header = parse_header(batch)
        if self._epochs and header.epoch <= self._epochs[-1][0]:
            return False
        self._epochs.append((header.epoch, header.base_offset))
        return True

    def _write_checkpoint(self) -> None:
        lines = ["0", str(len(self._epochs)), *(f"{e} {start}" for e, start in self._epochs), ""]
        content = "\n".join(lines).encode()
        replace_file(self._directory / EPOCH_CHECKPOINT, content)
