"""The invariants of decision 39, judged on a world of cores after each step."""

from __future__ import annotations

import random

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication.events import FetchPart
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.partition import Partition
from tests.replication.world import BROKERS, KEY, NUMBERS, Disk, World


class BrokenError(AssertionError):
    """An invariant does not hold; ``rule`` is its id."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule = rule


IGNORED: frozenset[str] = frozenset()
"""Rules that are not judged: a planted bug may break an easier one first."""


def demand(rule: str, holds: bool, why: str) -> None:
    if not holds and rule not in IGNORED:
        raise BrokenError(rule, why)


class Judged(World):
    """A world in which each step is checked."""

    def __init__(self, min_insync: int = 1) -> None:
        self.records: dict[int, int] = {}
        self.same: dict[tuple[int, int], int] = {}
        self.leaders: dict[int, int] = {}
        self.watermarks: dict[tuple[int, int], int] = {}
        self.latest: dict[tuple[int, int], int] = {}
        self.starts: dict[int, int] = {}
        self.before: dict[int, int] = {}
        self.epoch_starts: dict[int, int] = {}
        self.judged = 0
        super().__init__(min_insync)

    def partition(self, broker: int) -> Partition | None:
        core = self.hosts[broker].core
        return None if core is None else core.partitions.get(KEY)

    def stepped(self, broker: int) -> None:
        partition, disk = self.partition(broker), self.hosts[broker].disk
        if partition is None or partition.log is None:
            return
        self._log(broker, partition, disk)
        if partition.leading:
            self._leader(broker, partition, disk)
        self.before[broker] = partition.hw
        self._entries()

    def _log(self, broker: int, partition: Partition, disk: Disk) -> None:
        log = partition.log
        assert log is not None
        demand("D6", (log.start, log.end) == (disk.start, disk.end), f"{broker}: log and disk")
        demand("D11", log.start <= partition.hw, f"{broker}: {log.start} > {partition.hw}")
        demand("D11", log.start >= self.starts.get(broker, 0), f"{broker}: the start went back")
        self.starts[broker] = log.start
        scan: list[tuple[int, int]] = []
        for each in disk.batches[-6:]:
            ident = self.same.setdefault((each.base_offset, each.leader_epoch), each.crc)
            demand("D6", ident == each.crc, f"two batches at {each.base_offset}")
        for each in disk.batches:
            if not scan or scan[-1][0] != each.leader_epoch:
                scan.append((each.leader_epoch, each.base_offset))
        kept = list(log.epochs.entries)
        if kept and kept[-1][1] == log.end:
            kept.pop()
        demand("D7", kept == scan, f"{broker}: epochs {kept}, log {scan}")

    def _leader(self, broker: int, partition: Partition, disk: Disk) -> None:
        log, epoch = partition.log, partition.assignment.leader_epoch
        assert log is not None
        demand("D10", self.leaders.setdefault(epoch, broker) == broker, f"two leaders of {epoch}")
        self.epoch_starts.setdefault(epoch, log.end)
        known = self.watermarks.get((broker, epoch), 0)
        demand("D5", partition.hw >= known, f"{broker}: HW from {known} to {partition.hw}")
        records = partition.read(FetchPart(KEY, log.start, 1 << 20), -1, -1).records
        demand("D5", records is None or records.end_offset <= partition.hw, f"{records}")
        self.watermarks[broker, epoch] = partition.hw
        if partition.hw > self.before.get(broker, 0):
            self._advanced(broker, partition)
        answer = partition.offset_at(-1, -1, -1)
        if answer.error == NONE:
            top = max((at for (_, e), at in self.latest.items() if e <= epoch), default=0)
            demand("D13", answer.offset >= top, f"{broker}: latest {answer.offset} after {top}")
            self.latest[broker, epoch] = answer.offset
        for each in disk.batches:
            if each.next_offset <= partition.hw:
                ident = self.records.setdefault(each.base_offset, each.crc)
                demand("D2", ident == each.crc, f"two records at {each.base_offset}")

    def _advanced(self, broker: int, partition: Partition) -> None:
        current = self.assignment
        enough = len(partition.in_sync.isr) >= self.least
        demand("D8", enough, f"{broker}: HW advanced below min.insync.replicas")
        if (current.leader, current.leader_epoch) != (broker, partition.assignment.leader_epoch):
            return
        if self.quorum:
            having = [each for each in BROKERS if self.hosts[each].disk.end >= partition.hw]
            demand("D15", len(having) >= self.least, f"only {having} have {partition.hw}")
        for member in current.isr:
            end = self.hosts[member].disk.end
            if self.quorum:
                demand("D15", end >= partition.hw, f"{member} may be elected at {end}")
            demand("D8", end >= partition.hw, f"{member} is in the ISR at {end} < {partition.hw}")

    def _entries(self) -> None:
        for before, proposal in self.accepted[self.judged :]:
            start = self.epoch_starts[proposal.leader_epoch]
            for member, _ in proposal.isr:
                end = self.hosts[member].disk.end
                demand(
                    "D9",
                    member in before or end >= start,
                    f"{member} entered the ISR at {end} < {start}",
                )
        self.judged = len(self.accepted)

    def acknowledged(self, broker: int, offset: int, sent: Batch) -> None:
        known = self.acked.get(sent.crc, offset)
        demand("D2", known == offset, f"one batch is acknowledged at {known} and {offset}")
        taken = {at for ident, at in self.acked.items() if ident != sent.crc}
        demand("D2", offset not in taken, f"two batches are acknowledged at {offset}")
        self.acked[sent.crc] = offset
        partition = self.partition(broker)
        if partition is not None:
            size = len(partition.in_sync.maximal)
            demand("D14", size >= self.least, f"acknowledged with an ISR of {size}")

    def finish(self) -> None:
        """Heal, then judge: nothing is lost, all logs are equal and committed."""
        self.heal()
        disks = [self.hosts[broker].disk for broker in BROKERS]
        # A former leader may have deleted records that its successor still has.
        start = max(disk.start for disk in disks)
        logs = [
            [(b.base_offset, b.leader_epoch, b.crc) for b in disk.batches if b.base_offset >= start]
            for disk in disks
        ]
        at = {each.crc: each.base_offset for each in disks[0].batches}
        for ident, offset in self.acked.items():
            found = at.get(ident, -1)
            deleted = offset < start
            demand("D1", deleted or found == offset, f"batch {ident} of {offset} is at {found}")
        demand("D6", logs[0] == logs[1] == logs[2], f"logs differ in the end: {logs}")
        numbered = [b.base_sequence for b in disks[0].batches if b.is_idempotent]
        consecutive = list(range(numbered[0], numbered[-1] + 1)) if numbered else []
        demand("D3", numbered == consecutive, f"sequence numbers {numbered}")
        leader = self.partition(self.assignment.leader)
        assert leader is not None and leader.log is not None
        demand("L", leader.hw == leader.log.end, f"HW {leader.hw} of {leader.log.end} in the end")
        demand("L", set(self.assignment.isr) == set(BROKERS), f"ISR {self.assignment.isr}")


class Quorum(Judged):
    """A world with a topic in which a majority of the replicas commits."""

    quorum = True


class Unclean(Judged):
    """A world in which any broker may lead if nobody of the ISR can: records are lost."""

    elections = 0

    def fence(self, broker: int) -> None:
        super().fence(broker)
        alive = [each for each in BROKERS if each not in self.fenced]
        if self.assignment.leader == -1 and alive:
            self.elections += 1
            self.publish(isr=(alive[0],), leader=alive[0], recovering=True)

    def refused(self, sent: Batch) -> None:
        self.waiting = None


def judged_run(seed: int, actions: int = 1500, kind: type[Judged] = Judged) -> Judged:
    """Run random actions and judge them. Raises BrokenError."""
    rng = random.Random(seed)
    world = kind(1 + seed % 2)
    world.run([rng.randrange(NUMBERS) for _ in range(actions)])
    world.finish()
    return world
