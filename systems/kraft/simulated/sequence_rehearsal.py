"""Batches that no producer has sent, and what leaders would answer (D3).

A leader appends a batch of an idempotent producer if its sequence number follows the last one, or
is 0 in a new epoch of the producer. It recognizes a repetition of each batch that it remembers.
Clients of the simulator number their batches correctly, and repeat few. To check a batch changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftwreck.nodes.protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Kept, Producers, SequenceError
from kraftwreck.systems.kraft.sequence_numbers import following


def wrong_sequences(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the wrong answers of a leader to batches of the last producer that it knows (D3)."""
    assert partition.log is not None
    producers = partition.log.producers
    state = producers.state()
    known = next((each for each in reversed(state) if state[each][1]), None)
    if known is None:
        return
    epoch, kept = state[known]
    for each in kept:
        answer = _answer(producers, known, epoch, each.first_sequence, each.last_sequence)
        if isinstance(answer, int) or answer[:2] != each[:2]:
            yield (
                "D3",
                f"would answer {answer} to a repetition of {each[0]} to {each[1]} of producer"
                f" {known}, epoch {epoch}",
            )
    follows = following(kept[-1].last_sequence)
    wrong, old = OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH
    for of_epoch, sequence, right in (
        (epoch, follows, NONE),
        (epoch, following(follows), wrong),
        (epoch + 1, 0, NONE),
        (epoch + 1, following(0), wrong),
        (epoch - 1, follows, old),
    ):
        answer = _answer(producers, known, of_epoch, sequence, sequence)
        if of_epoch >= 0 and answer != right:
            yield (
                "D3",
                f"would answer {answer} to sequence number {sequence} in epoch {of_epoch} of"
                f" producer {known}, not {right}; epoch {epoch} ends with"
                f" {kept[-1].last_sequence}",
            )


def _answer(producers: Producers, producer: int, epoch: int, first: int, last: int) -> Kept | int:
    """Return the earlier append of a batch with these sequence numbers, or the error (NONE: it
    would be appended)."""
    delta = following(last, -first)
    batch = Batch(-1, delta, -1, producer, epoch, first, 0, delta + 1, 1, 0, 0)
    try:
        repeated = producers.check(batch)
    except SequenceError as refused:
        return refused.error
    return NONE if repeated is None else repeated
