"""Rules about the state of replicas and about refusals: each is broken by a planted bug."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.log.partition.partition_log import Flush, PartitionLog
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.metadata.eligibility import (
    ELIGIBLE_LEADER_REPLICAS,
    ELR_VERSION,
    METADATA_VERSION,
)
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NONE, NOT_ENOUGH_REPLICAS
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import following, producers
from kraftwreck.nodes.replication.events import (
    UNLIMITED,
    AppendFailed,
    Assignment,
    FetchReceived,
    Settings,
)
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.nodes.replication.following import Following
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.in_sync import InSync
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.partition import CONSUMER, Appended, Partition
from kraftwreck.nodes.replication.producers import Producers
from kraftwreck.nodes.replication.replicas import Replicas
from kraftwreck.nodes.replication.requests import Fetching, Producing
from kraftwreck.nodes.replication.sessions import Sessions
from kraftwreck.nodes.server.log_directory import LogDirectory
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Filesystem
from kraftwreck.systems.kraft.simulated import (
    cluster,
)
from kraftwreck.systems.kraft.simulated.binding import kraft_world
from kraftwreck.systems.kraft.simulated.data_disk import DataDisk
from kraftwreck.systems.kraft.simulated.partition_service import PartitionService
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, RecordLogs, replicas_on
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch, _Seen
from kraftwreck.systems.kraft.simulated.replica_states import ReplicaStates
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.workloads.produce import WORKLOAD
from tests.replication.test_planted import truncates_to_the_high_watermark
from tests.replication.world import KEY
from tests.simulation.test_record_rules import RUNS, campaign, fail_unless_broken, runs

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
SECOND = 1_000_000


def refuses_in_vain(patch: Patch) -> None:
    append = Partition.append

    def planted(self: Partition, batch: Batch, acks: int) -> Appended:
        refused = batch.crc % 7 == 0 and self.leading
        return Appended(NOT_ENOUGH_REPLICAS) if refused else append(self, batch, acks)

    patch.setattr(Partition, "append", planted)


def answers_long_polls_at_once(patch: Patch) -> None:
    """Only those of consumers: followers would keep the brokers busy."""
    enough = Fetching._is_enough

    def planted(self: Fetching, reads: tuple[out.ReadPart, ...]) -> bool:
        return self._event.replica_id == CONSUMER or enough(self, reads)

    patch.setattr(Fetching, "_is_enough", planted)


def remembers_no_producer(patch: Patch) -> None:
    """Producers are noted, but only with their first batch."""
    append = Producers.append

    def planted(self: Producers, batch: Batch) -> None:
        if batch.base_sequence == 0:
            append(self, batch)

    patch.setattr(Producers, "append", planted)


def remembers_one_batch(patch: Patch) -> None:
    """Of each producer only the last batch is known, so that older ones cannot be repeated."""
    patch.setattr(producers, "KEPT", 1)


def lowers_the_high_watermark(patch: Patch) -> None:
    """A follower takes over whatever its leader says."""
    append = Following._append

    def planted(self: Following, log: LogView, part: Any, now: int) -> None:
        append(self, log, part, now)
        self.partition.hw = max(log.start, min(log.end, part.high_watermark) - now % 2)

    patch.setattr(Following, "_append", planted)


def vouches_before_it_flushes(patch: Patch) -> None:
    ask = Durability.ask

    def planted(self: Durability, log_end: int, now: int) -> int:
        self.end = max(self.end, log_end)
        return ask(self, log_end, now)

    patch.setattr(Durability, "ask", planted)
    patch.setattr(PartitionFiles, "_flush", lambda self, key, number: None)


def keeps_slow_followers(patch: Patch) -> None:
    patch.setattr(Partition, "maybe_shrink", lambda self: None)


def deletes_all_closed_segments(patch: Patch) -> None:
    def planted(self: LogView, settings: Any, high_watermark: int, wall_ms: int) -> int:
        ends = [each.end_offset for each in self.segments if each.end_offset <= high_watermark]
        return max(ends, default=self.start)

    patch.setattr(LogView, "retained_from", planted)


def returns_the_batch_before(patch: Patch) -> None:
    read = PartitionFiles.read

    def planted(self: PartitionFiles, key: Any, wanted: out.Slice, limit: int) -> Any:
        start = self._replicas[key].log.start_offset
        before = out.Slice(max(start, wanted.offset - 1), wanted.end_offset, wanted.max_bytes)
        return read(self, key, before, limit)

    patch.setattr(PartitionFiles, "read", planted)


def acknowledges_when_deposed(patch: Patch) -> None:
    """A leader that is deposed acknowledges what it has not replicated."""
    outcome = Producing._outcome

    def planted(self: Producing, partition: Partition | None, end: int) -> int | None:
        deposed = partition is not None and not partition.leading
        return NONE if deposed else outcome(self, partition, end)

    patch.setattr(Producing, "_outcome", planted)


def keeps_waiting_when_deposed(patch: Patch) -> None:
    """A produce whose leader is deposed waits for its time-out."""
    outcome = Producing._outcome

    def planted(self: Producing, partition: Partition | None, end: int) -> int | None:
        deposed = partition is not None and not partition.leading
        return None if deposed else outcome(self, partition, end)

    patch.setattr(Producing, "_outcome", planted)


def answers_old_requests_of_sessions(patch: Patch) -> None:
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        session = self._by_id.get(event.session_id)
        if session is not None and 0 < event.session_epoch < session.epoch:
            event = replace(event, session_epoch=session.epoch)
        return resolve(self, event)

    patch.setattr(Sessions, "resolve", planted)


def ignores_changes_of_isrs(patch: Patch) -> None:
    assigned = Partition.assigned

    def planted(self: Partition, new: Assignment) -> None:
        if new.leader_epoch != self.assignment.leader_epoch or self.log is None:
            assigned(self, new)

    patch.setattr(Partition, "assigned", planted)


def fetches_again_soon(patch: Patch) -> None:
    patch.setattr(following, "BACKOFF_US", 20_000)


def stores_no_high_watermark(patch: Patch) -> None:
    watermarks = Replicas.watermarks

    def planted(self: Replicas) -> out.WriteHighWatermarks:
        return out.WriteHighWatermarks(dict.fromkeys(watermarks(self).offsets, 0))

    patch.setattr(Replicas, "watermarks", planted)


def forgets_flush_ms(patch: Patch) -> None:
    due = Durability.due

    def planted(self: Durability, log_end: int, settings: Settings) -> int:
        return due(self, log_end, replace(settings, flush_ms=UNLIMITED))

    patch.setattr(Durability, "due", planted)


def names_other_epochs(patch: Patch) -> None:
    members = InSync.members

    def planted(self: InSync, isr: Any, own: int, peers: Any) -> tuple[tuple[int, int], ...]:
        named = members(self, isr, own, peers)
        return tuple((each, epoch + (each != own)) for each, epoch in named)

    patch.setattr(InSync, "members", planted)


def says_an_earlier_end(patch: Patch) -> None:
    at = Partition.offset_at

    def planted(self: Partition, timestamp: int, epoch: int, replica_id: int) -> out.OffsetPart:
        part = at(self, timestamp, epoch, replica_id)
        return replace(part, offset=part.offset - 1) if part.offset > 0 else part

    patch.setattr(Partition, "offset_at", planted)


def keeps_the_recovery_point(patch: Patch) -> None:
    patch.setattr(LogDirectory, "lower_recovery_point", lambda *_: None)


def stores_points_before_it_flushes(patch: Patch) -> None:
    flush = PartitionFiles._flush

    def planted(self: PartitionFiles, key: PartitionKey, number: int) -> None:
        replica = self._replicas[key]
        self._directory.recovery_points[replica.name] = replica.log.end_offset
        self._elsewhere(self._directory.write_recovery_points, lambda _: None)
        flush(self, key, number)

    patch.setattr(PartitionFiles, "_flush", planted)


def fetches_before_it_flushes(patch: Patch) -> None:
    patch.setattr(Following, "may_fetch", lambda self: True)


def acknowledges_before_it_flushes(patch: Patch) -> None:
    outcome = Producing._outcome

    def planted(self: Producing, partition: Partition | None, end: int) -> int | None:
        found = outcome(self, partition, end)
        return NONE if found is None and self._acks == 1 else found

    patch.setattr(Producing, "_outcome", planted)


def takes_a_flush_for_one_of_the_present(patch: Patch) -> None:
    """Batches that were appended while a flush ran count as durable."""

    def planted(self: PartitionLog, flush: Flush) -> None:
        self.recovery_point = self.end_offset

    patch.setattr(PartitionLog, "flushed", planted)


def wakes_no_fetch(patch: Patch) -> None:
    """A long poll is looked at again only when its time is over."""
    attempt = Fetching.attempt
    began: set[int] = set()

    def planted(self: Fetching, *, late: bool) -> bool:
        first = id(self) not in began
        began.add(id(self))
        return (first or late) and attempt(self, late=late)

    patch.setattr(Fetching, "attempt", planted)


def wakes_no_produce(patch: Patch) -> None:
    attempt = Producing.attempt
    began: set[int] = set()

    def planted(self: Producing, *, late: bool) -> bool:
        first = id(self) not in began
        began.add(id(self))
        return (first or late or bool(self._unopened)) and attempt(self, late=late)

    patch.setattr(Producing, "attempt", planted)


def forgets_producers_of_deleted_records(patch: Patch) -> None:
    """KAFKA-7190: a producer is known only as long as the log has one of its batches."""
    delete_up_to = LogView.delete_up_to

    def planted(self: LogView, start_offset: int) -> None:
        delete_up_to(self, start_offset)
        known = self.producers._by_id
        for producer in list(known):
            if known[producer].kept[-1].last_offset < start_offset:
                del known[producer]

    patch.setattr(LogView, "delete_up_to", planted)


def remembers_followers_of_an_earlier_lead(patch: Patch) -> None:
    assigned, led_anew = Partition.assigned, InSync.led_anew

    def planted(self: Partition, new: Assignment) -> None:
        before = self.in_sync
        assigned(self, new)
        self.in_sync = before

    def keeps(self: InSync, *args: Any, keep: bool) -> None:
        led_anew(self, *args, keep=True)

    patch.setattr(Partition, "assigned", planted)
    patch.setattr(InSync, "led_anew", keeps)


PLANTED: list[tuple[Callable[[Patch], None], str]] = [
    (forgets_producers_of_deleted_records, "D3"),
    (remembers_followers_of_an_earlier_lead, "D9"),
    (refuses_in_vain, "D16"),
    (answers_long_polls_at_once, "D16"),
    (remembers_no_producer, "D3"),
    (remembers_one_batch, "D3"),
    (lowers_the_high_watermark, "D5"),
    (vouches_before_it_flushes, "D1"),
    (keeps_slow_followers, "L13"),
    (deletes_all_closed_segments, "D11"),
    (returns_the_batch_before, "D2"),
    (acknowledges_when_deposed, "D1"),
    (truncates_to_the_high_watermark, "D6"),
    (keeps_waiting_when_deposed, "D16"),
    (answers_old_requests_of_sessions, "D16"),
    (ignores_changes_of_isrs, "D17"),
    (fetches_again_soon, "L8"),
    (stores_no_high_watermark, "D5"),
    (names_other_epochs, "D9"),
    (wakes_no_fetch, "L13"),
    (wakes_no_produce, "L13"),
    (says_an_earlier_end, "D13"),
    (keeps_the_recovery_point, "D1"),
    (stores_points_before_it_flushes, "D1"),
    (fetches_before_it_flushes, "D1"),
    (acknowledges_before_it_flushes, "D1"),
    (takes_a_flush_for_one_of_the_present, "D1"),
]


@pytest.mark.many_runs
@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[f"{p.__name__}-{r}" for p, r in PLANTED])
def test_a_planted_bug_breaks_its_rule(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    fail_unless_broken(rule)


def test_a_late_flush_breaks_d1(monkeypatch: Patch) -> None:
    forgets_flush_ms(monkeypatch)
    drawn = campaign("partition", "kill")
    for seed in range(RUNS):
        options, knobs = drawn.options(seed), drawn.knobs(seed)
        run = simulate(options, WORKLOAD, drawn.schedule(seed), Injector, knobs=knobs)
        if any("has not flushed" in failure.explanation for failure in run.failures):
            return
    pytest.fail("no run was found")


def test_a_flush_waits_for_a_full_disk() -> None:
    """D1 judges how long a flush takes from when the disk works again."""
    failures = Failures()
    world: Any = SimpleNamespace(now=0)
    host: Any = SimpleNamespace(
        id=4,
        name="b1",
        disk=SimpleNamespace(trouble="full"),
        working=False,
        waited=lambda since, now, slack: now - since - slack,
    )
    partition: Any = SimpleNamespace(
        key=(bytes(16), 0),
        log=SimpleNamespace(end=7),
        settings=Settings(flush_ms=200),
        durability=SimpleNamespace(end=5, oldest=0),
        with_=SimpleNamespace(now=0),
    )
    watch: Any = SimpleNamespace(watches=False)
    states = ReplicaStates(world, failures, watch)
    for world.now in (0, 3 * SECOND, 6 * SECOND):
        states._judge_flush(host, partition)
    host.disk.trouble = None
    states._judge_flush(host, partition)
    world.now += 2 * SECOND
    states._judge_flush(host, partition)
    assert not failures
    world.now += SECOND
    states._judge_flush(host, partition)
    assert [failure.type for failure in failures.items] == ["D1"]


def test_a_log_without_room_is_judged_once_its_core_knows() -> None:
    """A step that fails to append to two logs causes two events."""
    first, second = (bytes(16), 0), (bytes(16), 1)
    disk = DataDisk.__new__(DataDisk)
    logs: Any = SimpleNamespace(full={first, second})
    disk._logs = logs
    host: Any = SimpleNamespace(disk=disk, caused=deque([AppendFailed(second, 7)]))
    cluster._begin_step(host, AppendFailed(first, 5))
    assert logs.full == {second}
    host.caused.clear()
    cluster._begin_step(host, AppendFailed(second, 7))
    assert logs.full == set()


def test_a_replica_may_begin_later_than_its_leader_and_not_earlier(monkeypatch: Patch) -> None:
    """One that led before has deleted records by itself."""
    services: list[PartitionService] = []
    began = PartitionService.__init__

    def kept(self: PartitionService, world: Any, failures: Any, logs: Any) -> None:
        began(self, world, failures, logs)
        services.append(self)

    monkeypatch.setattr(PartitionService, "__init__", kept)
    assert next(iter(runs())).failures == []
    (service,) = services
    assert service.unsettled() == []
    key, leader = next(
        (key, host)
        for host in service._brokers.values()
        for key, partition in replicas_on(host).items()
        if partition.leading and partition.hw > 0
    )
    (follower, *_) = [log for host, log in service._logs.replicas(key) if host != leader.id]
    follower.start += 1
    assert service.unsettled() == []
    follower.start -= 2
    assert "begin before" in service.unsettled()[0]


@pytest.mark.parametrize(("level", "waits"), [(1, True), (0, False)])
def test_the_last_known_leader_is_a_candidate_where_replicas_may_be_eligible(
    level: int, waits: bool
) -> None:
    """A client had switched the feature off (seed 5200179)."""
    partition = SimpleNamespace(leader=-1, isr=(), elr=(), last_known_elr=(1,), replicas=(1,))
    features = {ELR_VERSION: level, METADATA_VERSION: ELIGIBLE_LEADER_REPLICAS}
    image = SimpleNamespace(last_offset=1, features=features, partitions={KEY: partition})
    node: Any = Node.__new__(Node)
    node.image = SimpleNamespace(stable=image)
    service = PartitionService.__new__(PartitionService)
    service._brokers = {1: cast(Any, SimpleNamespace(node=node))}
    assert bool(service.unsettled()) is waits


def test_a_replica_that_was_removed_is_judged_anew() -> None:
    world = kraft_world(["b1"], lambda *_: SimpleNamespace(), 1)
    (host,) = world.hosts
    host.disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1, files=Filesystem())
    watch = RecordWatch(world, Failures())
    watch._seen[host.id, KEY] = _Seen((), 1, 1, 0, 5, 5, (), False)
    for told in world.on_disk:
        told(host, out.RemoveLog(KEY))
    assert not watch._seen


def test_metadata_stays_committed_when_the_only_node_that_knows_it_dies() -> None:
    """A controller has answered with a smaller ISR before any other node had that record (D8)."""
    world = kraft_world(["c1", "b1"], lambda *_: SimpleNamespace(), 1)
    controller, broker = world.hosts
    broker.disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1, files=Filesystem())
    watch = RecordWatch(world, Failures())
    for host, offset in ((broker, 3), (controller, 4)):
        node: Any = Node.__new__(Node)
        known = SimpleNamespace(leader_epoch=offset)
        image = SimpleNamespace(last_offset=offset, partitions={KEY: known})
        node.broker, node.image = None, SimpleNamespace(stable=image)
        host.node = node
        for told in world.on_emit:
            told(host)
    controller.node = None
    newest = watch._newest(KEY)
    assert newest is not None and newest.leader_epoch == 4


@pytest.mark.parametrize(("newest", "counted"), [(6, 0), (9, 7), (None, 7)])
def test_only_a_deposed_leader_counts_a_replica_that_was_removed(
    newest: int | None, counted: int, monkeypatch: Patch
) -> None:
    """It does not know that, and the replica may have come back empty (seed 9023)."""
    world = kraft_world(["b1"], lambda *_: SimpleNamespace(), 1)
    (host,) = world.hosts
    host.disk = DataDisk(bytes(16), settings=LogSettings(), segment_bytes=1, files=Filesystem())
    watch = RecordWatch(world, Failures())
    logs = RecordLogs(world, Failures())
    logs._logs[host.id, KEY] = RecordLog(start=7)
    for told in world.on_disk:
        told(host, out.RemoveLog(KEY))
    log = RecordLog(removed=logs._removed[host.id, KEY])
    known = None if newest is None else SimpleNamespace(leader_epoch=newest)
    monkeypatch.setattr(watch, "_newest", lambda key: known)
    leads: Any = SimpleNamespace(key=KEY, assignment=SimpleNamespace(leader_epoch=6))
    assert watch._gone(leads, log) == counted
    assert watch._gone(leads, RecordLog()) == 0
