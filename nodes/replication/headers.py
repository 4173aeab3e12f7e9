"""The header of a record batch, without its records: all that replication needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kraftwreck.nodes.log.batch import CONTROL, BatchHeader
from kraftwreck.nodes.metadata.image_values import PartitionKey

__all__ = ["Batch", "PartitionKey", "batch_of"]

NO_PRODUCER: Final = -1
_SEQUENCES: Final = 1 << 31
_TRANSACTIONAL: Final = 0x10


@dataclass(slots=True)
class Batch:
    """The header of one batch, magic 2; treated as immutable.

    ``size`` is the whole batch in bytes, ``max_timestamp`` milliseconds. ``handle`` belongs to the
    shell: where the bytes are. The core passes it on unread. A batch of a producer has no offset
    and no leader epoch before :meth:`placed`.
    """

    base_offset: int
    last_offset_delta: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    count: int
    size: int
    crc: int
    attributes: int
    handle: object = field(default=None, compare=False, repr=False)

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; they wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def is_idempotent(self) -> bool:
        """Whether a producer with an id numbered the records."""
        return self.producer_id != NO_PRODUCER and not self.attributes & CONTROL

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction, or ends one."""
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are control records."""
        return self.attributes & CONTROL != 0

    def bare(self) -> Batch:
        """Return the header alone, which keeps no bytes alive."""
        return self._copy(self.base_offset, self.leader_epoch, None)

    def placed(self, base_offset: int, leader_epoch: int) -> Batch:
        """Return the batch with the offset and the epoch that its leader assigned."""
        return self._copy(base_offset, leader_epoch, self.handle)

    def _copy(self, base_offset: int, leader_epoch: int, handle: object) -> Batch:
        return Batch(
            base_offset,
            self.last_offset_delta,
            leader_epoch,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.max_timestamp,
            self.count,
            self.size,
            self.crc,
            self.attributes,
            handle,
        )


def batch_of(header: BatchHeader, handle: object = None) -> Batch:
    """Return the batch with this header, whose bytes are at ``handle``."""
    return Batch(
        header.base_offset,
        header.last_offset - header.base_offset,
        header.epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.max_timestamp,
        header.count,
        header.length,
        header.crc,
        header.attributes,
        handle,
    )


def next_sequence(sequence: int) -> int:
    """Return the sequence number after ``sequence``."""
    return (sequence + 1) % _SEQUENCES
