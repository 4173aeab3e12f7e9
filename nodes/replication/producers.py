"""The state of idempotent producers in one partition (KIP-98).

It is a function of the log: followers and recovery rebuild it from the headers of batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from kraftwreck.nodes.protocol.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
from kraftwreck.nodes.replication.headers import Batch, next_sequence

KEPT: Final = 5
"""Batches of a producer that a retry may repeat: a producer has at most five in flight."""


class SequenceError(Exception):
    """A batch of a producer may not be appended; ``error`` is the protocol's code."""

    def __init__(self, error: int) -> None:
        super().__init__(error)
        self.error = error


class Kept(NamedTuple):
    """An appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class Producer:
    """One producer: its epoch, and its last batches of this epoch, oldest first."""

    __slots__ = ("epoch", "kept")

    def __init__(self, epoch: int, kept: Iterable[Kept] = ()) -> None:
        self.epoch = epoch
        self.kept = deque(kept, KEPT)


class Producers:
    """All producers of one partition, by id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, Producer] = {}

    def copy(self) -> Producers:
        """Return an independent copy."""
        other = Producers()
        other._by_id = {key: Producer(each.epoch, each.kept) for key, each in self._by_id.items()}
        return other

    def check(self, batch: Batch) -> Kept | None:
        """Return the earlier append of ``batch`` if it is a retry, None if it may be appended.

        Raises SequenceError: an older epoch of the producer, or a gap in the sequence. Any sequence
        number of an unknown producer is accepted; a new epoch begins with 0.
        """
        known = self._by_id.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            raise SequenceError(INVALID_PRODUCER_EPOCH)
        if batch.producer_epoch > known.epoch:
            if batch.base_sequence != 0:
                raise SequenceError(OUT_OF_ORDER_SEQUENCE_NUMBER)
            return None
        for kept in known.kept:
            if (kept.first_sequence, kept.last_sequence) == (
                batch.base_sequence,
                batch.last_sequence,
            ):
                return kept
        if known.kept and batch.base_sequence != next_sequence(known.kept[-1].last_sequence):
            raise SequenceError(OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def append(self, batch: Batch) -> None:
        """Note a batch that is in the log."""
        if not batch.is_idempotent:
            return
        known = self._by_id.get(batch.producer_id)
        if known is None or batch.producer_epoch > known.epoch:
            known = self._by_id[batch.producer_id] = Producer(batch.producer_epoch)
        known.kept.append(
            Kept(batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset)
        )

    def state(self) -> dict[int, tuple[int, tuple[Kept, ...]]]:
        """Return (epoch, kept batches) of each producer, for comparison."""
        return {key: (each.epoch, tuple(each.kept)) for key, each in self._by_id.items()}
