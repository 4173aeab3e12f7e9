"""The replicated log as the core sees it: whole batches in memory and their epochs.

A snapshot covers the records below ``start_offset``, which are no longer here.

The shell keeps the same bytes on disk; every change here has its effect (AppendLog, TruncateLog).
Offsets are record offsets; ``end_offset`` (LEO) is the next one to write.

Invariants, asserted where cheap:
* batches are contiguous: each begins where the one before ended;
* epochs never decrease along the log (KRAFT invariant I7), so the epoch cache is sorted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.log.batch import BatchHeader, parse_header


class ReplicatedLog:
    """Batches from ``start_offset`` on, and the first offset of each epoch.

    ``base`` is the snapshot ``(end offset, epoch)`` that an empty log continues. Its epoch is the
    last one as long as the log holds nothing newer.
    """

    __slots__ = (
        "_bases",
        "_batches",
        "_epoch_starts",
        "_epochs",
        "_headers",
        "base",
        "end_offset",
        "size",
        "start_offset",
    )

    def __init__(
        self,
        batches: Sequence[bytes] = (),
        start_offset: int = 0,
        base: tuple[int, int] = (0, 0),
    ) -> None:
        self._batches: list[bytes] = []
        self._bases: list[int] = []
        self._headers: list[BatchHeader] = []
        self._epochs: list[int] = []
        self._epoch_starts: list[int] = []
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.base = base
        self.size = 0
        for batch in batches:
            self.append(batch, parse_header(batch))

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record (lastFetchedEpoch); if the log is empty, the snapshot's or 0."""
        if self._epochs:
            return self._epochs[-1]
        return self.base[1] if self.base[0] == self.end_offset else 0

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Append one whole batch, which must begin at the log end (FatalError otherwise)."""
        if header.base_offset != self.end_offset:
            raise FatalError(f"batch begins at {header.base_offset}, log ends at {self.end_offset}")
        if header.epoch < self.last_epoch:
            raise FatalError(f"batch of epoch {header.epoch} after epoch {self.last_epoch}")
        if not self._epochs or header.epoch > self._epochs[-1]:
            self._epochs.append(header.epoch)
            self._epoch_starts.append(header.base_offset)
        self._batches.append(batch)
        self._bases.append(header.base_offset)
        self._headers.append(header)
        self.size += len(batch)
        self.end_offset = header.last_offset + 1

    def truncate(self, end_offset: int) -> None:
        """Drop every batch that reaches past ``end_offset``."""
        keep = bisect_left(self._bases, end_offset)
        if keep and self._headers[keep - 1].last_offset >= end_offset:
            keep -= 1
        self.size -= sum(map(len, self._batches[keep:]))
        del self._batches[keep:]
        del self._bases[keep:]
        del self._headers[keep:]
        last = self._headers[-1].last_offset + 1 if self._headers else 0
        self.end_offset = max(last, self.start_offset)
        epochs = bisect_left(self._epoch_starts, self.end_offset)
        del self._epochs[epochs:]
        del self._epoch_starts[epochs:]

    def clean(self, snapshot: tuple[int, int]) -> None:
        """Let the log begin at the end of ``snapshot`` (end offset, epoch), which is on disk.

        If truncation empties the log later, the snapshot's epoch is the last one.
        """
        start_offset = snapshot[0]
        if not self.start_offset <= start_offset <= self.end_offset:
            raise FatalError(f"log start {start_offset} is outside of the log")
        drop = bisect_left(self._bases, start_offset)
        self.size -= sum(map(len, self._batches[:drop]))
        del self._batches[:drop]
        del self._bases[:drop]
        del self._headers[:drop]
        self.start_offset = start_offset
        self.base = snapshot
        first = bisect_right(self._epoch_starts, start_offset) - 1
        if first > 0:
            del self._epochs[:first]
            del self._epoch_starts[:first]
        if self._epochs and self._epoch_starts[0] < start_offset:
            self._epoch_starts[0] = start_offset

    def restart(self, start_offset: int, base: tuple[int, int]) -> None:
        """Drop everything; the log starts again at ``start_offset``, after snapshot ``base``."""
        self._batches.clear()
        self._bases.clear()
        self._headers.clear()
        self._epochs.clear()
        self._epoch_starts.clear()
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.base = base
        self.size = 0

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the record at ``offset``, None if it is not here."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self._epochs[bisect_right(self._epoch_starts, offset) - 1]

    def epoch_before(self, end_offset: int) -> int | None:
        """Return the epoch of the last record below ``end_offset``, also right after a snapshot.

        0 below all records, None if neither the log nor ``base`` has that record.
        """
        if end_offset == self.start_offset:
            if end_offset == 0:
                return 0
            return self.base[1] if self.base[0] == end_offset else None
        return self.epoch_at(end_offset - 1)

    def first_offset_of(self, epoch: int) -> int | None:
        """Return the first offset of ``epoch`` that is here, None if none is."""
        index = bisect_left(self._epochs, epoch)
        if index == len(self._epochs) or self._epochs[index] != epoch:
            return None
        return self._epoch_starts[index]

    def header_at(self, offset: int) -> BatchHeader | None:
        """Return the header of the batch that holds ``offset``, None if it is not here."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self._headers[bisect_right(self._bases, offset) - 1]

    def batch_ending_at(self, end_offset: int) -> bytes | None:
        """Return the batch that ends right before ``end_offset``, None if there is none."""
        index = bisect_left(self._bases, end_offset) - 1
        if index < 0 or self._headers[index].last_offset + 1 != end_offset:
            return None
        return self._batches[index]

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches, from the one that holds ``offset``; at least one if any."""
        batches = self._batches
        first = bisect_right(self._bases, offset) - 1
        if first < 0 or offset >= self.end_offset:
            return b""
        last = first + 1
        size = len(batches[first])
        while last < len(batches):
            size += len(batches[last])
            if size > max_bytes:
                break
            last += 1
        return b"".join(batches[first:last]) if last > first + 1 else batches[first]

    def batches_between(self, start: int, end: int) -> Iterator[tuple[bytes, BatchHeader]]:
        """Yield the batches that lie wholly in ``[start, end)``; ``start`` is a boundary."""
        batches, headers = self._batches, self._headers
        index = bisect_left(self._bases, start)
        while index < len(batches) and headers[index].last_offset < end:
            yield batches[index], headers[index]
            index += 1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return ``(end offset, epoch)`` of the largest epoch here that is ``<= epoch``.

        KIP-101/279 as KRaft uses it: for an epoch this log never had, the answer is the
        floor epoch's end, or, below all epochs, the start of the first one.
        """
        if not self._epochs or epoch >= self._epochs[-1]:
            return self.end_offset, self.last_epoch
        above = bisect_right(self._epochs, epoch)
        end = self._epoch_starts[above]
        return (end, self._epochs[above - 1]) if above else (end, epoch)
