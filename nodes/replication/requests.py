"""Requests of clients and followers that may have to wait.

A broker is named as the leader of a new partition before it has opened the log. Requests of clients
that arrive meanwhile wait for the log, but not longer than they allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUIRED_ACKS,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from kraftwreck.nodes.replication.effects import (
    Effect,
    ProducedPart,
    ReadPart,
    ReplyDeleteRecords,
    ReplyFetch,
    ReplyProduce,
    Silent,
)
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    FetchPart,
    FetchReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import CONSUMER, Partition
from kraftwreck.nodes.replication.sessions import Session

Partitions = Mapping[PartitionKey, Partition]
_MS: Final = 1000


class Opening:
    """A request to be carried out when the logs of its partitions are open, or at its deadline."""

    def __init__(
        self,
        keys: tuple[PartitionKey, ...],
        partitions: Partitions,
        deadline: int,
        carry_out: Callable[[], None],
    ) -> None:
        self.deadline = deadline
        self._keys = tuple(dict.fromkeys(keys))
        self._partitions, self._carry_out = partitions, carry_out

    def watched(self) -> tuple[PartitionKey, ...]:
        """Return the partitions of the request."""
        return self._keys

    def attempt(self, *, late: bool) -> bool:
        """Carry the request out unless a log is still being opened."""
        if not late and any(_is_opening(self._partitions, key) for key in self._keys):
            return False
        self._carry_out()
        return True


def _is_opening(partitions: Partitions, key: PartitionKey) -> bool:
    partition = partitions.get(key)
    return partition is not None and partition.is_opening


class Producing:
    """A Produce: batches are appended to open logs; acks=all waits for the high watermark."""

    def __init__(
        self, event: ProduceReceived, partitions: Partitions, effects: list[Effect], now: int
    ) -> None:
        self.deadline = now + event.timeout_ms * _MS
        self._token, self._acks = event.token, event.acks
        self._partitions, self._effects = partitions, effects
        self._parts: dict[PartitionKey, ProducedPart] = {}
        self._ends: dict[PartitionKey, int] = {}
        self._keys = tuple(dict.fromkeys(key for key, _ in event.batches))
        self._unopened = event.batches
        """The batches whose logs are still being opened."""

    def _append(self, *, late: bool) -> None:
        """Append the batches whose logs are open, so that requests stay in order by partition."""
        batches, self._unopened = self._unopened, ()
        for key, batch in batches:
            if not late and _is_opening(self._partitions, key):
                self._unopened += ((key, batch),)
            else:
                self._append_one(key, batch)

    def _append_one(self, key: PartitionKey, batch: Batch) -> None:
        partition = self._partitions.get(key)
        if self._acks not in (-1, 0, 1):
            self._parts[key] = ProducedPart(key, INVALID_REQUIRED_ACKS)
        elif partition is None:
            self._parts[key] = ProducedPart(key, UNKNOWN_TOPIC_OR_PARTITION)
        else:
            done = partition.append(batch, self._acks)
            start = partition.log.start if partition.log is not None else -1
            self._parts[key] = ProducedPart(key, done.error, done.base_offset, start)
            if done.error == NONE:
                self._ends[key] = done.end

    def watched(self) -> tuple[PartitionKey, ...]:
        """Return the partitions of the request."""
        return self._keys

    def attempt(self, *, late: bool) -> bool:
        """Answer when each batch is replicated, or never will be by this leader.

        acks=1 waits for this replica only, which may have to flush first.
        """
        if self._unopened:
            self._append(late=late)
        if self._unopened:
            return False
        if self._acks == 0:
            return self._answer()
        for key, end in list(self._ends.items()):
            error = self._outcome(self._partitions.get(key), end)
            if error is None and late:
                error = REQUEST_TIMED_OUT
            if error is not None:
                del self._ends[key]
                if error != NONE:
                    self._parts[key] = ProducedPart(key, error)
        return not self._ends and self._answer()

    def _outcome(self, partition: Partition | None, end: int) -> int | None:
        if partition is None or not partition.leading or partition.log is None:
            return NOT_LEADER_OR_FOLLOWER
        if end > partition.log.end:
            return KAFKA_STORAGE_ERROR
        if self._acks == 1:
            return NONE if partition.vouched >= end else None
        if partition.hw < end:
            return None
        if len(partition.in_sync.maximal) < partition.min_insync:
            return NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return NONE

    def _answer(self) -> bool:
        parts = tuple(self._parts[key] for key in self._keys)
        if self._acks == 0:
            self._effects.append(Silent(self._token, any(part.error for part in parts)))
        else:
            self._effects.append(ReplyProduce(self._token, parts))
        return True


class Fetching:
    """A Fetch that waits for bytes; a follower's also for a new high watermark (KIP-392)."""

    def __init__(
        self,
        event: FetchReceived,
        session: Session | None,
        parts: tuple[FetchPart, ...],
        partitions: Partitions,
        effects: list[Effect],
        now: int,
    ) -> None:
        self.deadline = now + event.max_wait_ms * _MS
        self._event, self._session, self._parts = event, session, parts
        self._partitions, self._effects = partitions, effects
        self._watermarks: dict[PartitionKey, int] = {}
        self._observe()

    def _observe(self) -> None:
        """Note a follower's progress, once per request: a parked one is not a new sign of life."""
        replica = self._event.replica_id
        for part in self._parts:
            partition = self._partitions.get(part.key)
            if partition is None:
                continue
            if replica != CONSUMER:
                self._watermarks[part.key] = partition.hw
                read = partition.read(part, replica, self._event.broker_epoch)
                if read.error == NONE and read.diverging is None:
                    partition.fetched(part, replica, self._event.broker_epoch)

    def watched(self) -> tuple[PartitionKey, ...]:
        """Return the partitions of the request."""
        return tuple(dict.fromkeys(part.key for part in self._parts))

    def attempt(self, *, late: bool) -> bool:
        """Answer if there is enough, or anything that cannot wait."""
        event = self._event
        reads = tuple(map(self._read, self._parts))
        now = late or event.max_wait_ms <= 0 or not reads or event.min_bytes <= 0
        if not now and not self._is_enough(reads):
            return False
        session_id = 0
        if self._session is not None:
            session_id = self._session.session_id
            reads = self._session.news(reads, full=event.session_epoch == 0)
        self._effects.append(ReplyFetch(event.token, NONE, session_id, event.max_bytes, reads))
        return True

    def _read(self, part: FetchPart) -> ReadPart:
        partition = self._partitions.get(part.key)
        if partition is None:
            return ReadPart(part.key, UNKNOWN_TOPIC_OR_PARTITION)
        return partition.read(part, self._event.replica_id, self._event.broker_epoch)

    def _is_enough(self, reads: tuple[ReadPart, ...]) -> bool:
        found = 0
        for read in reads:
            if read.error != NONE or read.diverging is not None:
                if self._waits_for_log(read.key):
                    continue
                return True
            if read.high_watermark > self._watermarks.get(read.key, read.high_watermark):
                return True
            log = self._partitions[read.key].log
            if read.records is not None and log is not None:
                records, cap = read.records, self._event.min_bytes
                found += log.bytes_between(records.offset, records.end_offset, cap)
        return found >= self._event.min_bytes

    def _waits_for_log(self, key: PartitionKey) -> bool:
        """Whether the error may pass. Followers do not wait: they fetch other partitions, too."""
        return self._event.replica_id == CONSUMER and _is_opening(self._partitions, key)


