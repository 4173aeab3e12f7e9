"""One replica of a partition: leader or follower, its log and its high watermark.

Sources: Kafka's Partition and ReplicaManager as KIP-101, 279, 392, 497, 595, 841, 903 and 966 have
left them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    INVALID_RECORD,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    INVALID_UPDATE_VERSION,
    MESSAGE_TOO_LARGE,
    NEW_LEADER_ELECTED,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    OPERATION_NOT_ATTEMPTED,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.replication.effects import (
    Append,
    DeleteUpTo,
    Effect,
    FlushLog,
    Lookup,
    Note,
    OffsetPart,
    OpenLog,
    Proposal,
    ReadPart,
    RollLog,
    ShapeLog,
    Slice,
    WriteEpochs,
)
from kraftwreck.nodes.replication.epoch_cache import UNDEFINED
from kraftwreck.nodes.replication.events import (
    Altered,
    Assignment,
    FetchPart,
    LogFlushed,
    LogOpened,
    Peer,
    Settings,
)
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.in_sync import InSync, Pending
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.producers import SequenceError
from kraftwreck.nodes.replication.quorum_commit import QuorumCommit, least_in_sync
from kraftwreck.nodes.replication.timers import NEVER, Timers

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
TIERED: Final = (-5, -6)
"""The latest tiered offset, and the earliest that waits for its upload: here nothing is tiered."""
CONSUMER: Final = -1

_REVERTED: Final = {INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED}
_LEFT_TO_METADATA: Final = {
    UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID,
    FENCED_LEADER_EPOCH,
    INVALID_UPDATE_VERSION,
    INVALID_REQUEST,
    NEW_LEADER_ELECTED,
}


@dataclass(slots=True)
class Surroundings:
    """The state that all partitions of a broker share.

    ``lag_us`` is ``replica.lag.time.max.ms`` in µs.
    """

    own: int
    lag_us: int
    now: int = 0
    peers: Mapping[int, Peer] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    changed: set[PartitionKey] = field(default_factory=set)
    """Partitions whose parked requests may be complete."""
    proposed: set[PartitionKey] = field(default_factory=set)
    """Partitions with a proposal to send."""
    flush_times: Timers = field(default_factory=Timers)
    pace_times: Timers = field(default_factory=Timers)
    """When a member of an ISR will be late, in topics with ``commit.mode=quorum``."""


class Appended(NamedTuple):
    """The result of an append: on errors ``base_offset`` is -1. ``end`` is what acks=all awaits."""

    error: int
    base_offset: int = -1
    end: int = -1


def _shape_of(settings: Settings) -> tuple[int | None, int | None, int | None]:
    return settings.segment_bytes, settings.segment_ms, settings.index_interval_bytes


class Partition:
    """A replica. ``hw`` is its high watermark, ``checkpointed`` that of the checkpoint.

    ``log`` is None until the shell has opened it.
    """

    __slots__ = ("assignment", "checkpointed", "durability", "epoch_start", "hw", "in_sync", "key",
                 "leading", "log", "quorum", "recovering", "settings", "with_")  # fmt: skip

    def __init__(self, key: PartitionKey, settings: Settings, with_: Surroundings) -> None:
        self.key = key
        self.settings = settings
        self.with_ = with_
        self.assignment = Assignment((), (), -1, -1, -1)
        self.log: LogView | None = None
        self.durability = Durability(0)
        self.hw = self.checkpointed = 0
        self.leading = False
        self.epoch_start = 0
        self.recovering = False
        self.in_sync = InSync()
        self.quorum = QuorumCommit()

    @property
    def is_opening(self) -> bool:
        """Whether this broker is to lead, as soon as the log is open."""
        return self.log is None and self.assignment.leader == self.with_.own

    @property
    def min_insync(self) -> int:
        """The size below which an ISR acknowledges nothing."""
        at, settings = self.assignment, self.settings
        replicas, adding = len(at.replicas), len(at.adding)
        return least_in_sync(replicas, adding, settings.min_insync, quorum=settings.quorum)

    @property
    def vouched(self) -> int:
        """The offset below which this replica may acknowledge, and from which it may fetch.

        It is the end of a batch: no high watermark lies inside of one.
        """
        if self.log is None:
            return 0
        end = self.log.end
        vouched = self.durability.vouched(end, self.settings)
        return end if vouched >= end else self.log.whole_batches(self.durability.end, vouched)

    # --- roles ------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask for the log; requests wait until it is there if this broker is to lead."""
        self.log = None
        self.leading = False
        self.with_.effects.append(OpenLog(self.key))

    def opened(self, event: LogOpened) -> None:
        """Take the log in, and the role that the metadata has given meanwhile."""
        self.log = LogView(event)
        self.durability = Durability(min(event.durable_end, event.end_offset))
        self.durability.appended(self.with_.now)
        self.checkpointed = event.high_watermark
        self._shape(Settings())
        self.hw = max(min(max(self.hw, event.high_watermark), self.log.end), self.log.start)
        wanted, self.assignment = self.assignment, Assignment((), (), -1, -1, -1)
        self.assigned(wanted)
        self.maybe_flush()

    def configured(self, settings: Settings) -> None:
        """Take the configs of the topic, which have changed."""
        before, self.settings = self.settings, settings
        if self.log is not None:
            self._shape(before)
            self.maybe_flush()
            self.with_.changed.add(self.key)

    def _shape(self, before: Settings) -> None:
        if _shape_of(before) != _shape_of(self.settings):
            self.with_.effects.append(ShapeLog(self.key, *_shape_of(self.settings)))

    def assigned(self, new: Assignment) -> None:
        """Become leader or follower as the metadata says; older metadata is ignored."""
        old = self.assignment
        if new.partition_epoch < old.partition_epoch or new.leader_epoch < old.leader_epoch:
            return
        self.assignment = new
        self.with_.changed.add(self.key)
        if self.log is None:
            return
        if new.leader == self.with_.own:
            self._lead(self.log, old, new)
        else:
            if self.leading or old.leader_epoch != new.leader_epoch:
                self._note("role", {"leader": new.leader, "epoch": new.leader_epoch})
            self.leading = False
            self.in_sync = InSync()

    def _lead(self, log: LogView, old: Assignment, new: Assignment) -> None:
        ours, now, in_sync = self.with_, self.with_.now, self.in_sync
        # In a gap of epochs another broker may have led, and the replicas may have cut their logs.
        led = self.leading and new.leader_epoch <= old.leader_epoch + 1
        if not led:
            self.quorum.led_anew()
        if not led or new.partition_epoch > old.partition_epoch:
            in_sync.isr, in_sync.pending = new.isr, None
            self.recovering = new.recovering
        if not led or new.leader_epoch > old.leader_epoch:
            self.leading = True
            self.epoch_start = log.end
            if log.epochs.assign(new.leader_epoch, log.end):
                self._write_epochs(log)
            in_sync.led_anew(new.replicas, ours.own, now, ours.lag_us, keep=led)
            detail = {"leader": ours.own, "epoch": new.leader_epoch, "start": log.end}
            self._note("role", detail)
        elif new.replicas != old.replicas:
            in_sync.reassigned(new.replicas, ours.own, now, ours.lag_us)
        if self.recovering and in_sync.pending is None:
            self._propose(in_sync.isr)
        self.advance()

    # --- as a leader: appends -----------------------------------------------------------------

    def append(self, batch: Batch, acks: int) -> Appended:
        """Append a producer's batch, or find the earlier append that it repeats."""
        log = self.log
        if not self.leading or log is None:
            return Appended(NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and len(self.in_sync.isr) < self.min_insync:
            return Appended(NOT_ENOUGH_REPLICAS)
        if batch.is_control or batch.count < 1 or batch.count != batch.last_offset_delta + 1:
            return Appended(INVALID_RECORD)
        if batch.is_transactional:
            return Appended(INVALID_TXN_STATE)
        if batch.size > self.settings.max_batch_bytes:
            return Appended(MESSAGE_TOO_LARGE)
        if batch.is_idempotent:
            try:
                kept = log.producers.check(batch)
            except SequenceError as refused:
                return Appended(refused.error)
            if kept is not None:
                return Appended(NONE, kept.base_offset, kept.last_offset + 1)
        placed = batch.placed(log.end, self.assignment.leader_epoch)
        self._take(log, placed)
        self.advance()
        return Appended(NONE, placed.base_offset, placed.next_offset)

    def _take(self, log: LogView, batch: Batch) -> None:
        new_epoch = log.append(batch, self.hw)
        self.with_.effects.append(Append(self.key, batch))
        self.with_.changed.add(self.key)
        if new_epoch:
            self._write_epochs(log)
        self.grown()

    def append_failed(self, log: LogView, end_offset: int) -> None:
        """Take back the batches from ``end_offset`` on, which are not on the disk.

        Nobody has seen them, nor a high watermark above ``end_offset``. The log begins no later
        than there, also if some of them were deleted in the step that appended them.
        """
        log.start = min(log.start, end_offset)
        log.truncate(end_offset, written=False)
        if self.leading:
            # Its epoch begins here also without a record; the file says so already.
            log.epochs.assign(self.assignment.leader_epoch, log.end)
        self.hw = min(self.hw, log.end)
        self.with_.changed.add(self.key)

    # --- what is on the disk ------------------------------------------------------------------

    def grown(self) -> None:
        """Note that batches were appended."""
        self.durability.appended(self.with_.now)
        self.maybe_flush()

    def maybe_flush(self) -> None:
        """Ask for a flush if one is due, else look again when it will be."""
        log, ours = self.log, self.with_
        if log is None:
            return
        due = self.durability.due(log.end, self.settings)
        if due <= ours.now:
            ours.effects.append(FlushLog(self.key, self.durability.ask(log.end, ours.now)))
        elif due < NEVER:
            ours.flush_times.add(self.key, self.durability, due)

    def flushed(self, event: LogFlushed) -> None:
        """Take in how far the log is durable, and acknowledge what has waited for that."""
        log, ours = self.log, self.with_
        if log is None:
            return
        self.durability.answered(event, log.end, ours.now)
        self.maybe_flush()
        self.advance()
        ours.changed.add(self.key)

    # --- as a leader: the high watermark -----------------------------------------------------

    def advance(self) -> None:
        """Raise the high watermark as far as the replicas allow."""
        log, in_sync, ours = self.log, self.in_sync, self.with_
        if log is None or not self.leading or len(in_sync.isr) < self.min_insync:
            return
        maximal = in_sync.maximal
        reached = self.vouched
        for broker, remote in in_sync.remotes.items():
            if remote.end < reached and (
                broker in maximal
                or (
                    not self.settings.quorum
                    and remote.is_caught_up(log.end, ours.now, ours.lag_us)
                    and remote.is_eligible(ours.peers.get(broker))
                )
            ):
                reached = remote.end
        if reached > self.hw:
            self.hw = reached
            ours.changed.add(self.key)
        self.keep_pace()

    def keep_pace(self) -> None:
        """With ``commit.mode=quorum``: propose to remove members that a majority left behind."""
        in_sync, ours = self.in_sync, self.with_
        if not self.settings.quorum or not self.leading:
            return
        due = self.quorum.observe(in_sync, self.vouched, self.min_insync, ours.now)
        if in_sync.pending is not None:
            return  # The answer leads here again.
        left = self.quorum.without_late(in_sync, ours.now)
        if left != in_sync.isr:
            self._propose(left)
        elif due < NEVER:
            ours.pace_times.add(self.key, self.quorum, due)

    # --- as a leader: the ISR -----------------------------------------------------------------

    def maybe_expand(self, broker: int) -> None:
        """Propose a replica that has the committed records and the start of this epoch."""
        in_sync, remote = self.in_sync, self.in_sync.remotes[broker]
        if (
            in_sync.pending is None
            and broker not in in_sync.isr
            and remote.end >= self.hw
            and remote.end >= self.epoch_start
            and remote.is_eligible(self.with_.peers.get(broker))
            and (
                not self.settings.quorum
                or self.quorum.may_return(broker, in_sync, self.min_insync, self.with_.now)
            )
        ):
            self._propose((*in_sync.isr, broker))

    def maybe_shrink(self) -> None:
        """Propose to remove the members that have lagged behind too long."""
        in_sync, log, ours = self.in_sync, self.log, self.with_
        if log is None or not self.leading:
            return
        if in_sync.pending is not None:
            self.advance()  # A replica outside of the ISR may have ceased to hold it back.
            return
        if self.recovering:
            self._propose(in_sync.isr)
            return
        left = tuple(
            each
            for each in in_sync.isr
            if each == ours.own
            or (
                (each in in_sync.remotes)
                and in_sync.remotes[each].is_caught_up(log.end, ours.now, ours.lag_us)
            )
        )
        if left != in_sync.isr:
            self._propose(left)
        self.advance()  # A replica outside of the ISR may have ceased to hold it back.

    def _propose(self, isr: tuple[int, ...]) -> None:
        in_sync, now = self.in_sync, self.assignment
        members = in_sync.members(isr, self.with_.own, self.with_.peers)
        proposal = Proposal(self.key, now.leader_epoch, now.partition_epoch, members)
        in_sync.pending = Pending(proposal, frozenset(in_sync.isr) | frozenset(isr))
        self.with_.proposed.add(self.key)

    def altered(self, proposal: Proposal, answer: Altered | None) -> None:
        """Take in the controller's answer to ``proposal``; None: it may or may not be made."""
        pending = self.in_sync.pending
        if not self.leading or pending is None or pending.proposal is not proposal:
            return
        if answer is None:
            self.with_.proposed.add(self.key)
        elif answer.error in _REVERTED:
            self.in_sync.pending = None
            self.advance()
        elif answer.error == NONE:
            old = self.assignment
            if answer.leader_epoch != old.leader_epoch:
                return
            if answer.partition_epoch < old.partition_epoch:
                return
            self.assignment = replace(
                old,
                isr=answer.isr,
                partition_epoch=answer.partition_epoch,
                recovering=answer.recovering,
            )
            self.in_sync.isr, self.in_sync.pending = answer.isr, None
            self.recovering = answer.recovering
            self._note("isr", {"isr": list(answer.isr), "partition_epoch": answer.partition_epoch})
            self.with_.changed.add(self.key)
            self.advance()
        elif answer.error not in _LEFT_TO_METADATA:
            self.with_.proposed.add(self.key)

    # --- as a leader: reads --------------------------------------------------------------------

    def fault(self, leader_epoch: int) -> int:
        """Return the error of a request that knows ``leader_epoch`` (-1: none), NONE if none."""
        if self.log is None:
            return NOT_LEADER_OR_FOLLOWER
        if leader_epoch >= 0:
            if leader_epoch < self.assignment.leader_epoch:
                return FENCED_LEADER_EPOCH
            if leader_epoch > self.assignment.leader_epoch:
                return UNKNOWN_LEADER_EPOCH
        return NONE if self.leading else NOT_LEADER_OR_FOLLOWER

    def read(self, part: FetchPart, replica_id: int, broker_epoch: int) -> ReadPart:
        """Return the answer to a fetch: a consumer reads to the high watermark, a follower all."""
        log = self.log
        error = self.fault(part.leader_epoch)
        if error == NONE and replica_id != CONSUMER:
            error = self._follower_fault(part, replica_id, broker_epoch)
        if error != NONE or log is None:
            now = self.assignment
            return ReadPart(self.key, error, leader=now.leader, leader_epoch=now.leader_epoch)
        if part.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_of(part.last_fetched_epoch, log.end)
            if (epoch, end) == UNDEFINED or part.offset < log.start:
                return ReadPart(self.key, OFFSET_OUT_OF_RANGE)
            if epoch < part.last_fetched_epoch or end < part.offset:
                return ReadPart(self.key, NONE, self.hw, log.start, diverging=(epoch, end))
        if not log.start <= part.offset <= log.end:
            return ReadPart(self.key, OFFSET_OUT_OF_RANGE)
        limit = self.hw if replica_id == CONSUMER else log.end
        records = None
        if part.offset < limit:
            records = Slice(part.offset, limit, part.max_bytes)
        return ReadPart(self.key, NONE, self.hw, log.start, records)

    def _follower_fault(self, part: FetchPart, replica_id: int, broker_epoch: int) -> int:
        if replica_id not in self.in_sync.remotes:
            return UNKNOWN_LEADER_EPOCH if part.leader_epoch >= 0 else NOT_LEADER_OR_FOLLOWER
        peer = self.with_.peers.get(replica_id)
        if peer is not None and 0 <= broker_epoch < peer.epoch:
            return NOT_LEADER_OR_FOLLOWER
        return NONE

    def fetched(self, part: FetchPart, replica_id: int, broker_epoch: int) -> None:
        """Note a follower's fetch that :meth:`read` has answered without error or divergence."""
        log, now = self.log, self.with_.now
        assert log is not None
        remote = self.in_sync.remotes[replica_id]
        before = (remote.end, remote.start)
        remote.fetched(part.offset, part.log_start, broker_epoch, log.end, now)
        self.keep_pace()
        self.maybe_expand(replica_id)
        if before != (remote.end, remote.start):
            self.advance()
            self.with_.changed.add(self.key)

    def offset_at(self, timestamp: int, leader_epoch: int, replica_id: int) -> OffsetPart:
        """Return an offset of ListOffsets. Nothing is said of an end that is not known yet."""
        log, error = self.log, self.fault(leader_epoch)
        if error != NONE or log is None:
            return OffsetPart(self.key, error)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return OffsetPart(self.key, NONE, log.start, log.epochs.at(log.start))
        if timestamp in TIERED:
            return OffsetPart(self.key, NONE)
        if replica_id == CONSUMER and self.hw < self.epoch_start:
            return OffsetPart(self.key, OFFSET_NOT_AVAILABLE)
        epoch = self.assignment.leader_epoch
        if timestamp == LATEST:
            end = self.hw if replica_id == CONSUMER else log.end
            return OffsetPart(self.key, NONE, end, epoch)
        return OffsetPart(self.key, NONE, lookup=Lookup(timestamp, log.start, self.hw))

    def epoch_end(self, leader_epoch: int, epoch: int) -> tuple[PartitionKey, int, int, int]:
        """Return (partition, error, epoch, end offset) of OffsetForLeaderEpoch."""
        error = self.fault(leader_epoch)
        if error != NONE or self.log is None:
            return self.key, error, -1, -1
        return self.key, NONE, *self.log.epochs.end_of(epoch, self.log.end)

    # --- deletion -----------------------------------------------------------------------------

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Raise the log start as a client asks; return (error, offset)."""
        if self.log is None or not self.leading:
            return NOT_LEADER_OR_FOLLOWER, -1
        wanted = self.hw if offset == -1 else offset
        if not 0 <= wanted <= self.hw:
            return OFFSET_OUT_OF_RANGE, -1
        self.delete_up_to(wanted)
        return NONE, wanted

    def delete_up_to(self, offset: int) -> None:
        """Raise the log start, never above the high watermark."""
        log, offset = self.log, min(offset, self.hw)
        if log is not None and offset > log.start:
            log.delete_up_to(offset)
            self.with_.effects.append(DeleteUpTo(self.key, offset))
            self.with_.changed.add(self.key)

    def retain(self, wall_ms: int) -> None:
        """Delete closed segments that are too old or too many; followers follow the leader.

        A segment that is written is closed once all of it is too old, so that the next call of a
        leader deletes it.
        """
        log, age_ms = self.log, self.settings.retention_ms
        if log is None:
            return
        if self.leading:
            self.delete_up_to(log.retained_from(self.settings, self.hw, wall_ms))
        if log.has_garbage:
            log.delete_up_to(log.start)
            self.with_.effects.append(DeleteUpTo(self.key, log.start))
        if age_ms >= 0 and log.may_be_older(wall_ms - age_ms):
            self.with_.effects.append(RollLog(self.key, wall_ms - age_ms))

    @property
    def low_watermark(self) -> int:
        """The smallest log start of all replicas that are alive."""
        starts = [self.log.start] if self.log is not None else []
        for broker, remote in self.in_sync.remotes.items():
            peer = self.with_.peers.get(broker)
            if peer is not None and peer.eligible:
                starts.append(remote.start)
        return min(starts, default=-1)

    # --- inside -----------------------------------------------------------------------------

    def _write_epochs(self, log: LogView) -> None:
        self.with_.effects.append(WriteEpochs(self.key, tuple(log.epochs.entries)))

    def _note(self, kind: str, detail: Mapping[str, object]) -> None:
        self.with_.effects.append(Note(kind, self.key, dict(detail)))
