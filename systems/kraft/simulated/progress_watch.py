"""Watches what leaders make of the fetches of followers (D8, D9), and what these say (D7).

A follower says where its log ends and of which epoch its last record is. If the leader has the same
record there, the fetch says how far the follower has come. All that a leader does later rests on
this memory: high watermarks, ISRs, and the time at which a follower lags behind. So it is judged at
each fetch, before anything has come of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any, NamedTuple

from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived, ProduceReceived
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch, counted
from kraftwreck.systems.kraft.simulated.requests_of_step import requests_of_step

Place = tuple[int, int, PartitionKey, int]


class _Known(NamedTuple):
    """A leader's knowledge of a follower: until when it had caught up, and whether it was proposed
    for the ISR.

    ``fetched_at`` is the time of its last fetch that counted, ``epoch`` its broker epoch in the
    metadata, -1 if there is none.
    """

    caught_up: int
    joined: bool
    fetched_at: int
    epoch: int


class ProgressWatch:
    """Judges the brokers of ``world``; ``watch`` knows their logs."""

    def __init__(self, world: World, failures: Failures, watch: RecordWatch) -> None:
        self._world = world
        self._failures = failures
        self._logs = watch.logs
        self._before: dict[Place, _Known] = {}
        """By leader, its life, partition and follower of a request: what the leader knew of the
        follower before it."""
        self._caught_up: dict[Place, int] = {}
        """The same after the last fetch that was handled."""
        self._reached: dict[Place, int] = {}
        """The furthest offset at which a follower has fetched from a leader."""
        traffic = record_traffic(world)
        traffic.on_request.append(self._read)
        traffic.followers.on_fetch.append(self._on_fetch)
        world.on_step.append(self._on_step)
        watch.on_advanced.append(self._advanced)

    def _fail(self, rule: str, explanation: str) -> None:
        self._failures.add(rule, self._world.now, explanation)

    def _read(self, host: Host, message: RecordMessage) -> None:
        event = message.call.event if message.call is not None else None
        if isinstance(event, FetchReceived) and event.replica_id >= 0:
            for part in event.parts:
                found = _remote(host, part.key, event.replica_id)
                if found is not None:
                    place = host.id, host.life, part.key, event.replica_id
                    self._before[place] = _known(*found, event.replica_id)

    def _on_step(self, host: Host, event: Any) -> None:
        requests = requests_of_step(event)
        appends = any(isinstance(request, ProduceReceived) for request in requests)
        fetches = [
            (request, part)
            for request in requests
            if isinstance(request, FetchReceived) and request.replica_id >= 0
            for part in request.parts
        ]
        asked = Counter((request.replica_id, part.key) for request, part in fetches)
        for request, part in fetches:
            single = asked[request.replica_id, part.key] == 1
            self._judge(host, request, part, appends=appends, single=single)

    def _judge(
        self, host: Host, request: FetchReceived, part: FetchPart, *, appends: bool, single: bool
    ) -> None:
        """Judge what a fetch has changed in its leader's memory of the follower. The same step
        ``appends`` records perhaps: then the log's end at the fetch is not known. ``single``: the
        step handled no other fetch of this follower and partition."""
        follower = request.replica_id
        place = host.id, host.life, part.key, follower
        # A session asks for a partition that its broker does not lead yet, and need not repeat it.
        self._reached[place] = max(part.offset, self._reached.get(place, 0))
        before, found = self._before.pop(place, None), _remote(host, part.key, follower)
        if before is None or found is None:
            return
        partition, remote = found
        # Another fetch may have been handled since this one arrived.
        caught_up = max(before.caught_up, self._caught_up.get(place, 0))
        self._caught_up[place] = remote.caught_up
        now, where = partition.with_.now, f"{host.name}: broker {follower} fetches"
        what = f"{where} {name_of(part.key)} at {part.offset}"
        if _joins(partition, follower) and not before.joined:
            self._judge_joining(what, place, partition)
        if single and remote.fetched_at == now > before.fetched_at:
            self._judge_counted(what, request, part, remote, before.epoch)
        if remote.fetched_at != now or remote.end != part.offset or partition.log is None:
            return
        end = partition.log.end
        if remote.caught_up >= now > caught_up and remote.end < end and not appends:
            self._fail("D9", f"{what}, below the log end {end}, and has caught up")
        log = self._log(host, part.key)
        own = None if log is None else _before(log, part.offset)
        epoch = part.last_fetched_epoch
        # A replica without room for the first record of an epoch may know the epoch already.
        begins = (epoch, part.offset) in partition.log.epochs.entries
        if own is not None and 0 <= epoch != own.leader_epoch and not begins:
            self._fail(
                "D9",
                f"{what} after a record of epoch {epoch}; that counts, although the leader's is of"
                f" epoch {own.leader_epoch}",
            )

    def _judge_counted(
        self,
        what: str,
        request: FetchReceived,
        part: FetchPart,
        remote: Remote,
        epoch: int,
    ) -> None:
        """D9: a fetch that counts says where the follower's log ends, also if that is further back
        than before. That of a process which is replaced does not count: the leader knows ``epoch``
        as the broker epoch of the present one."""
        if remote.end != part.offset:
            self._fail("D9", f"{what}; the leader still counts its records below {remote.end}")
        if 0 <= request.broker_epoch < epoch:
            self._fail(
                "D9",
                f"{what} with broker epoch {request.broker_epoch}; that counts, although its"
                f" present process has epoch {epoch}",
            )

    def _judge_joining(self, what: str, place: Place, partition: Partition) -> None:
        """D9: a replica proposed for the ISR has fetched at the start of the leader's epoch."""
        if self._reached.get(place, 0) < partition.epoch_start:
            self._fail(
                "D9",
                f"{what} and is proposed for the ISR; the leader's epoch begins at"
                f" {partition.epoch_start}",
            )

    def _advanced(self, host: Host, partition: Partition) -> None:
        """D8: a leader counts what the fetches of the ISR, committed and proposed, have shown."""
        for member in sorted(counted(partition) - {host.id}):
            reached = self._reached.get((host.id, host.life, partition.key, member), 0)
            if reached < partition.hw:
                self._fail(
                    "D8",
                    f"{host.name} raises the high watermark of {name_of(partition.key)} to"
                    f" {partition.hw}; broker {member} of the ISR has fetched up to {reached}",
                )

    def _on_fetch(self, host: Host, fetch: data.FetchFrom) -> None:
        """D7: a follower names the epoch of its last record, or of a later one that it led."""
        for part in fetch.parts:
            log = self._log(host, part.key)
            last = None if log is None else _before(log, part.offset)
            if last is not None and part.last_fetched_epoch < last.leader_epoch:
                self._fail(
                    "D7",
                    f"{host.name} fetches {name_of(part.key)} at {part.offset} as if its last"
                    f" record were of epoch {part.last_fetched_epoch}; it is of"
                    f" {last.leader_epoch}",
                )

    def _log(self, host: Host, key: PartitionKey) -> RecordLog | None:
        """Return the log of a replica, None if the disk may not have what its core says."""
        if key in disk_of_records(host).logs.full:
            return None
        return self._logs.of(host.id, key)


def _remote(host: Host, key: PartitionKey, follower: int) -> tuple[Partition, Remote] | None:
    """Return a partition and the memory of a follower, None if its broker does not lead it."""
    partition = replicas_on(host).get(key)
    if partition is None or not partition.leading:
        return None
    remote = partition.in_sync.remotes.get(follower)
    return None if remote is None else (partition, remote)


def _known(partition: Partition, remote: Remote, follower: int) -> _Known:
    peer = partition.with_.peers.get(follower)
    epoch = -1 if peer is None else peer.epoch
    return _Known(remote.caught_up, _joins(partition, follower), remote.fetched_at, epoch)


def _joins(partition: Partition, follower: int) -> bool:
    """Whether the leader has proposed to add the follower to the ISR."""
    pending = partition.in_sync.pending
    return pending is not None and follower in pending.maximal - frozenset(partition.in_sync.isr)


def _before(log: RecordLog, offset: int) -> Batch | None:
    """Return the batch with the record right below ``offset``, None if it is not there."""
    if not log.start < offset <= log.end:
        return None
    return log.batches[bisect_left(log.batches, offset, key=_base) - 1]


def _base(batch: Batch) -> int:
    return batch.base_offset
