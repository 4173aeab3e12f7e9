"""Watches all logs at once: committed batches must be equal everywhere, and stay.

The committed log is one list of batches. Batches are replicated whole, and a log begins at the end
of a snapshot, which is the end of a batch. So every log is a part of that list, perhaps with an
uncommitted tail. Log matching is checked by induction: a batch (base offset, epoch) has one content
and one predecessor in the whole world.
"""

from __future__ import annotations

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import AppendLog, CleanLog, InstallSnapshot, TruncateLog
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.disk_index import Durable, batch_epoch, batch_range
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch, is_voter


class LogWatch:
    """The committed log of the world, and how far each node's log is known to agree.

    Places count batches of the committed log from its beginning. ``_first`` is the place of the
    first batch of a node's log, None if its log begins at no committed batch's end. ``_verified``
    is the place up to which it was compared. ``_ahead`` are logs that begin above all known
    commits: a node may have been killed with a snapshot on its disk before it reported the
    commits in it.
    """

    def __init__(self, world: World, failures: Failures, voters: VoterWatch) -> None:
        self._world = world
        self._failures = failures
        self._voters = voters
        self.committed: list[bytes] = []
        self._committed_in: list[int] = []  # The epoch in which each was first committed.
        self._places: dict[int, int] = {0: 0}  # By the end offset of the batch before.
        self._first: dict[int, int | None] = {host.id: 0 for host in world.hosts}
        self._verified = {host.id: 0 for host in world.hosts}
        self._batches: dict[tuple[int, int], tuple[bytes, tuple[int, int] | None]] = {}
        self._disks: dict[int, Disk] = {}  # The one each host last wrote to.
        self._lost: list[tuple[Host, Disk]] = []
        self._ahead: dict[int, int] = {}  # Log start offset by node.
        world.on_disk.append(self._on_disk)
        world.on_wipe.append(self._wiped)

    @property
    def end_of_committed(self) -> int:
        """The offset after the last record known to be committed."""
        return batch_range(self.committed[-1])[1] if self.committed else 0

    def end(self, host: Host) -> tuple[int, int]:
        """Return (epoch of the last record, log end offset) of the node's log."""
        return disk_of(host).end_epoch, disk_of(host).end_offset

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the committed batch that ends at ``offset``; None if none does."""
        place = self._places.get(offset)
        return None if place is None or place == 0 else batch_epoch(self.committed[place - 1])

    def _on_disk(self, host: Host, effect: Durable) -> None:
        """Compare ``effect`` with the other logs before it reaches the disk."""
        self._disks[host.id] = disk_of(host)
        kind = type(effect)
        if kind is AppendLog:
            assert isinstance(effect, AppendLog)
            self._check_append(host, effect.batch)
        elif kind is TruncateLog:
            assert isinstance(effect, TruncateLog)
            self._check_truncate(host, effect.end_offset)
        elif kind is CleanLog:
            assert isinstance(effect, CleanLog)
            start = disk_of(host).start_after(effect.start_offset)
            if start > disk_of(host).start:
                self._begins_at(host, start)
        elif kind is InstallSnapshot:
            assert isinstance(effect, InstallSnapshot)
            self._verified[host.id] = 0
            self._begins_at(host, effect.end_offset)

    def _begins_at(self, host: Host, start: int) -> None:
        """Judge the new start of the node's log, which must be a committed end."""
        place = self._first[host.id] = self._places.get(start)
        self._ahead.pop(host.id, None)
        if place is not None:
            self._verified[host.id] = max(self._verified[host.id], place)
        elif start > self.end_of_committed:
            self._ahead[host.id] = start
        else:
            self._fail(
                "I20", f"the log of {host.name} begins at {start}, where no committed batch ends"
            )

    def is_ahead(self, host: Host) -> bool:
        """Whether the node's log begins above all known commits."""
        return host.id in self._ahead

    def _caught_up(self) -> None:
        """Place the logs that began above all commits known then."""
        end = self.end_of_committed
        for host in self._world.hosts:
            if self._ahead.get(host.id, end + 1) <= end:
                self._begins_at(host, self._ahead[host.id])

    def finish(self) -> None:
        """Judge the logs that are still ahead when the run is over and all commits are known."""
        for host in self._world.hosts:
            if host.id in self._ahead:
                start = self._ahead[host.id]
                self._fail(
                    "I20", f"the log of {host.name} begins at {start}, which was never committed"
                )

    def _check_append(self, host: Host, batch: bytes) -> None:
        disk = disk_of(host)
        log = disk.log
        last = (batch_range(log[-1])[0], batch_epoch(log[-1])) if log else None
        if last is None and disk.start == 0:
            last = (0, 0)
        base, epoch = batch_range(batch)[0], batch_epoch(batch)
        if epoch < disk.end_epoch:
            self._fail(
                "I7",
                f"{host.name} appended epoch {epoch} at {base} after epoch {disk.end_epoch}",
            )
        content, before = self._batches.setdefault((base, epoch), (batch, last))
        if content is not batch and content != batch:
            self._fail("I8", f"two batches of epoch {epoch} start at offset {base} ({host.name})")
        elif before is None:
            self._batches[base, epoch] = (content, last)
        elif last is not None and before != last:
            self._fail(
                "I8",
                f"{host.name} appended batch (offset {base}, epoch {epoch}) after batch {last},"
                f" elsewhere it follows {before}",
            )

    def _check_truncate(self, host: Host, end_offset: int) -> None:
        disk = disk_of(host)
        first = self._first[host.id]
        if first is None:
            return
        keep = len(disk.ends)
        while keep and disk.ends[keep - 1] > end_offset:
            keep -= 1
        place = first + keep
        if place < len(self.committed) and keep < len(disk.log):
            lost = self.committed[place]
            # A follower of an older leader may cut what a newer epoch just committed without it.
            epoch = host.last_trace.epoch if host.last_trace is not None else -1
            if disk.log[keep] == lost and self._committed_in[place] <= epoch:
                self._fail(
                    "I10",
                    f"{host.name} cut its log at {end_offset} and with it the committed batch at"
                    f" {batch_range(lost)[0]}",
                )
        self._verified[host.id] = min(self._verified[host.id], place)

    def _wiped(self, host: Host) -> None:
        """Forget a replaced machine's disk, but keep what it reported before."""
        old = self._disks.get(host.id)
        if old is not None:
            self._lost.append((host, old))
        self.restarted(host)

    def restarted(self, host: Host) -> None:
        """Compare the disk of a node that has started again."""
        self._begins_at(host, disk_of(host).start)
        first = self._first[host.id]
        if first is not None:
            end = first + len(disk_of(host).log)
            self._verified[host.id] = max(first, min(self._verified[host.id], end))

    def advanced(self, host: Host, event: TraceEvent) -> None:
        """Take all records below the node's high watermark ``event.hw`` as committed (I10)."""
        first = self._first[host.id]
        if first is None:
            return
        log, ends = disk_of(host).log, disk_of(host).ends
        place = self._verified[host.id]
        while place - first < len(log) and ends[place - first] <= event.hw:
            batch = log[place - first]
            if place == len(self.committed):
                self.committed.append(batch)
                self._committed_in.append(event.epoch)
                self._places[ends[place - first]] = place + 1
                if self._ahead:
                    self._caught_up()
                self._check_majority(place, batch, event)
            elif self.committed[place] != batch:
                base = batch_range(batch)[0]
                self._fail(
                    "I10",
                    f"{host.name} counts offset {base} (epoch {batch_epoch(batch)}) as committed,"
                    f" where epoch {batch_epoch(self.committed[place])} was committed before",
                    event,
                )
                return
            place += 1
        self._verified[host.id] = place

    def _check_majority(self, place: int, batch: bytes, event: TraceEvent) -> None:
        voters = self._voters.of(event.node)
        base = batch_range(batch)[0]
        disks = [(h, disk_of(h), self._first[h.id]) for h in self._world.hosts]
        # A voter that fetched and then lost its machine counts: the other replicas exist for such
        # losses.
        disks += [(h, disk, self._places.get(disk.start)) for h, disk in self._lost]
        holders = [
            h.name
            for h, disk, first in disks
            if (_holds(disk, first, place, batch) or self._ahead.get(h.id, 0) > base)
            and is_voter(voters, h.id, disk.directory)
        ]
        if len(holders) * 2 <= len(voters):
            self._fail(
                "I11",
                f"{event.node} counts offset {base} as committed while only {holders} of"
                f" {len(voters)} voters have it on disk",
                event,
            )

    def elected(self, host: Host, event: TraceEvent) -> None:
        """A new leader must hold everything committed in older epochs (I9).

        It need not hold commits of newer epochs: it may have been paused between its election and
        its report of it.
        """
        first = self._first[host.id]
        if first is None:
            return
        log = disk_of(host).log
        for place in range(self._verified[host.id], len(self.committed)):
            if self._committed_in[place] >= event.epoch:
                return
            index = place - first
            if index >= len(log) or log[index] != self.committed[place]:
                self._fail(
                    "I9",
                    f"{host.name} leads epoch {event.epoch} without the committed batch at offset"
                    f" {batch_range(self.committed[place])[0]}",
                    event,
                )
                return

    def _fail(self, kind: str, explanation: str, *events: TraceEvent) -> None:
        self._failures.add(kind, self._world.now, explanation, *events)


def _holds(disk: Disk, first: int | None, place: int, batch: bytes) -> bool:
    """Whether a disk has the committed batch on its platter, or a snapshot over it."""
    if first is None:
        return False
    index = place - first
    if index < 0:
        return True
    return disk.flushed > index and (disk.log[index] is batch or disk.log[index] == batch)
