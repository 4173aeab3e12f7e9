"""All replicas of a broker: the data plane as one pure state machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kraftwreck.nodes.log.batch import NO_TIMESTAMP
from kraftwreck.nodes.protocol.errors import NONE, UNKNOWN_TOPIC_OR_PARTITION
from kraftwreck.nodes.replication.effects import (
    AlterPartition,
    Effect,
    OffsetPart,
    Proposal,
    RemoveLog,
    ReplyEpochEnds,
    ReplyFetch,
    ReplyListOffsets,
    WriteHighWatermarks,
)
from kraftwreck.nodes.replication.events import (
    AlterPartitionAnswered,
    AppendFailed,
    Assignment,
    DeleteRecordsReceived,
    EpochEndsReceived,
    Event,
    FetchAnswered,
    FetchReceived,
    ListOffsetsReceived,
    LogFlushed,
    LogOpened,
    OffsetsAnswered,
    ProduceReceived,
    Published,
    SegmentClosed,
    Settings,
    Tick,
    Together,
)
from kraftwreck.nodes.replication.fetchers import Fetchers
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition, Surroundings
from kraftwreck.nodes.replication.requests import Deleting, Fetching, Opening, Producing
from kraftwreck.nodes.replication.sessions import Sessions
from kraftwreck.nodes.replication.waiting import NEVER, Parked, Waiting

LAG_US: Final = 30_000_000
"""``replica.lag.time.max.ms``."""
CHECKPOINT_US: Final = 5_000_000
"""``replica.high.watermark.checkpoint.interval.ms``."""
RETENTION_US: Final = 300_000_000
"""``log.retention.check.interval.ms``."""
OPENING_US: Final = 10_000_000
"""How long requests without a time-out of their own wait until a log is open."""
RETRY_US: Final = 50_000
"""Time before an ISR is proposed again."""


class Replicas:
    """The data plane of broker ``node_id``; times are monotonic µs, ``wall_ms`` wall-clock ms.

    ``seed`` must differ between processes of the same broker. :meth:`step` takes one event and
    returns the effects for the shell, in their order.
    """

    def __init__(
        self,
        node_id: int,
        seed: int,
        now: int,
        lag_us: int = LAG_US,
        retention_us: int = RETENTION_US,
    ) -> None:
        self.partitions: dict[PartitionKey, Partition] = {}
        self._with = Surroundings(node_id, lag_us, now)
        self._fetchers = Fetchers(self._with)
        self.sessions = Sessions(seed)
        self._waiting = Waiting()
        self._settings: dict[PartitionKey, Settings] = {}
        self._correlations = 0
        self._in_flight: dict[PartitionKey, Proposal] = {}
        self._propose_at = now
        self._shrink_at = now + lag_us // 2
        self._checkpoint_at = now + CHECKPOINT_US
        self._retention_us = retention_us
        self.retain_at = now + retention_us

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, µs."""
        propose = self._propose_at if self._with.proposed and not self._in_flight else NEVER
        return min(
            propose, self._shrink_at, self._checkpoint_at, self.retain_at,
            self._waiting.deadline, self._fetchers.deadline, self._with.flush_times.deadline,
            self._with.pace_times.deadline,
        )  # fmt: skip

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle one event completely. Raises TypeError for what is no event."""
        self._with.now = now
        if isinstance(event, Together):
            for request in event.requests:
                self._handle(request, now, wall_ms)
        else:
            self._handle(event, now, wall_ms)
        return self._settle(now)

    def watermarks(self) -> WriteHighWatermarks:
        """Return the checkpoint of all high watermarks as they are now."""
        found = {}
        for key, each in self.partitions.items():
            if each.log is not None:
                found[key] = each.checkpointed = each.hw
        return WriteHighWatermarks(found)

    # --- inside -----------------------------------------------------------------------------

    def _handle(self, event: Event, now: int, wall_ms: int) -> None:
        match event:
            case Tick():
                self._tick(now, wall_ms)
            case ProduceReceived():
                self._begin(Producing(event, self.partitions, self._with.effects, now))
            case FetchReceived():
                self._fetch(event, now)
            case FetchAnswered():
                self._fetchers.fetched(event)
            case Published():
                self._publish(event)
            case LogOpened():
                partition = self.partitions.get(event.key)
                if partition is not None and partition.log is None:
                    partition.opened(event)
                    self._fetchers.follow(partition)
            case SegmentClosed():
                partition = self.partitions.get(event.key)
                if partition is not None and partition.log is not None:
                    partition.log.segments.append(_dated(event, wall_ms))
            case AppendFailed():
                partition = self.partitions.get(event.key)
                if partition is not None and partition.log is not None:
                    partition.append_failed(partition.log, event.end_offset)
                    self._fetchers.delay(event.key)
            case LogFlushed():
                partition = self.partitions.get(event.key)
                if partition is not None:
                    partition.flushed(event)
                    self._fetchers.flushed(event.key)
            case AlterPartitionAnswered():
                self._altered(event, now)
            case OffsetsAnswered():
                self._fetchers.offsets(event)
            case ListOffsetsReceived():
                keys = tuple(part[0] for part in event.parts)
                self._when_open(keys, now + OPENING_US, partial(self._list_offsets, event))
            case EpochEndsReceived():
                keys = tuple(part[0] for part in event.parts)
                self._when_open(keys, now + OPENING_US, partial(self._epoch_ends, event))
            case DeleteRecordsReceived():
                keys = tuple(part[0] for part in event.parts)
                deadline = now + event.timeout_ms * 1000
                self._when_open(keys, deadline, partial(self._delete, event, now))
            case _:
                raise TypeError(f"unknown event {event!r}")

    def _settle(self, now: int) -> list[Effect]:
        """Wake what waits for the partitions that changed, and send what is due."""
        ours = self._with
        while ours.changed:
            changed, ours.changed = ours.changed, set()
            for key in sorted(changed):
                self._waiting.progressed(key)
        self._fetchers.tick()
        if ours.proposed and not self._in_flight and self._propose_at <= now:
            self._propose()
        effects = ours.effects[:]
        ours.effects.clear()  # Parked requests hold on to this list.
        return effects

    def _begin(self, parked: Parked) -> None:
        if not parked.attempt(late=False):
            self._waiting.add(parked)

    def _when_open(
        self, keys: tuple[PartitionKey, ...], deadline: int, carry_out: Callable[[], None]
    ) -> None:
        """Carry out a request once no log that it needs is still being opened."""
        self._begin(Opening(keys, self.partitions, deadline, carry_out))

    def _delete(self, event: DeleteRecordsReceived, now: int) -> None:
        self._begin(Deleting(event, self.partitions, self._with.effects, now))

    def _fetch(self, event: FetchReceived, now: int) -> None:
        error, session, parts = self.sessions.resolve(event)
        if error != NONE:
            self._with.effects.append(ReplyFetch(event.token, error, 0, event.max_bytes, ()))
            return
        effects = self._with.effects
        self._begin(Fetching(event, session, parts, self.partitions, effects, now))

    def _list_offsets(self, event: ListOffsetsReceived) -> None:
        parts = []
        for key, timestamp, epoch in event.parts:
            partition = self.partitions.get(key)
            if partition is None:
                parts.append(OffsetPart(key, UNKNOWN_TOPIC_OR_PARTITION))
            else:
                parts.append(partition.offset_at(timestamp, epoch, event.replica_id))
        self._with.effects.append(ReplyListOffsets(event.token, tuple(parts)))

    def _epoch_ends(self, event: EpochEndsReceived) -> None:
        parts = []
        for key, current, epoch in event.parts:
            partition = self.partitions.get(key)
            if partition is None:
                parts.append((key, UNKNOWN_TOPIC_OR_PARTITION, -1, -1))
            else:
                parts.append(partition.epoch_end(current, epoch))
        self._with.effects.append(ReplyEpochEnds(event.token, tuple(parts)))

    # --- metadata ---------------------------------------------------------------------------

    def _publish(self, event: Published) -> None:
        ours = self._with
        for key in event.deleted:
            self._remove(key)
        if event.peers is not None:
            ours.peers = event.peers
        for key, settings in (event.settings or {}).items():
            self._settings[key] = settings
            if key in self.partitions:
                self.partitions[key].configured(settings)
                # With other limits nothing may be left to flush.
                self._fetchers.flushed(key)
        assigned = event.assigned or {}
        leads = [key for key, each in assigned.items() if each.leader == ours.own]
        follows = [key for key, each in assigned.items() if each.leader != ours.own]
        for key in leads + follows:
            self._assign(key, assigned[key])
        if event.peers is not None or event.settings:
            for partition in self.partitions.values():
                partition.advance()
        if event.peers is not None:
            # A deletion may have waited only for a broker that is gone.
            ours.changed.update(self._waiting.keys())

    def _assign(self, key: PartitionKey, assignment: Assignment) -> None:
        partition = self.partitions.get(key)
        if partition is None:
            settings = self._settings.get(key, Settings())
            partition = self.partitions[key] = Partition(key, settings, self._with)
            partition.open()
        partition.assigned(assignment)
        self._fetchers.follow(partition)

    def _remove(self, key: PartitionKey) -> None:
        self._settings.pop(key, None)
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.leading = False
            self._fetchers.forget(key)
            self._with.proposed.discard(key)
            self._with.effects.append(RemoveLog(key))
            self._with.changed.add(key)

    # --- ISRs -------------------------------------------------------------------------------

    def _propose(self) -> None:
        ours = self._with
        for key in sorted(ours.proposed):
            partition = self.partitions.get(key)
            pending = partition.in_sync.pending if partition is not None else None
            if pending is not None:
                self._in_flight[key] = pending.proposal
        ours.proposed.clear()
        if self._in_flight:
            self._correlations += 1
            proposals = tuple(self._in_flight.values())
            ours.effects.append(AlterPartition(self._correlations, proposals))

    def _altered(self, event: AlterPartitionAnswered, now: int) -> None:
        if event.correlation != self._correlations or not self._in_flight:
            return
        sent, self._in_flight = self._in_flight, {}
        answers = {part.key: part for part in event.parts or ()}
        for key, proposal in sent.items():
            partition = self.partitions.get(key)
            if partition is not None:
                partition.altered(proposal, answers.get(key))
        if self._with.proposed:
            self._propose_at = now + RETRY_US

    # --- time -------------------------------------------------------------------------------

    def _tick(self, now: int, wall_ms: int) -> None:
        self._waiting.expire(now)
        for key in self._with.flush_times.take(now):
            if key in self.partitions:
                self.partitions[key].durability.timer = NEVER
                self.partitions[key].maybe_flush()
        for key in self._with.pace_times.take(now):
            if key in self.partitions:
                self.partitions[key].quorum.timer = NEVER
                self.partitions[key].keep_pace()
        if now >= self._shrink_at:
            self._shrink_at = now + self._with.lag_us // 2
            for partition in self.partitions.values():
                partition.maybe_shrink()
        if now >= self._checkpoint_at:
            self._checkpoint_at = now + CHECKPOINT_US
            self._with.effects.append(self.watermarks())
        if now >= self.retain_at:
            self.retain_at = now + self._retention_us
            for partition in self.partitions.values():
                partition.retain(wall_ms)


def _dated(closed: SegmentClosed, wall_ms: int) -> SegmentClosed:
    """Return the segment with a time of its records. Without timestamps it is now.

    Apache Kafka takes the time of the file's last change.
    """
    if closed.max_timestamp != NO_TIMESTAMP:
        return closed
    return SegmentClosed(closed.key, closed.base_offset, closed.end_offset, closed.size, wall_ms)
