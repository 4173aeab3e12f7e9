"""Batches that no producer has sent, and what leaders would answer (D3).

A leader appends a batch of an idempotent producer if its sequence number follows the last one, or
is 0 in a new epoch of the producer. Clients of the simulator number their batches correctly. To
check a batch changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftwreck.nodes.protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraftwreck.nodes.replication.headers import Batch, next_sequence
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Producers, SequenceError


def wrong_sequences(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the wrong answers of a leader to batches of the last producer that it knows (D3)."""
    assert partition.log is not None
    producers = partition.log.producers
    state = producers.state()
    known = next((each for each in reversed(state) if state[each][1]), None)
    if known is None:
        return
    epoch, kept = state[known]
    follows = next_sequence(kept[-1].last_sequence)
    wrong, old = OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH
    for of_epoch, sequence, right in (
        (epoch, follows, NONE),
        (epoch, next_sequence(follows), wrong),
        (epoch + 1, 0, NONE),
        (epoch + 1, next_sequence(0), wrong),
        (epoch - 1, follows, old),
    ):
        error = _error(producers, known, of_epoch, sequence)
        if of_epoch >= 0 and error != right:
            yield (
                "D3",
                f"would answer {error} to sequence number {sequence} in epoch {of_epoch} of"
                f" producer {known}, not {right}; epoch {epoch} ends with"
                f" {kept[-1].last_sequence}",
            )


def _error(producers: Producers, producer: int, epoch: int, sequence: int) -> int:
    """Return the error of a batch with one record."""
    batch = Batch(-1, 0, -1, producer, epoch, sequence, 0, 1, 1, 0, 0)
    try:
        producers.check(batch)
    except SequenceError as refused:
        return refused.error
    return NONE
