"""Fetches that nobody has sent, and what leaders would answer (D9, D10, D11).

A leader refuses a fetch, or a request for offsets, of another leader epoch. It refuses a fetch
outside of its log, or of a process that was replaced (KIP-903). Such a request is in flight for a
moment only, while a broker restarts or the lead moves. To answer it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication.events import FetchPart
from kraftwreck.nodes.replication.partition import CONSUMER, LATEST, Partition

NO_BROKER_EPOCH: Final = -1


def wrong_fetches(partition: Partition) -> Iterator[tuple[str, str]]:
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
        for name, error in (
            ("a fetch", _consumed(partition, end, other)),
            ("ListOffsets", partition.offset_at(LATEST, other, CONSUMER).error),
            ("OffsetForLeaderEpoch", partition.epoch_end(other, epoch)[1]),
        ):
            if other >= 0 and error != right:
                yield "D10", f"would answer {error} to {name} of its epoch {other}, not {right}"
    for offset in (start - 1, end + 1):
        error = _consumed(partition, offset, epoch)
        if offset >= 0 and error != errors.OFFSET_OUT_OF_RANGE:
            yield "D11", f"would answer {error} to a fetch at {offset}; its log is {start} to {end}"


def _consumed(partition: Partition, offset: int, leader_epoch: int) -> int:
    """Return the error of a consumer's fetch."""
    asked = FetchPart(partition.key, offset, 1, leader_epoch)
    return partition.read(asked, CONSUMER, NO_BROKER_EPOCH).error
