"""Asks leaders of partitions about fetches that nobody has sent (D9, D10, D11).

A leader refuses a fetch of another leader epoch, outside of its log, or of a process that was
replaced (KIP-903). Such a fetch is in flight for a moment only, while a broker restarts or the lead
moves. To answer it changes nothing, so it is invented for each leader once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication.events import FetchPart
from kraftwreck.nodes.replication.partition import CONSUMER, Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import name_of, replicas_on

ASKED_US: Final = 1_000_000
"""How often the leaders of a host are asked."""
NO_BROKER_EPOCH: Final = -1


class FetchRehearsal:
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
                for rule, wrong in judge(partition):
                    where = f"{host.name} leads {name_of(partition.key)}, and"
                    self._failures.add(rule, now, f"{where} {wrong}")


def judge(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the rules that a leader would break by its answers, and how."""
    log, epoch, key = partition.log, partition.assignment.leader_epoch, partition.key
    assert log is not None
    start, end = log.start, log.end
    for broker in partition.in_sync.remotes:
        peer = partition.with_.peers.get(broker)
        if peer is not None and peer.epoch > 0:
            old = peer.epoch - 1
            if partition.read(FetchPart(key, end, 1, epoch), broker, old).error == errors.NONE:
                yield (
                    "D9",
                    f"would answer broker {broker} with epoch {old}, replaced by {peer.epoch}",
                )
    for other, right in (
        (epoch - 1, errors.FENCED_LEADER_EPOCH),
        (epoch + 1, errors.UNKNOWN_LEADER_EPOCH),
    ):
        error = _consumed(partition, end, other)
        if other >= 0 and error != right:
            yield "D10", f"would answer {error} to a fetch of its epoch {other}, not {right}"
    for offset in (start - 1, end + 1):
        error = _consumed(partition, offset, epoch)
        if offset >= 0 and error != errors.OFFSET_OUT_OF_RANGE:
            yield "D11", f"would answer {error} to a fetch at {offset}; its log is {start} to {end}"


def _consumed(partition: Partition, offset: int, leader_epoch: int) -> int:
    """Return the error of a consumer's fetch."""
    asked = FetchPart(partition.key, offset, 1, leader_epoch)
    return partition.read(asked, CONSUMER, NO_BROKER_EPOCH).error