class Deleting:
    """A DeleteRecords that waits until all replicas that are alive have deleted the records."""

    def __init__(
        self, event: DeleteRecordsReceived, partitions: Partitions, effects: list[Effect], now: int
    ) -> None:
        self.deadline = now + event.timeout_ms * _MS
        self._token, self._partitions, self._effects = event.token, partitions, effects
        self._results: dict[PartitionKey, tuple[int, int]] = {}
        self._waits: dict[PartitionKey, int] = {}
        self._keys = tuple(dict.fromkeys(key for key, _ in event.parts))
        for key, offset in event.parts:
            partition = partitions.get(key)
            if partition is None:
                self._results[key] = (UNKNOWN_TOPIC_OR_PARTITION, -1)
                continue
            error, wanted = partition.delete_records(offset)
            self._results[key] = (error, -1)
            if error == NONE:
                self._waits[key] = wanted

    def watched(self) -> tuple[PartitionKey, ...]:
        """Return the partitions of the request."""
        return self._keys

    def attempt(self, *, late: bool) -> bool:
        """Answer with the low watermarks when they have reached the offsets."""
        for key, wanted in list(self._waits.items()):
            partition = self._partitions.get(key)
            if partition is None or not partition.leading:
                self._results[key] = (NOT_LEADER_OR_FOLLOWER, -1)
            elif partition.low_watermark >= wanted:
                self._results[key] = (NONE, partition.low_watermark)
            elif late:
                self._results[key] = (REQUEST_TIMED_OUT, -1)
            else:
                continue
            del self._waits[key]
        if self._waits:
            return False
        parts = tuple((key, *self._results[key]) for key in self._keys)
        self._effects.append(ReplyDeleteRecords(self._token, parts))
        return True
