"""A follower's side of a partition: answers of the leader are appended or cut the log."""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.protocol.errors import FENCED_LEADER_EPOCH, NONE, OFFSET_OUT_OF_RANGE
from kraftwreck.nodes.replication.effects import (
    Append,
    Note,
    StartAt,
    Truncate,
    WriteEpochs,
)
from kraftwreck.nodes.replication.epoch_cache import UNDEFINED
from kraftwreck.nodes.replication.events import FetchedPart, FetchPart
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.partition import Partition

BACKOFF_US: Final = 1_000_000
NEVER: Final = 1 << 62
_PART_BYTES: Final = 1 << 20


class Following:
    """The fetch state of one partition. It is made again when the leader or its epoch changes.

    ``due`` is the time (µs) of the next fetch; ``asks`` means that the leader's offsets are needed
    first. ``held``: no fetch is due before a flush ends, because each one acknowledges the log.
    """

    __slots__ = ("asks", "due", "epoch", "held", "leader", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader = partition.assignment.leader
        self.epoch = partition.assignment.leader_epoch
        self.due = 0
        self.asks = False
        self.held = False

    @property
    def log(self) -> LogView:
        """The log, which is open while the partition is being followed."""
        log = self.partition.log
        assert log is not None
        return log

    def may_fetch(self) -> bool:
        """Return whether this replica may vouch for its log, else hold the fetch back."""
        if self.partition.vouched < self.log.end:
            self.due, self.held = NEVER, True
        return not self.held

    def flushed(self, now: int) -> None:
        """Go on if it was only the flush that held the fetch back."""
        if self.held and self.partition.vouched >= self.log.end:
            self.due, self.held = now, False

    def request(self) -> FetchPart:
        """Return the next fetch: from the end of the log on, with the epoch before it."""
        log = self.log
        return FetchPart(
            self.partition.key, log.end, _PART_BYTES, self.epoch, log.epochs.latest, log.start
        )

    def answered(self, asked: FetchPart, part: FetchedPart, now: int) -> None:
        """Use the leader's answer, unless the log or the leader has changed since the request."""
        log = self.log
        if (asked.leader_epoch, asked.offset, asked.last_fetched_epoch) != (
            self.epoch,
            log.end,
            log.epochs.latest,
        ):
            return
        if part.diverging is not None:
            self._diverged(log, *part.diverging)
        elif part.error == OFFSET_OUT_OF_RANGE:
            self.asks = True
        elif part.error == FENCED_LEADER_EPOCH:
            self.due = NEVER  # The metadata of the newer epoch is on its way.
        elif part.error != NONE:
            self.due = now + BACKOFF_US
        else:
            self._append(log, part, now)

    def offsets(self, epoch: int, error: int, start: int, end: int, now: int) -> None:
        """Use the leader's log start and end after a fetch out of its range."""
        if epoch != self.epoch or not self.asks:
            return
        if error != NONE:
            self.due = now + BACKOFF_US
            return
        self.asks = False
        log = self.log
        if log.end > end:
            self._truncate(end)
        elif log.end < start:
            self._start_at(log, start)
        elif log.start < start:
            self.partition.hw = max(self.partition.hw, start)
            self.partition.delete_up_to(start)

    def _append(self, log: LogView, part: FetchedPart, now: int) -> None:
        partition = self.partition
        ours = partition.with_
        epochs = len(log.epochs.entries), log.epochs.latest
        deleted = 0
        for batch in part.batches:
            if batch.next_offset <= log.end:
                continue
            if batch.base_offset < log.end == log.start:
                # The leader's log start, at which this empty log begins, is inside of the batch.
                deleted = log.start
                self._start_at(log, batch.base_offset)
            wrong_epoch = not log.epochs.latest <= batch.leader_epoch <= self.epoch
            if batch.base_offset != log.end or wrong_epoch:
                detail = {"base": batch.base_offset, "epoch": batch.leader_epoch, "end": log.end}
                ours.effects.append(Note("refused", partition.key, detail))
                self.due = now + BACKOFF_US
                break
            log.append(batch, partition.hw)
            ours.effects.append(Append(partition.key, batch))
        if part.batches:
            partition.grown()
        if epochs != (len(log.epochs.entries), log.epochs.latest):
            ours.effects.append(WriteEpochs(partition.key, tuple(log.epochs.entries)))
        # What is deleted was committed, also if this leader does not know that yet.
        partition.hw = max(partition.hw, min(log.end, max(part.high_watermark, deleted)))
        partition.delete_up_to(max(part.log_start, deleted))

    def _diverged(self, log: LogView, epoch: int, end: int) -> None:
        """Cut the log where its history leaves the leader's; the next fetch may diverge again."""
        own_epoch, own_end = own = log.epochs.end_of(epoch, log.end)
        if own == UNDEFINED:
            self._truncate(min(end, log.end))
        elif own_epoch != epoch:
            self._truncate(min(own_end, log.end))
        else:
            self._truncate(min(own_end, end, log.end))

    def _truncate(self, end: int) -> None:
        partition, log = self.partition, self.log
        ours = partition.with_
        ours.effects.append(Note("truncate", partition.key, {"from": log.end, "to": end}))
        if end < log.start:
            self._start_at(log, end)
            return
        ours.effects.append(Truncate(partition.key, end))
        if log.truncate(end):
            partition.durability.cut(log.end)
            ours.effects.append(WriteEpochs(partition.key, tuple(log.epochs.entries)))
            partition.hw = min(partition.hw, log.end)
        else:
            partition.hw = min(partition.hw, end)
            partition.open()

    def _start_at(self, log: LogView, offset: int) -> None:
        partition = self.partition
        log.start_at(offset)
        partition.durability.emptied(offset)
        partition.hw = offset
        partition.with_.effects.append(StartAt(partition.key, offset))
