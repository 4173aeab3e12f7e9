"""Asks leaders of partitions about batches that no producer has sent (D3).

A leader appends a batch of an idempotent producer if its sequence number follows the last one, or
is 0 in a new epoch of the producer. Clients of the simulator number their batches correctly. To
check a batch changes nothing, so wrong ones are invented for each leader once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraftwreck.nodes.protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
)
from kraftwreck.nodes.replication.headers import Batch, next_sequence
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.producers import Producers, SequenceError
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

ASKED_US: Final = 1_000_000
"""How often the leaders of a host are asked."""


class SequenceRehearsal:
    """Judges the leaders of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._next: dict[int, int] = {}
        """By host: when its leaders are asked next."""
        world.on_emit.append(self._on_emit)

    def _on_emit(self, host: Host) -> None:
        now = self._world.now
        if now < self._next.get(host.id, 0) or not (replicas := replicas_on(host)):
            return
        self._next[host.id] = now + ASKED_US
        for partition in replicas.values():
            if partition.leading and partition.log is not None:
                for wrong in judge(partition):
                    where = f"{host.name} leads {name_of(partition.key)}, and"
                    self._failures.add("D3", now, f"{where} {wrong}")


def judge(partition: Partition) -> Iterator[str]:
    """Yield the wrong answers of a leader to batches of the last producer that it knows."""
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
                f"would answer {error} to sequence number {sequence} in epoch {of_epoch} of"
                f" producer {known}, not {right}; epoch {epoch} ends with {kept[-1].last_sequence}"
            )


def _error(producers: Producers, producer: int, epoch: int, sequence: int) -> int:
    """Return the error of a batch with one record."""
    batch = Batch(-1, 0, -1, producer, epoch, sequence, 0, 1, 1, 0, 0)
    try:
        producers.check(batch)
    except SequenceError as refused:
        return refused.error
    return NONE
