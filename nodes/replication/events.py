"""Events into the data plane of a broker: plain data without behaviour.

The shell calls ``step(event, now, wall_ms)`` and carries out the effects in order
(``nodes.replication.effects``). ``token`` identifies a request in its answer, ``correlation`` a
request of this broker. Error codes are those of ``nodes.protocol.errors``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard, get_args

from kraftwreck.nodes.replication.headers import Batch, PartitionKey

UNLIMITED: Final = (1 << 63) - 1
"""The value of a config that limits nothing."""

# --- from the metadata image ------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Assignment:
    """A partition as the metadata says: its roles, ISR and epochs. ``recovering``: the leader was
    elected uncleanly and has not recovered yet. ``adding`` are the new replicas of a reassignment.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovering: bool = False
    adding: tuple[int, ...] = ()


@dataclass(slots=True, frozen=True)
class Settings:
    """The configs of a topic that matter here. -1: no limit; None: the broker's own property.

    ``min_insync`` is a number of replicas, ``flush_messages`` one of records, ``*_ms`` are
    milliseconds, the others bytes. ``flush_*`` are UNLIMITED if the page cache is to decide. With
    ``quorum`` a majority of the replicas commits (``commit.mode=quorum``).
    """

    min_insync: int = 1
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_batch_bytes: int = 1_048_588
    segment_bytes: int | None = None
    segment_ms: int | None = None
    index_interval_bytes: int | None = None
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    quorum: bool = False


@dataclass(slots=True, frozen=True)
class Peer:
    """A registered broker: its epoch, and whether it may be in an ISR."""

    epoch: int
    eligible: bool


@dataclass(slots=True)
class Published:
    """The image has changed. Deleted partitions first; then new leaders, then followers.

    ``peers`` holds all brokers, None if none of them changed. ``assigned`` and ``settings`` hold
    the changed partitions of this broker only.
    """

    deleted: tuple[PartitionKey, ...] = ()
    assigned: Mapping[PartitionKey, Assignment] | None = None
    settings: Mapping[PartitionKey, Settings] | None = None
    peers: Mapping[int, Peer] | None = None


# --- from the disk ----------------------------------------------------------------------


@dataclass(slots=True)
class LogOpened:
    """The answer to OpenLog: the state of a partition's log, recovered from its files.

    ``epochs`` are (epoch, start offset), ascending. ``producers`` are the headers that rebuild the
    state of producers: for each one its last five batches, in the order of the log; a snapshot of
    the same is equivalent. ``high_watermark`` is that of the checkpoint, 0 if there is none. All
    below ``durable_end`` is on the disk. ``size`` is the number of bytes of its segments.
    """

    key: PartitionKey
    start_offset: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    producers: tuple[Batch, ...]
    high_watermark: int
    durable_end: int = 0
    size: int = 0


@dataclass(slots=True)
class SegmentClosed:
    """The log has a new active segment; the one from ``base_offset`` up to ``end_offset`` is full.

    Only closed segments are deleted by retention. ``max_timestamp`` is milliseconds,
    ``NO_TIMESTAMP`` if no batch has one.
    """

    key: PartitionKey
    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int


@dataclass(slots=True)
class AppendFailed:
    """An Append was not carried out, as the disk is full: the log still ends at ``end_offset``.

    It follows the step of the Append at once. Answers of that step that say otherwise were not
    given; the shell gave KAFKA_STORAGE_ERROR.
    """

    key: PartitionKey
    end_offset: int


@dataclass(slots=True)
class LogFlushed:
    """The answer to FlushLog ``number``; 0 if nobody asked: all below ``end_offset`` is on disk.

    That may be less than the log had when it was asked: the disk had no room. ``cuts`` is how often
    Truncate and StartAt had shortened the log since it was opened.
    """

    key: PartitionKey
    number: int
    cuts: int
    end_offset: int


# --- requests of clients and of followers -----------------------------------------------


@dataclass(slots=True)
class ProduceReceived:
    """Append one batch to each of several partitions. ``acks`` is 0, 1 or -1."""

    token: int
    acks: int
    timeout_ms: int
    batches: tuple[tuple[PartitionKey, Batch], ...]


