"""Metadata and answers that come late, and what leaders would make of them (D17, D18).

A broker learns of a change by the metadata and, if it has proposed it, by the answer. Both may be
overtaken, but seldom are. So older states of a partition are invented, and given to a copy of its
leader: it must keep the state that it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import replace

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.events import Altered, Assignment
from kraftwreck.nodes.replication.in_sync import InSync, Pending
from kraftwreck.nodes.replication.partition import Partition, Surroundings
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED


def wrong_assignments(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield what a leader would take over that is older than what it knows (D17, D18), and what it
    would still believe after others may have led (D9)."""
    now = partition.assignment
    yield from _kept_across_a_gap(partition)
    for older in _older(now):
        again = copy_of(partition)
        again.assigned(older)
        if _state(again) != _state(partition):
            yield "D17", f"would take over {_epochs(older)} although it knows {_epochs(now)}"
    pending = partition.in_sync.pending
    if pending is None:
        return
    for older in (*_older(now), replace(now, leader_epoch=now.leader_epoch + 1)):
        again = copy_of(partition)
        answer = Altered(
            again.key,
            NONE,
            older.leader_epoch,
            older.partition_epoch,
            older.isr,
            older.recovering,
        )
        again.altered(pending.proposal, answer)
        if _state(again) != _state(partition):
            yield "D18", f"would take an answer of {_epochs(older)}, and knows {_epochs(now)}"


def _kept_across_a_gap(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the followers whose log ends a leader would know although others may have cut them.

    Metadata may show a broker as leader twice and leave out another one in between.
    """
    now = partition.assignment
    if partition.log is None or not partition.leading or not INTERPRETED:
        return
    later = replace(now, leader_epoch=now.leader_epoch + 2, partition_epoch=now.partition_epoch + 2)
    again = copy_of(partition)
    again.log = copy(partition.log)
    again.log.epochs = deepcopy(partition.log.epochs)
    again.assigned(later)
    known = {broker: each.end for broker, each in again.in_sync.remotes.items() if each.end >= 0}
    if known:
        yield (
            "D9",
            f"would know the log ends {known} in leader epoch {later.leader_epoch}, two after"
            f" {now.leader_epoch}, without a fetch",
        )


def _older(now: Assignment) -> Iterator[Assignment]:
    """Yield earlier states of a partition: a bigger ISR in the same leader epoch, another leader
    before it."""
    partition_epoch = now.partition_epoch - 1
    others = [each for each in now.replicas if each != now.leader]
    if partition_epoch < 0:
        return
    yield replace(now, isr=(now.leader,), partition_epoch=partition_epoch)
    yield replace(now, isr=now.replicas, partition_epoch=partition_epoch)
    if now.leader_epoch > 0 and others:
        yield replace(
            now,
            leader=others[0],
            leader_epoch=now.leader_epoch - 1,
            partition_epoch=partition_epoch,
        )


def copy_of(partition: Partition) -> Partition:
    """Return a leader in the same state, with an ISR of its own and the same log."""
    shared = partition.with_
    apart = Surroundings(shared.own, shared.lag_us, shared.now, shared.peers)
    made = Partition(partition.key, partition.settings, apart)
    made.assignment, made.log = partition.assignment, partition.log
    made.durability, made.hw = partition.durability, partition.hw
    made.leading, made.epoch_start = partition.leading, partition.epoch_start
    made.recovering = partition.recovering
    known, own = partition.in_sync, InSync()
    own.isr, own.remotes = known.isr, dict(known.remotes)
    own.pending = known.pending
    made.in_sync = own
    return made


def _state(partition: Partition) -> tuple[Assignment, tuple[int, ...], Pending | None, bool, int]:
    in_sync = partition.in_sync
    return (
        partition.assignment, in_sync.isr, in_sync.pending, partition.leading, partition.hw
    )  # fmt: skip


def _epochs(at: Assignment) -> str:
    return f"leader epoch {at.leader_epoch}, partition epoch {at.partition_epoch}"
