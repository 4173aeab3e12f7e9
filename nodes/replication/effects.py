"""Effects of the data plane of a broker, carried out by the shell in their order.

Writes to logs of users go to the page cache: a broker that is killed keeps them, a host that loses
power may not. So an answer may follow a write at once, but never precede one of the same step.
Where a topic wants more, the answer waits for FlushLog (``nodes.replication.flushing``).
WriteEpochs alone is durable before the next effect (fsync).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.replication.events import FetchPart
from kraftwreck.nodes.replication.headers import Batch, PartitionKey

# --- the disk ---------------------------------------------------------------------------


@dataclass(slots=True)
class OpenLog:
    """Open or create the log of a partition, recover it, and answer with LogOpened."""

    key: PartitionKey


@dataclass(slots=True)
class ShapeLog:
    """From now on, end segments and write their indexes so; None: as the broker's properties say.

    ``segment_ms`` is milliseconds, the others are bytes.
    """

    key: PartitionKey
    segment_bytes: int | None
    segment_ms: int | None
    index_interval_bytes: int | None


@dataclass(slots=True)
class RemoveLog:
    """Delete the log of a partition that is not this broker's any longer."""

    key: PartitionKey


@dataclass(slots=True)
class Append:
    """Append ``batch`` at the end of the log.

    The shell writes its base offset and leader epoch over those of the producer; the checksum
    covers neither. Batches that a follower fetched carry them already.
    """

    key: PartitionKey
    batch: Batch


@dataclass(slots=True)
class FlushLog:
    """Make all of the log durable, in time; LogFlushed with this ``number`` follows."""

    key: PartitionKey
    number: int


@dataclass(slots=True)
class Truncate:
    """Cut the log so that it ends at ``end_offset``, and its epochs and producers with it."""

    key: PartitionKey
    end_offset: int


@dataclass(slots=True)
class StartAt:
    """Empty the log; its next offset is ``offset``, which is its start, too."""

    key: PartitionKey
    offset: int


@dataclass(slots=True)
class DeleteUpTo:
    """Raise the start of the log to ``start_offset``; whole segments below it are deleted."""

    key: PartitionKey
    start_offset: int


@dataclass(slots=True)
class RollLog:
    """Complete the segment that is written, if none of its batches is as new as ``before_ms``."""

    key: PartitionKey
    before_ms: int


@dataclass(slots=True)
class WriteEpochs:
    """Replace the leader epoch checkpoint, durably: (epoch, start offset), ascending."""

    key: PartitionKey
    entries: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class WriteHighWatermarks:
    """Replace the checkpoint of high watermarks of all partitions; it may lag behind."""

    offsets: dict[PartitionKey, int]


# --- answers ----------------------------------------------------------------------------


@dataclass(slots=True)
class Slice:
    """Whole batches of a log, from the one with ``offset`` on, those that end by ``end_offset``.

    At most ``max_bytes``, but the first batch of the first slice of an answer is sent whole.
    """

    offset: int
    end_offset: int
    max_bytes: int


@dataclass(slots=True)
class ProducedPart:
    """The result of one partition: ``base_offset`` is -1 on errors."""

    key: PartitionKey
    error: int
    base_offset: int = -1
    log_start: int = -1


@dataclass(slots=True)
class ReplyProduce:
    """Answer a Produce with acks 1 or -1."""

    token: int
    parts: tuple[ProducedPart, ...]


@dataclass(slots=True)
class Silent:
    """A Produce with acks 0 is done: nothing is answered; ``close`` ends its connection."""

    token: int
    close: bool


@dataclass(slots=True)
class ReadPart:
    """The result of one partition of a Fetch; offsets are -1 if they are not known.

    ``leader`` and ``leader_epoch`` are the present ones as far as known (KIP-951).
    """

    key: PartitionKey
    error: int
    high_watermark: int = -1
    log_start: int = -1
    records: Slice | None = None
    diverging: tuple[int, int] | None = None
    leader: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class ReplyFetch:
    """Answer a Fetch. Partitions of an incremental session without news are left out.

    ``max_bytes`` limits all slices together, again but for the first batch.
    """

    token: int
    error: int
    session_id: int
    max_bytes: int
    parts: tuple[ReadPart, ...]


@dataclass(slots=True)
class Lookup:
    """Let the shell find the first record at or after ``timestamp`` in the log, by its index.

    Only records in [``start_offset``, ``end_offset``) count. Timestamp -3: the largest.
    """

    timestamp: int
    start_offset: int
    end_offset: int


@dataclass(slots=True)
class OffsetPart:
    """The result of one partition of ListOffsets; with ``lookup`` the shell completes it."""

    key: PartitionKey
    error: int
    offset: int = -1
    leader_epoch: int = -1
    lookup: Lookup | None = None


@dataclass(slots=True)
class ReplyListOffsets:
    """Answer a ListOffsets."""

    token: int
    parts: tuple[OffsetPart, ...]


@dataclass(slots=True)
class ReplyEpochEnds:
    """Answer an OffsetForLeaderEpoch: (partition, error, epoch, end offset)."""

    token: int
    parts: tuple[tuple[PartitionKey, int, int, int], ...]


@dataclass(slots=True)
class ReplyDeleteRecords:
    """Answer a DeleteRecords: (partition, error, low watermark)."""

    token: int
    parts: tuple[tuple[PartitionKey, int, int], ...]


# --- requests of this broker ------------------------------------------------------------


@dataclass(slots=True)
class FetchFrom:
    """Fetch partitions from their leader, as a follower; FetchAnswered follows.

    ``endpoint`` is where the leader listens, None if that is not known: the fetch then fails.
    ``broker_epoch`` is that of this broker (KIP-903).
    """

    leader: int
    correlation: int
    max_wait_ms: int
    parts: tuple[FetchPart, ...]
    endpoint: Endpoint | None = None
    broker_epoch: int = -1


@dataclass(slots=True)
class AskOffsets:
    """Ask a leader for the start and the end of logs: (partition, leader epoch).

    OffsetsAnswered follows. ``endpoint`` and ``broker_epoch`` are those of FetchFrom.
    """

    leader: int
    correlation: int
    parts: tuple[tuple[PartitionKey, int], ...]
    endpoint: Endpoint | None = None
    broker_epoch: int = -1


@dataclass(slots=True)
class Proposal:
    """A new ISR of one partition, (broker, broker epoch) each; the epoch is -1 if not known."""

    key: PartitionKey
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovering: bool = False


@dataclass(slots=True)
class AlterPartition:
    """Propose ISRs to the active controller; AlterPartitionAnswered follows."""

    correlation: int
    proposals: tuple[Proposal, ...]


@dataclass(slots=True)
class Note:
    """A trace event of a partition: ``role``, ``isr``, ``hw``, ``truncate``, ``start``."""

    kind: str
    key: PartitionKey
    detail: dict[str, Any] = field(default_factory=dict)


Effect = (
    OpenLog
    | ShapeLog
    | RemoveLog
    | Append
    | FlushLog
    | Truncate
    | StartAt
    | DeleteUpTo
    | RollLog
    | WriteEpochs
    | WriteHighWatermarks
    | ReplyProduce
    | Silent
    | ReplyFetch
    | ReplyListOffsets
    | ReplyEpochEnds
    | ReplyDeleteRecords
    | FetchFrom
    | AskOffsets
    | AlterPartition
    | Note
)
