"""Watches the data planes of all brokers: the invariants D1 to D11, D15, live.

A replica is judged when the disk has what its core says, before anything leaves the broker. The
committed log of a partition is one list of batches: all below the highest high watermark of any
leader. Records of it may be lost legally: by an unclean election, or, where the cluster keeps no
eligible leader replicas (KIP-966), by a loss of power at the last member of an ISR. From then on
the new leader's log counts, and ``lost`` has the partition. With ``flush.messages=1`` no loss of
power excuses it: what was committed was on the disks of the whole ISR.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.metadata.eligibility import elr_enabled
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.metadata.image_values import Partition as Placed
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.sequence_numbers import following, last_of
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    RecordLogs,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.tidying import Tidying

Identity = tuple[int, int, int, int]


def identity(batch: Batch) -> Identity:
    """Return offsets, leader epoch and checksum of a batch."""
    return batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc


def _base(batch: Identity) -> int:
    return batch[0]


@dataclass(slots=True)
class _Topic:
    """One partition, as seen from outside of the world.

    ``committed`` has the committed batches from offset ``began`` on in order, ``committed_in`` the
    epoch of the leader that committed each. ``baseline`` is the leader epoch whose leader lost
    records legally last, -1 for none.
    """

    began: int = 0
    committed: list[Identity] = field(default_factory=list)
    committed_in: list[int] = field(default_factory=list)
    baseline: int = -1
    leaders: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    """By leader epoch: the log end at which it began."""
    first: int = 0
    """The highest offset at which a log has begun."""
    batches: dict[tuple[int, int], Identity] = field(default_factory=dict)
    producers: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By producer: (epoch, last sequence number, offset) of its last committed batch."""

    @property
    def end(self) -> int:
        return self.committed[-1][1] if self.committed else self.began


@dataclass(slots=True)
class _Seen:
    """A replica as it was when it was judged last."""

    signature: tuple[Any, ...]
    life: int
    epoch: int
    partition_epoch: int
    hw: int
    start: int
    isr: tuple[int, ...]
    led: bool


