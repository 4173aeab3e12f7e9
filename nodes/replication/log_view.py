"""The log of a partition as replication sees it: offsets, epochs, producers, a tail of headers."""

from __future__ import annotations

from collections import deque
from typing import Final

from kraftwreck.nodes.replication.epoch_cache import LeaderEpochs
from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed, Settings
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.producers import Producers

TAIL: Final = 256
"""Headers of batches below the high watermark that are kept."""


class LogView:
    """A log from ``start`` to ``end`` (exclusive). The shell has the bytes.

    ``tail`` holds the headers from ``tail_start`` on. Above it the log can be truncated at once.
    ``size`` is the number of bytes of all segments, also that which is written.
    """

    __slots__ = ("_before_tail", "end", "epochs", "producers", "segments", "size", "start", "tail",
                 "tail_start")  # fmt: skip

    def __init__(self, opened: LogOpened) -> None:
        self.start = opened.start_offset
        self.end = self.tail_start = opened.end_offset
        self.epochs = LeaderEpochs(opened.epochs)
        # The file may lag behind a deletion or a truncation that a kill followed.
        self.epochs.truncate_from(opened.end_offset + 1)
        self.epochs.delete_below(opened.start_offset)
        self.producers = Producers()
        for batch in opened.producers:
            self.producers.append(batch)
        self._before_tail = self.producers.copy()
        self.tail: deque[Batch] = deque()
        self.segments: deque[SegmentClosed] = deque()
        self.size = opened.size

    def append(self, batch: Batch, high_watermark: int) -> bool:
        """Add a placed batch; return whether it starts a new epoch. Raises ValueError for a gap."""
        if batch.base_offset != self.end:
            raise ValueError(f"a batch at {batch.base_offset} cannot follow offset {self.end}")
        self.end = batch.next_offset
        self.size += batch.size
        self.tail.append(batch.bare())
        self.producers.append(batch)
        while len(self.tail) > TAIL and self.tail[0].next_offset <= high_watermark:
            first = self.tail.popleft()
            self._before_tail.append(first)
            self.tail_start = first.next_offset
        return self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def truncate(self, end_offset: int, *, written: bool = True) -> bool:
        """Cut the log at ``end_offset``, back to the start of the batch that contains it, or of the
        log.

        ``written``: the files are cut, too, and the segment that ends there is written again.
        Return False if that is below the tail: then the log must be opened again.
        """
        if end_offset < self.tail_start:
            return False
        closed_below = end_offset if written else end_offset + 1
        cut = False
        while self.tail and self.tail[-1].next_offset > end_offset:
            gone = self.tail.pop()
            end_offset = min(end_offset, gone.base_offset)
            self.size -= gone.size
            cut = True
        self.epochs.truncate_from(end_offset)
        if cut:
            self.producers = self._before_tail.copy()
            for batch in self.tail:
                self.producers.append(batch)
        while self.segments and self.segments[-1].end_offset >= closed_below:
            self.segments.pop()
        self.end = end_offset
        if end_offset < self.start:  # The log began inside of the batch that is gone.
            self.end = self.tail_start = self.start
            self.size = 0
        return True

    def whole_batches(self, least: int, most: int) -> int:
        """Return the last known end of a batch from ``least``, which is one, up to ``most``."""
        for batch in reversed(self.tail):
            if batch.next_offset <= most:
                return max(batch.next_offset, least)
        return self.tail_start if least <= self.tail_start <= most else least

    def start_at(self, offset: int) -> None:
        """Empty the log; it starts at ``offset``."""
        self.start = self.end = self.tail_start = offset
        self.size = 0
        self.epochs = LeaderEpochs()
        self.producers = Producers()
        self._before_tail = Producers()
        self.tail.clear()
        self.segments.clear()

    def delete_up_to(self, start_offset: int) -> None:
        """Raise the start of the log; the state of producers outlives batches (KIP-360)."""
        self.start = start_offset
        self.epochs.delete_below(start_offset)
        while self.segments and self.segments[0].end_offset <= start_offset:
            self.size -= self.segments.popleft().size

    def bytes_between(self, offset: int, end_offset: int, cap: int) -> int:
        """Return the bytes of the batches in [``offset``, ``end_offset``), or ``cap`` if more.

        Below the tail sizes are not known; that counts as ``cap``.
        """
        if offset < self.tail_start:
            return cap
        found = 0
        for batch in reversed(self.tail):
            if batch.next_offset <= offset or found >= cap:
                break
            if batch.next_offset <= end_offset:
                found += batch.size
        return min(found, cap)

    @property
    def has_garbage(self) -> bool:
        """Whether a segment is closed whose records were deleted before."""
        return bool(self.segments) and self.segments[0].end_offset <= self.start

    def may_be_older(self, time_ms: int) -> bool:
        """Return whether the segment that is written has batches, and perhaps none as new as
        ``time_ms``."""
        if self.size <= sum(each.size for each in self.segments):
            return False
        return not self.tail or self.tail[-1].max_timestamp < time_ms

    def retained_from(self, settings: Settings, high_watermark: int, wall_ms: int) -> int:
        """Return the offset from which the log is to be kept: the start, or that of a segment.

        Closed segments go while they are too old, or the rest is too large. Nothing at or above the
        high watermark is deleted (KAFKA-5634).
        """
        start, size = self.start, self.size
        for each in self.segments:
            old = 0 <= settings.retention_ms < wall_ms - each.max_timestamp
            large = 0 <= settings.retention_bytes <= size - each.size
            if not (old or large) or each.end_offset > high_watermark:
                break
            size -= each.size
            start = each.end_offset
        return start
