"""Watches how replicas follow: what they append and cut (D1, D6), and how far leaders commit (L13).

A follower appends batches of its leader's log and no others. Nobody cuts a committed batch, since
each leader has all of them, and a leader cuts nothing. A leader's high watermark is at once as high
as the replicas allow.
"""

from __future__ import annotations

from kraftwreck.checkers.kraft.limits import COUNTED_US
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.in_sync import UNKNOWN
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.record_watch import (
    RecordWatch,
    counted,
    identity,
    least_in_sync,
)


class ReplicaWatch:
    """Judges replicas of ``world``; ``watch`` knows the logs, and which batches are committed."""

    def __init__(self, world: World, failures: Failures, watch: RecordWatch) -> None:
        self._world = world
        self._failures = failures
        self._watch = watch
        self._hosts = {host.id: host for host in world.hosts}
        self._members: dict[tuple[int, int, PartitionKey], set[int]] = {}
        """By leader, its life and partition: all that the ISR had since it leads."""
        if watch.watches:
            watch.logs.on_append.append(self._appended)
            watch.logs.on_cut.append(self._cut)
            world.on_emit.append(self._on_emit)

    def _fail(self, rule: str, explanation: str) -> None:
        self._failures.add(rule, self._world.now, explanation)

    def _appended(self, host: Host, key: PartitionKey, batch: Batch) -> None:
        """D6: what a follower appends is in the log of the leader that it follows."""
        found = self._followed(host, key)
        if found is None:
            return
        leader, log, epoch = found
        where = f"which {leader.name}, its leader in epoch {epoch}, does not have"
        if batch.base_offset >= log.start and not _has(log, batch):
            self._fail(
                "D6",
                f"{host.name} appends a batch of epoch {batch.leader_epoch} at"
                f" {batch.base_offset} of {name_of(key)}, {where}",
            )
        own = self._watch.logs.of(host.id, key)
        before = own.batches[-2] if own is not None and len(own.batches) > 1 else None
        if before is not None and before.base_offset >= log.start and not _has(log, before):
            self._fail(
                "D6",
                f"{host.name} appends a batch of {name_of(key)} after one of epoch"
                f" {before.leader_epoch} at {before.base_offset}, {where}",
            )

    def _followed(self, host: Host, key: PartitionKey) -> tuple[Host, RecordLog, int] | None:
        """Return the leader that a replica follows, its log and epoch; None if the replica follows
        nobody, or a log that is not certain."""
        partition = replicas_on(host).get(key)
        if partition is None or partition.leading or key in self._watch.lost:
            return None
        epoch = partition.assignment.leader_epoch
        leader = self._hosts.get(self._watch.topic(key).leaders.get(epoch, -1))
        if leader is None:
            return None
        led = replicas_on(leader).get(key)
        if led is None or not led.leading or led.assignment.leader_epoch != epoch:
            return None
        log = self._watch.logs.of(leader.id, key)
        if log is None or key in disk_of_records(leader).logs.full:
            return None
        return (leader, log, epoch) if self._watch.logs.lossless(leader, key) else None

    def _cut(self, host: Host, key: PartitionKey, removed: list[Batch]) -> None:
        """D1: no committed batch is cut. D6: nor one that the leader has.

        A follower may not know yet that the topic was deleted. It asks for offsets by the topic's
        name, as in Apache Kafka, and a new topic of that name may answer.
        """
        partition = replicas_on(host).get(key)
        if not removed or partition is None:
            return
        if key in self._watch.lost or self._watch.is_deleted(key):
            return
        where = f"{host.name} cuts {name_of(key)} at {removed[0].base_offset}"
        found = self._followed(host, key)
        if found is not None and _has(found[1], removed[0]):
            self._fail("D6", f"{where}, where {found[0].name}, its leader, has the same batch")
        if partition.leading:
            self._fail("D6", f"{where} although it leads epoch {partition.assignment.leader_epoch}")
        leader = self._hosts.get(partition.assignment.leader)
        if leader is not None and key in _full(leader):
            return  # What a leader with a full disk has is not judged.
        for committed in reversed(self._watch.topic(key).committed):
            if committed[1] <= removed[0].base_offset:
                return
            if any(identity(batch) == committed for batch in removed):
                self._fail("D1", f"{where}, below the committed batch at {committed[0]}")
                return

    def _on_emit(self, host: Host) -> None:
        for key, partition in replicas_on(host).items():
            log, place = partition.log, (host.id, host.life, key)
            if not partition.leading:
                self._members.pop(place, None)
                continue
            members = self._members.setdefault(place, set())
            members.update(partition.in_sync.isr)
            if log is not None and partition.hw < log.end:
                allowed = _allowed(partition, log.end, members)
                if partition.hw < allowed:
                    self._fail(
                        "L13",
                        f"{host.name} leaves the high watermark of {name_of(key)} at"
                        f" {partition.hw}, where its replicas allow {allowed}",
                    )


def _has(log: RecordLog, batch: Batch) -> bool:
    known = log.at(batch.base_offset)
    return known is not None and identity(known) == identity(batch)


def _full(host: Host) -> frozenset[PartitionKey]:
    return frozenset() if host.node is None else frozenset(disk_of_records(host).logs.full)


def _allowed(partition: Partition, end: int, members: set[int]) -> int:
    """Return the high watermark that the leader must have reached; 0 if there is none.

    A replica outside of the ISR holds it back while it is nearly caught up and may enter. Whether
    it still is is looked at twice in the time that a replica may lag. One that has not fetched is
    not caught up, unless it is among the ``members`` that the ISR had since the leader leads. With
    ``commit.mode=quorum`` only members of the ISR hold it back.
    """
    in_sync, shared = partition.in_sync, partition.with_
    if len(in_sync.isr) < least_in_sync(partition):
        return 0
    waits_us = shared.lag_us + shared.lag_us // 2 + COUNTED_US
    replicas = counted(partition)
    allowed = partition.vouched
    for broker, remote in in_sync.remotes.items():
        if broker in replicas or (
            not partition.settings.quorum
            and (remote.end != UNKNOWN or broker in members)
            and remote.is_caught_up(end, shared.now, waits_us)
            and remote.is_eligible(shared.peers.get(broker))
        ):
            allowed = min(allowed, remote.end)
    return allowed