class RecordWatch:
    """Judges each replica of ``world``; ``lost`` are the partitions that lost records legally.

    ``watches`` says whether there is any broker that stores records. ``on_committed`` is called
    with each batch when it is committed first, ``on_advanced`` with each leader that has raised its
    high watermark.
    """

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self.logs = RecordLogs(world, failures)
        Tidying(world, self.logs)
        self.lost: set[PartitionKey] = set()
        self.on_committed: list[Callable[[PartitionKey, Batch], None]] = []
        self.on_advanced: list[Callable[[Host, Partition], None]] = []
        self._topics: dict[PartitionKey, _Topic] = {}
        self._seen: dict[tuple[int, PartitionKey], _Seen] = {}
        self._hosts = {host.id: host for host in world.hosts}
        self._image: ImageView | None = None
        self.watches = any(isinstance(host.disk, DataDisk) for host in world.hosts)
        if self.watches:
            world.on_emit.append(self._on_emit)
            world.on_trace.append(self._on_trace)
            world.on_disk.append(self._on_disk)

    def topic(self, key: PartitionKey) -> _Topic:
        """Return what is known of a partition."""
        known = self._topics.get(key)
        if known is None:
            known = self._topics[key] = _Topic()
        return known

    def committed_end(self, key: PartitionKey) -> int:
        """Return the highest high watermark that a leader of the partition had."""
        return self.topic(key).end

    def committed_before(self, key: PartitionKey, epoch: int) -> int:
        """Return the end of what leaders of older epochs than ``epoch`` have committed."""
        topic = self.topic(key)
        for place in range(len(topic.committed) - 1, -1, -1):
            if topic.committed_in[place] < epoch:
                return topic.committed[place][1]
        return topic.began

    def committed_at(self, key: PartitionKey, offset: int) -> Identity | None:
        """Return the committed batch that begins at ``offset``, None without one."""
        committed = self.topic(key).committed
        place = bisect_left(committed, offset, key=_base)
        found = committed[place] if place < len(committed) else None
        return found if found is not None and found[0] == offset else None

    def is_deleted(self, key: PartitionKey) -> bool:
        """Return whether the newest committed metadata has no such partition any longer."""
        return self._image is not None and key not in self._image.partitions

    def fail(self, rule: str, explanation: str) -> None:
        """Report that a rule does not hold."""
        self._failures.add(rule, self._world.now, explanation)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind == "start":
            for place in [place for place in self._seen if place[0] == host.id]:
                del self._seen[place]

    def _on_disk(self, host: Host, effect: Any) -> None:
        """A replica that comes back after its removal is a new one.

        D11: one that empties its log, as its leader has deleted what it lacks, begins it no later
        than another replica.
        """
        if type(effect) is data.RemoveLog:
            self._seen.pop((host.id, effect.key), None)
        elif type(effect) is data.StartAt and effect.offset > self.topic(effect.key).first:
            self.fail(
                "D11",
                f"{host.name} empties its log of {name_of(effect.key)} and begins it at"
                f" {effect.offset}; all others begin at {self.topic(effect.key).first} or earlier",
            )

    def _on_emit(self, host: Host) -> None:
        replicas, node = replicas_on(host), host.node
        if isinstance(node, Node):
            self._applied(node.image.stable)
        if not replicas:
            return
        assert isinstance(node, Node)
        full = disk_of_records(host).logs.full
        for key, partition in replicas.items():
            log = partition.log
            if log is None:
                continue
            in_sync, assignment = partition.in_sync, partition.assignment
            signature = (
                partition.hw, log.end, log.start, partition.leading, in_sync.isr, assignment
            )  # fmt: skip
            before = self._seen.get((host.id, key))
            if before is not None and before.signature == signature:
                continue
            topic = self.topic(key)
            topic.first = max(topic.first, log.start)
            expected = self.logs.of(host.id, key)
            if expected is None or key in full:
                continue
            self._judge(host, node, partition, expected, before)
            self._seen[host.id, key] = _Seen(
                signature, host.life, assignment.leader_epoch, assignment.partition_epoch,
                partition.hw, log.start, in_sync.isr, partition.leading,
            )  # fmt: skip

    # --- one replica ------------------------------------------------------------------------

    def _judge(
        self,
        host: Host,
        node: Node,
        partition: Partition,
        expected: RecordLog,
        before: _Seen | None,
    ) -> None:
        key, log = partition.key, partition.log
        assert log is not None
        where = f"{host.name} {name_of(key)}"
        if (log.start, log.end) != (expected.start, expected.end):
            self.fail(
                "D6",
                f"{where}: the core has {log.start} to {log.end}, the disk {expected.start} to"
                f" {expected.end}",
            )
        if partition.hw > log.end:
            self.fail("D5", f"{where}: high watermark {partition.hw} above the log end {log.end}")
        if log.start > partition.hw:
            self.fail("D11", f"{where}: log start {log.start} above high watermark {partition.hw}")
        if before is not None and log.start < before.start and key not in self.lost:
            self.fail("D11", f"{where}: the log start went back from {before.start} to {log.start}")
        if before is not None and before.life == host.life:
            self._judge_assignment(where, partition, before)
        self._judge_epochs(where, partition, expected)
        self._judge_batches(where, key, expected, before)
        if partition.leading:
            self._judge_leader(host, node, partition, expected, before)
        elif key not in self.lost:
            self._agrees(where, partition, expected)

    def _judge_assignment(self, where: str, partition: Partition, before: _Seen) -> None:
        """D17: a running broker returns to no older metadata of a partition."""
        now = partition.assignment
        if now.leader_epoch < before.epoch or now.partition_epoch < before.partition_epoch:
            known = before.epoch, before.partition_epoch
            epochs = now.leader_epoch, now.partition_epoch
            self.fail(
                "D17", f"{where}: (leader epoch, partition epoch) went from {known} to {epochs}"
            )

    def _judge_epochs(self, where: str, partition: Partition, expected: RecordLog) -> None:
        """D7: the epochs are those of the batches, and perhaps a last one without records."""
        log = partition.log
        assert log is not None
        scan: list[tuple[int, int]] = []
        for batch in expected.batches:
            if not scan or scan[-1][0] != batch.leader_epoch:
                scan.append((batch.leader_epoch, max(batch.base_offset, log.start)))
        kept = list(log.epochs.entries)
        if kept and kept[-1][1] == log.end:
            kept.pop()
        if kept != scan:
            self.fail("D7", f"{where}: the epochs are {kept}, the log has {scan}")

    def _judge_batches(
        self, where: str, key: PartitionKey, expected: RecordLog, before: _Seen | None
    ) -> None:
        """D6: the same offset and leader epoch mean the same batch."""
        known = self.topic(key).batches
        new = expected.batches if before is None else expected.batches[-8:]
        for batch in new:
            own = identity(batch)
            other = known.setdefault((batch.base_offset, batch.leader_epoch), own)
            if other != own and key not in self.lost:
                self.fail("D6", f"{where}: two batches of epoch {own[2]} at offset {own[0]}")

    # --- leaders ----------------------------------------------------------------------------

    def _judge_leader(
        self,
        host: Host,
        node: Node,
        partition: Partition,
        expected: RecordLog,
        before: _Seen | None,
    ) -> None:
        key, topic = partition.key, self.topic(partition.key)
        epoch = partition.assignment.leader_epoch
        where = f"{host.name} leads epoch {epoch} of {name_of(key)}"
        known = topic.leaders.setdefault(epoch, host.id)
        if known != host.id:
            self.fail("D10", f"{where}, as {self._hosts[known].name} did")
        topic.starts.setdefault(epoch, partition.epoch_start)
        if before is None or not before.led or before.epoch != epoch:
            self._elected(where, host, node, partition, expected)
            before = None
        watermark = topic.watermarks.get(epoch, 0)
        if partition.hw < watermark:
            self.fail("D5", f"{where}: the high watermark went from {watermark} to {partition.hw}")
        topic.watermarks[epoch] = max(watermark, partition.hw)
        if epoch < topic.baseline:
            return
        missed = self._committed_isr(key, epoch) - counted(partition)
        if missed:
            names = ", ".join(self._hosts[each].name for each in sorted(missed))
            self.fail("D8", f"{where} without {names} of the ISR that the controller has made")
        # After a legal loss the log may be empty from its start on, beyond what is left.
        if partition.hw > max(topic.end, expected.start):
            self._advanced(where, host, partition, expected)
        else:
            self._agrees(where, partition, expected)
        if before is not None:
            self._judge_entries(where, partition, before)
            if partition.hw > before.hw:
                for told in self.on_advanced:
                    told(host, partition)

    def _elected(
        self, where: str, host: Host, node: Node, partition: Partition, expected: RecordLog
    ) -> None:
        """D1: a leader has all records of older epochs, unless they were lost legally.

        It need not have those of newer epochs: it may learn late that it was elected.
        """
        key, topic = partition.key, self.topic(partition.key)
        epoch = partition.assignment.leader_epoch
        if epoch < topic.baseline:
            return
        missing = _first_missing(topic, expected, epoch)
        if missing is None:
            return
        unclean = partition.assignment.recovering or partition.recovering
        from_memory = partition.settings.flush_messages > 1
        keeps = elr_enabled(node.image.stable)
        power = from_memory and disk_of_records(host).losses > 0 and not keeps
        if not (unclean or power):
            offset = topic.committed[missing][0]
            self.fail("D1", f"{where} without the committed batch at offset {offset}")
        self.lost.add(key)
        topic.baseline = epoch
        # Batches below its start are deleted for all, whatever an old log has there.
        left = next(n for n, batch in enumerate(topic.committed) if batch[1] > expected.start)
        if left:
            topic.began = topic.committed[left - 1][1]
        topic.committed = topic.committed[left:missing]
        topic.committed_in = topic.committed_in[left:missing]
        topic.producers.clear()
        topic.batches.clear()

    def _advanced(self, where: str, host: Host, partition: Partition, expected: RecordLog) -> None:
        """Take the batches below the new high watermark as committed, and judge it (D8)."""
        topic = self.topic(partition.key)
        if len(partition.in_sync.isr) < least_in_sync(partition):
            isr = partition.in_sync.isr
            self.fail("D8", f"{where}: the high watermark moved with the ISR {isr}")
        for member in sorted(counted(partition)):
            other = self._hosts.get(member)
            log = self.logs.of(member, partition.key)
            if other is None or log is None or not self.logs.lossless(other, partition.key):
                continue
            # A leader that is cut off from the controllers counts what a loss of power took.
            if max(log.had, log.end, self._gone(partition, log)) < partition.hw:
                self.fail(
                    "D8",
                    f"{where}: high watermark {partition.hw}, but {other.name} of the ISR ends at"
                    f" {log.end}",
                )
        self._judge_committed_isr(where, partition)
        for batch in expected.batches:
            if topic.end <= batch.base_offset and batch.next_offset <= partition.hw:
                topic.committed.append(identity(batch))
                topic.committed_in.append(partition.assignment.leader_epoch)
                self._numbered(where, topic, batch, expected.began)
                for told in self.on_committed:
                    told(partition.key, batch)
        if topic.end < partition.hw and expected.batches and partition.key not in self.lost:
            self.fail("D2", f"{where}: no whole batch ends at high watermark {partition.hw}")

    def _gone(self, partition: Partition, log: RecordLog) -> int:
        """Return where an earlier replica ended that a deposed leader counts: it does not know that
        the controllers have removed it."""
        if not log.removed:
            return 0
        known = self._newest(partition.key)
        deposed = known is None or known.leader_epoch > partition.assignment.leader_epoch
        return log.removed if deposed else 0

    def _judge_committed_isr(self, where: str, partition: Partition) -> None:
        """D15: a majority has what a quorum commits, and so has each member of the ISR that the
        controllers committed, whatever the leader knows of it."""
        key, hw = partition.key, partition.hw
        if not partition.settings.quorum:
            return
        # A disk that lost everything since has no log.
        ends = {
            each: max(log.had, log.end, self._gone(partition, log))
            for each, log in self.logs.replicas(key)
        }
        having = [each for each in partition.assignment.replicas if ends.get(each, hw) >= hw]
        if len(having) < least_in_sync(partition):
            self.fail("D15", f"{where}: only {having} have the records below {hw}")
        for member in sorted(self._committed_isr(key, partition.assignment.leader_epoch)):
            other = self._hosts.get(member)
            if other is None or not self.logs.lossless(other, key):
                continue
            if ends[member] < hw:
                self.fail(
                    "D15",
                    f"{where}: high watermark {hw}, but {other.name}, which may be elected, ends"
                    f" at {ends[member]}",
                )

    def _committed_isr(self, key: PartitionKey, epoch: int) -> frozenset[int]:
        """Return the ISR in the newest committed metadata, if the leader epoch is the same there.

        The leader must count a member from the moment at which it proposes it (KIP-497).
        """
        known = self._newest(key)
        if known is None or known.leader_epoch != epoch:
            return frozenset()
        return frozenset(known.isr).intersection(self._hosts)

    def _newest(self, key: PartitionKey) -> Placed | None:
        """Return a partition in the newest committed metadata."""
        return None if self._image is None else self._image.partitions.get(key)

    def _applied(self, image: ImageView) -> None:
        """Keep the newest image. Its process may die before another one has as much."""
        if self._image is None or image.last_offset > self._image.last_offset:
            self._image = image

    def _agrees(self, where: str, partition: Partition, expected: RecordLog) -> None:
        """D2: the batches below the high watermark are the committed ones."""
        topic = self.topic(partition.key)
        by_offset = {batch[0]: batch for batch in topic.committed[-16:]}
        for batch in expected.batches[-16:]:
            own = by_offset.get(batch.base_offset)
            if own is not None and batch.next_offset <= partition.hw and own != identity(batch):
                self.fail("D2", f"{where}: another batch was committed at {batch.base_offset}")

    def _numbered(self, where: str, topic: _Topic, batch: Batch, began: int) -> None:
        """D3: the sequence numbers of a producer have no gap and no repetition.

        A leader whose log ``began`` after the last batch of a producer never had it. It knows
        nothing of the producer and takes any number, as in Apache Kafka (KIP-360).
        """
        if not batch.is_idempotent:
            return
        known = topic.producers.get(batch.producer_id)
        if known is not None:
            epoch, last, offset = known
            same = batch.producer_epoch == epoch
            wanted = following(last) if same else 0
            wrong = batch.producer_epoch < epoch or batch.base_sequence != wanted
            if wrong and offset >= began:
                self.fail(
                    "D3",
                    f"{where}: producer {batch.producer_id} has sequence number"
                    f" {batch.base_sequence} (epoch {batch.producer_epoch}) at offset"
                    f" {batch.base_offset} after {last} (epoch {epoch})",
                )
        last_batch = batch.producer_epoch, last_of(batch), batch.base_offset
        topic.producers[batch.producer_id] = last_batch

    def _judge_entries(self, where: str, partition: Partition, before: _Seen) -> None:
        """D9: a replica enters the ISR with the committed records and the start of the epoch."""
        for member in partition.in_sync.isr:
            if member in before.isr or member not in self._hosts:
                continue
            other, log = self._hosts[member], self.logs.of(member, partition.key)
            if log is None or not self.logs.lossless(other, partition.key):
                continue
            least = max(partition.hw, partition.epoch_start)
            if max(log.end, self._gone(partition, log)) < least:
                self.fail("D9", f"{where}: {other.name} entered the ISR at {log.end}, not {least}")

    # --- the end of a run -------------------------------------------------------------------

    def finish(self) -> None:
        """Judge what must hold once the cluster has recovered: D1 and D6 on all replicas."""
        for key in self.logs.partitions():
            topic = self.topic(key)
            for host_id, log in self.logs.replicas(key):
                host = self._hosts[host_id]
                seen = self._seen.get((host_id, key))
                if host.node is None or seen is None or seen.epoch < topic.baseline:
                    continue
                own = {batch.base_offset: identity(batch) for batch in log.batches}
                for batch in topic.committed:
                    if log.start <= batch[0] and batch[1] <= seen.hw and own.get(batch[0]) != batch:
                        self.fail(
                            "D6",
                            f"{host.name} has another log of {name_of(key)} than the committed"
                            f" one at offset {batch[0]}",
                        )
                        break


def counted(partition: Partition) -> frozenset[int]:
    """Return the replicas whose logs a leader must count: those of its ISR, and those proposed."""
    isr, pending = frozenset(partition.in_sync.isr), partition.in_sync.pending
    return isr if pending is None else isr.union(broker for broker, _ in pending.proposal.isr)


def least_in_sync(partition: Partition) -> int:
    """Return the size below which an ISR may acknowledge nothing, by the partition's settings."""
    replicas, adding = len(partition.assignment.replicas), len(partition.assignment.adding)
    if partition.settings.quorum:
        return (replicas - adding) // 2 + 1
    return min(partition.settings.min_insync, replicas)


def _first_missing(topic: _Topic, log: RecordLog, epoch: int) -> int | None:
    """Return the place of the first batch committed before ``epoch`` that a log lacks."""
    own = {batch.base_offset: identity(batch) for batch in log.batches}
    for place, batch in enumerate(topic.committed):
        if topic.committed_in[place] >= epoch:
            return None
        if batch[1] > log.start and own.get(batch[0]) != batch:
            return place
    return None
