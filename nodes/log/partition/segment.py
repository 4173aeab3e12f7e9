"""A segment of a user partition: its batches, and where they are by offset and by time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.batch import NO_TIMESTAMP, BatchHeader
from kraftwreck.nodes.log.layout import segment_name
from kraftwreck.nodes.log.media import Media
from kraftwreck.nodes.log.partition.headers import Checked, Placed, walk
from kraftwreck.nodes.log.partition.index import offset_index, time_index
from kraftwreck.nodes.log.partition.names import OFFSET_INDEX, TIME_INDEX, numbered
from kraftwreck.nodes.log.partition.tail import Tail

LARGEST_DELTA: Final = (1 << 31) - 1


class Segment:
    """The batches from ``base_offset`` to before :attr:`end_offset` in a file of ``length`` bytes.

    :attr:`largest` is the largest timestamp (ms) and the last offset of the batch that has it;
    ``first_ms`` the largest of the first batch, None without one.
    """

    def __init__(self, directory: Path, base_offset: int, interval: int, media: Media) -> None:
        self.base_offset = base_offset
        self.path = directory / segment_name(base_offset)
        self.length = 0
        self.end_offset = base_offset
        self.largest = (NO_TIMESTAMP, base_offset)
        self.first_ms: int | None = None
        self.tail = Tail()
        self._media = media
        self._interval = interval
        self._since_entry = 0
        """Bytes after the batch of the last entry of the index by offset, with that batch."""
        self._following = (base_offset, 0)
        """The last boundary found, offset and byte: most readers continue there."""
        self._offset_path = directory / numbered(base_offset, OFFSET_INDEX)
        self._time_path = directory / numbered(base_offset, TIME_INDEX)
        self.offsets = offset_index(self._offset_path, media)
        self.times = time_index(self._time_path, media)

    # --- opening ------------------------------------------------------------------------

    def load(self, length: int) -> None:
        """Take the file, of ``length`` bytes, and its indexes as an orderly stop left them.

        Reads the batches after the last entry only. Indexes that do not fit are rebuilt from all
        headers. Raises BatchError if the file does not end with a whole batch, and OSError.
        """
        self.length = length
        if not self._load_indexes():
            self._forget_entries()
            self._index(walk(self.path, self._media, 0, length))
            return
        entry = self.offsets.last()
        last = self.times.last()
        if last is not None:
            self.largest = (last[0], self.base_offset + last[1])
        position = 0
        if entry is not None:
            position, self._since_entry = entry[1], 0
            for _, header in walk(self.path, self._media, 0, self.length):
                self.first_ms = header.max_timestamp
                break
        for _, header in walk(self.path, self._media, position, length):
            self._count(header)

    def recover(self, size: int) -> tuple[list[tuple[int, int]], str | None]:
        """Check the batches of a file of ``size`` bytes and rebuild the indexes.

        Returns (epoch, offset of its first batch) of each epoch found, and why the sound bytes,
        :attr:`length`, end before ``size``, None if they do not. Nothing is cut. Raises OSError.
        """
        self._forget_entries()
        epochs: list[tuple[int, int]] = []
        checked = Checked(self.path, self._media, size, self.base_offset)

        def noted() -> Iterator[Placed]:
            for position, header in checked:
                if not epochs or header.epoch > epochs[-1][0]:
                    epochs.append((header.epoch, header.base_offset))
                yield position, header

        self._index(noted())
        self.length = checked.length
        return epochs, checked.defect

    # --- writing ------------------------------------------------------------------------

    def note(self, header: BatchHeader, position: int) -> None:
        """Take a batch into the indexes (in memory) that was written at ``position``."""
        if header.max_timestamp > self.largest[0]:
            self.largest = (header.max_timestamp, header.last_offset)
        if self._since_entry > self._interval:
            self.offsets.add(header.last_offset - self.base_offset, position)
            self._note_time()
            self._since_entry = 0
        self._count(header)
        self.tail.note(header.base_offset, position)
        self.length = position + header.length

    def write_indexes(self, *, durably: bool = False) -> None:
        """Write the entries that wait in memory. Raises OSError, and then they still wait."""
        self.offsets.write(durably=durably)
        self.times.write(durably=durably)

    def finish(self) -> None:
        """Write the indexes of a full segment, with its largest timestamp."""
        self._note_time()
        self.write_indexes()

    def cut(self, end_offset: int) -> None:
        """Remove the batches from that with ``end_offset`` on. Raises OSError.

        :attr:`end_offset` is then the offset given, or the first of a batch that it was inside of.
        """
        length, end = self._cut_at(end_offset)
        self.offsets.drop_from(
            self.offsets.count_below(lambda entry: self.base_offset + entry[0] >= end)
        )
        self.times.drop_from(
            self.times.count_below(lambda entry: self.base_offset + entry[1] >= end)
        )
        self.cut_file(length)
        self.write_indexes()
        self._reset()
        self.load(length)
        self.end_offset = end

    def cut_end(self, end_offset: int) -> int:
        """Return the end offset that :meth:`cut` leaves."""
        return self._cut_at(end_offset)[1]

    def _cut_at(self, end_offset: int) -> tuple[int, int]:
        """Return the length of the file and the end offset that :meth:`cut` leaves."""
        placed = self.find(end_offset)
        if placed is None:
            return self.length, end_offset
        return placed[0], min(end_offset, placed[1].base_offset)

    def cut_file(self, length: int) -> None:
        """Cut the file to ``length`` bytes, durably. Raises OSError."""
        file = self._media.open(self.path)
        try:
            file.truncate(length)
            file.fsync()
        finally:
            file.close()

    # --- looking up ---------------------------------------------------------------------

    def find(self, offset: int) -> Placed | None:
        """Return the first batch that ends at or after ``offset``, None if there is none."""
        for position, header in self.batches(offset):
            return position, header
        return None

    def batches(self, offset: int) -> Iterator[Placed]:
        """Yield the batches from that with ``offset`` on. Raises OSError and BatchError."""
        known, start = self._following
        if offset != known:
            delta = offset - self.base_offset
            count = self.offsets.count_below(lambda entry: entry[0] > delta)
            start = self.offsets.entry(count - 1)[1] if count else 0
        for position, header in walk(self.path, self._media, start, self.length):
            if header.last_offset >= offset:
                yield position, header

    def boundary(self, position: int) -> int:
        """Return the last end of a batch at or before byte ``position``, 0 before the first."""
        count = self.offsets.count_below(lambda entry: entry[1] > position)
        end = self.offsets.entry(count - 1)[1] if count else 0
        for start, header in walk(self.path, self._media, end, self.length):
            if start + header.length > position:
                self._following = (header.base_offset, start)
                break
            end = start + header.length
            self._following = (header.last_offset + 1, end)
        return end

    def find_time(self, timestamp: int) -> Placed | None:
        """Return the first batch with a record of ``timestamp`` ms or later, None without one."""
        if self.largest[0] < timestamp:
            return None
        count = self.times.count_below(lambda entry: entry[0] >= timestamp)
        start = self.times.entry(count - 1)[1] if count else 0
        for position, header in self.batches(self.base_offset + start):
            if header.max_timestamp >= timestamp:
                return position, header
        return None

    # --- inside -------------------------------------------------------------------------

    def _load_indexes(self) -> bool:
        """Read the ends of both indexes; return whether they can belong to this file."""
        media = self._media
        try:
            self.offsets = offset_index(self._offset_path, media, media.size(self._offset_path))
            self.times = time_index(self._time_path, media, media.size(self._time_path))
            entry = self.offsets.last()
            if entry is None:
                return self.length <= self._interval
            if self.times.last() == (0, 0):
                return False
            for _, header in walk(self.path, media, entry[1], self.length):
                return header.last_offset - self.base_offset == entry[0] > 0
        except (ValueError, FileNotFoundError):
            return False
        return False

    def _index(self, batches: Iterator[Placed]) -> None:
        for position, header in batches:
            self.note(header, position)
            if self.offsets.is_full():
                self.write_indexes()
        self.write_indexes()

    def _forget_entries(self) -> None:
        for path in (self._offset_path, self._time_path):
            self._media.open(path, fresh=True).close()
        self.offsets = offset_index(self._offset_path, self._media)
        self.times = time_index(self._time_path, self._media)
        self._reset()

    def _reset(self) -> None:
        self.largest = (NO_TIMESTAMP, self.base_offset)
        self.first_ms = None
        self.tail.clear()
        self.end_offset = self.base_offset
        self.length = self._since_entry = 0
        self._following = (self.base_offset, 0)

    def _note_time(self) -> None:
        last = self.times.last()
        if self.largest[0] > (NO_TIMESTAMP if last is None else last[0]):
            self.times.add(self.largest[0], self.largest[1] - self.base_offset)

    def _count(self, header: BatchHeader) -> None:
        if header.max_timestamp > self.largest[0]:
            self.largest = (header.max_timestamp, header.last_offset)
        if self.first_ms is None:
            self.first_ms = header.max_timestamp
        self._since_entry += header.length
        self.end_offset = header.last_offset + 1