@dataclass(slots=True)
class FetchPart:
    """One partition of a Fetch; epochs are -1 if the requester does not know them."""

    key: PartitionKey
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start: int = -1


@dataclass(slots=True)
class FetchReceived:
    """Read partitions. ``replica_id`` -1 is a consumer, else a broker with ``broker_epoch``.

    ``session_id`` and ``session_epoch`` are those of KIP-227: epoch -1 has no session, 0 asks for a
    new one, and any other continues one with changes (``parts``, ``forgotten``).
    """

    token: int
    parts: tuple[FetchPart, ...]
    replica_id: int = -1
    broker_epoch: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 1 << 31
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[PartitionKey, ...] = ()


@dataclass(slots=True)
class ListOffsetsReceived:
    """Find offsets: ``parts`` are (partition, timestamp in ms, current leader epoch or -1).

    Timestamps -1, -2 and -3 are the latest and the earliest offset, and that of the largest
    timestamp; -4 to -6 are those of tiered storage (KIP-405, KIP-1005, KIP-1023). ``replica_id`` is
    -1 for clients, else a broker.
    """

    token: int
    parts: tuple[tuple[PartitionKey, int, int], ...]
    replica_id: int = -1


@dataclass(slots=True)
class EpochEndsReceived:
    """OffsetForLeaderEpoch: ``parts`` are (partition, current leader epoch or -1, epoch)."""

    token: int
    parts: tuple[tuple[PartitionKey, int, int], ...]


@dataclass(slots=True)
class DeleteRecordsReceived:
    """Delete the records below an offset of each partition; -1 is the high watermark."""

    token: int
    timeout_ms: int
    parts: tuple[tuple[PartitionKey, int], ...]


# --- answers to this broker -------------------------------------------------------------


@dataclass(slots=True)
class FetchedPart:
    """One partition of a leader's answer. ``diverging`` is (epoch, end offset), None if none.

    ``batches`` are whole and verified: the shell has checked their checksums.
    """

    key: PartitionKey
    error: int
    high_watermark: int
    log_start: int
    batches: tuple[Batch, ...] = ()
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class FetchAnswered:
    """The answer to FetchFrom; ``parts`` None means that the request failed."""

    correlation: int
    parts: tuple[FetchedPart, ...] | None


@dataclass(slots=True)
class OffsetsAnswered:
    """The answer to AskOffsets: (partition, error, log start, log end); None: it failed."""

    correlation: int
    parts: tuple[tuple[PartitionKey, int, int, int], ...] | None


@dataclass(slots=True)
class Altered:
    """The controller's answer for one partition of AlterPartition."""

    key: PartitionKey
    error: int
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    recovering: bool = False


@dataclass(slots=True)
class AlterPartitionAnswered:
    """The answer to AlterPartition; ``parts`` None: it failed, or the request as a whole did."""

    correlation: int
    parts: tuple[Altered, ...] | None


@dataclass(slots=True)
class Tick:
    """The deadline of the core has passed; an early tick is harmless."""


Request = (
    ProduceReceived
    | FetchReceived
    | ListOffsetsReceived
    | EpochEndsReceived
    | DeleteRecordsReceived
)
"""The requests of clients and followers."""


@dataclass(slots=True)
class Together:
    """Requests that arrived at the same time; one step handles all of them, in order.

    Requests that wait for a partition are attempted once, after the last of these.
    """

    requests: tuple[Request, ...]


FromShell = (
    LogOpened
    | SegmentClosed
    | AppendFailed
    | LogFlushed
    | FetchAnswered
    | OffsetsAnswered
    | Request
    | Together
)
"""The events of the shell; all others come from the broker itself."""
_FROM_SHELL: Final = frozenset(get_args(FromShell))

Event = Tick | Published | AlterPartitionAnswered | FromShell


def is_from_shell(event: object) -> TypeGuard[FromShell]:
    """Return whether ``event`` is for the data plane, by one look-up of its type."""
    return type(event) in _FROM_SHELL
