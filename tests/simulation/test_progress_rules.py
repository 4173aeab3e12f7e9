"""Rules about what a broker believes of the progress of flushes and followers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import (
    FetchPart,
    FetchReceived,
    ProduceReceived,
    Settings,
    Together,
)
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import progress_watch
from kraftwreck.systems.kraft.simulated.progress_watch import ProgressWatch
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from kraftwreck.systems.kraft.simulated.replica_states import ReplicaStates

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
KEY: PartitionKey = (bytes(16), 0)
FOLLOWER = 5


class Flushing:
    """A replica with records that are not durable, in a topic with ``flush.ms``."""

    def __init__(self) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0)
        disk = SimpleNamespace(trouble=None)
        self.host: Any = SimpleNamespace(
            id=4, name="b1", disk=disk, working=False, waited=lambda since, now, slack: 0
        )
        self.log: Any = SimpleNamespace(start=0, end=7)
        watch: Any = SimpleNamespace(watches=False, logs=SimpleNamespace(of=lambda *_: self.log))
        self.states = ReplicaStates(world, self.failures, watch)
        self.partition: Any = SimpleNamespace(
            key=KEY,
            log=self.log,
            settings=Settings(flush_ms=200),
            durability=SimpleNamespace(end=5, oldest=1_000),
            with_=SimpleNamespace(now=1_000),
        )

    def judge(self, *, now: int, end: int, durable: int, oldest: int | None) -> list[str]:
        """Judge the replica at a time of its broker; return the rules that it broke so far."""
        self.partition.with_.now, self.log.end = now, end
        self.partition.durability.end, self.partition.durability.oldest = durable, oldest
        self.states._judge_flush(self.host, self.partition)
        return [failure.type for failure in self.failures.items]


def test_a_flush_keeps_the_time_of_what_was_appended_meanwhile() -> None:
    replica = Flushing()
    assert replica.judge(now=1_000, end=7, durable=5, oldest=1_000) == []
    assert replica.judge(now=2_000, end=9, durable=7, oldest=1_500) == []
    assert replica.judge(now=3_000, end=9, durable=9, oldest=None) == []


@pytest.mark.parametrize("oldest", [None, 2_500])
def test_a_forgotten_time_of_an_append_breaks_d1(oldest: int | None) -> None:
    replica = Flushing()
    replica.judge(now=1_000, end=7, durable=5, oldest=1_000)
    replica.judge(now=2_000, end=9, durable=7, oldest=1_000)
    assert replica.judge(now=3_000, end=9, durable=7, oldest=oldest) == ["D1"]


@pytest.mark.parametrize(("oldest", "broken"), [(2_500, []), (None, ["D1"])])
def test_the_time_of_an_append_is_known_without_flush_ms(
    oldest: int | None, broken: list[str]
) -> None:
    replica = Flushing()
    replica.partition.settings = Settings(flush_messages=3)
    replica.judge(now=1_000, end=7, durable=5, oldest=1_000)
    assert replica.judge(now=3_000, end=9, durable=7, oldest=oldest) == broken


@pytest.mark.parametrize(("durable", "broken"), [(4, []), (6, ["D1"])])
def test_a_durable_end_above_a_cut_breaks_d1(
    durable: int, broken: list[str], monkeypatch: Patch
) -> None:
    """Later appends do not hide it."""
    replica = Flushing()
    states = replica.states
    monkeypatch.setattr(states, "_judge_point", lambda host, key, log: None)
    states._told[replica.host.id, KEY] = 6
    replica.log.end = 4
    states._on_disk(replica.host, data.Truncate(KEY, 4))
    replica.log.end = 8
    replica.partition.durability.end = durable
    states._judge_told(replica.host, replica.partition)
    assert [failure.type for failure in replica.failures.items] == broken


def batch(base: int, end: int, epoch: int) -> Any:
    return SimpleNamespace(base_offset=base, next_offset=end, leader_epoch=epoch)


def pending(*members: int) -> Any:
    proposal = SimpleNamespace(isr=tuple((member, 7) for member in members))
    return SimpleNamespace(maximal=frozenset(members), proposal=proposal)


class Leading:
    """A leader of epoch 3 since offset 6, whose log ends at 10, and the fetches of a follower."""

    def __init__(self, patch: Patch, follower: int = FOLLOWER) -> None:
        self.failures, self.follower = Failures(), follower
        world: Any = SimpleNamespace(now=0, on_step=[])
        followers = SimpleNamespace(on_fetch=[])
        self.traffic: Any = SimpleNamespace(on_request=[], followers=followers)
        log = RecordLog(0, [batch(0, 4, 1), batch(4, 6, 2), batch(6, 10, 3)])
        watch: Any = SimpleNamespace(logs=SimpleNamespace(of=lambda *_: log), on_advanced=[])
        patch.setattr(progress_watch, "record_traffic", lambda _: self.traffic)
        disk = SimpleNamespace(logs=SimpleNamespace(full=set()))
        patch.setattr(progress_watch, "disk_of_records", lambda _: disk)
        ProgressWatch(world, self.failures, watch)
        self.world, self.watch = world, watch
        self.host: Any = SimpleNamespace(id=4, life=1, name="b1")
        self.remote = Remote(0)
        self.in_sync: Any = SimpleNamespace(isr=(4,), pending=None, remotes={follower: self.remote})
        self.leader: Any = SimpleNamespace(
            key=KEY,
            leading=True,
            log=SimpleNamespace(end=10, epochs=SimpleNamespace(entries=[(1, 0), (2, 4), (3, 6)])),
            with_=SimpleNamespace(now=0, peers={}),
            in_sync=self.in_sync,
            epoch_start=6,
            hw=0,
        )
        patch.setattr(progress_watch, "replicas_on", lambda _: {KEY: self.leader})

    @property
    def broken(self) -> list[str]:
        return [failure.type for failure in self.failures.items]

    def fetch(
        self, now: int, offset: int, epoch: int = -1, *, caught_up: int | None = None,
        proposes: bool = False, refuses: bool = False, together: bool = False,
        end: int | None = None, twice: bool = False, broker_epoch: int = 7,
    ) -> list[str]:  # fmt: skip
        """Let the follower fetch; return the rules that are broken so far.

        ``caught_up`` and ``end`` replace what the leader makes of the fetch. With ``together`` the
        same step handles a produce after it, with ``twice`` a copy of the fetch.
        """
        self.leader.with_.now = now
        part = FetchPart(KEY, offset, 100, 3, epoch)
        event = FetchReceived(1, (part,), self.follower, broker_epoch)
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event))
        self.traffic.on_request[0](self.host, message)
        if not refuses:
            self.remote.fetched(offset, 0, 7, 10, now)
        if end is not None:
            self.remote.end = end
        if caught_up is not None:
            self.remote.caught_up = caught_up
        if proposes:
            self.in_sync.pending = pending(4, FOLLOWER)
        produce = ProduceReceived(2, 1, 1_000, ())
        more = (produce,) if together else (event,) if twice else ()
        self.world.on_step[0](self.host, Together((event, *more)) if more else event)
        return self.broken


def test_a_follower_has_caught_up_when_it_fetched_before(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    assert leader.fetch(1_000, 4) == []
    assert leader.fetch(2_000, 10) == []
    assert leader.fetch(2_000, 9) == []


@pytest.mark.parametrize("follower", [0, FOLLOWER])
def test_a_follower_behind_that_counts_as_caught_up_breaks_d9(
    monkeypatch: Patch, follower: int
) -> None:
    leader = Leading(monkeypatch, follower)
    leader.fetch(1_000, 4)
    assert leader.fetch(2_000, 9, caught_up=2_000) == ["D9"]


def test_a_step_may_append_after_a_fetch(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 4)
    assert leader.fetch(2_000, 9, caught_up=2_000, together=True) == []
    assert leader.fetch(3_000, 9, caught_up=3_000) == ["D9"]


@pytest.mark.parametrize(("offset", "epoch"), [(4, 1), (5, 2), (6, 2), (10, 3), (0, 1), (0, 2)])
def test_a_fetch_of_the_same_log_counts(monkeypatch: Patch, offset: int, epoch: int) -> None:
    assert Leading(monkeypatch).fetch(1_000, offset, epoch) == []


def test_a_fetch_of_another_log_that_counts_breaks_d9(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    assert leader.fetch(1_000, 6, 1, refuses=True) == []
    assert leader.fetch(2_000, 6, 1) == ["D9"]
    assert leader.fetch(3_000, 10, 2) == ["D9"] * 2
    assert leader.fetch(4_000, 4, 0) == ["D9"] * 3


@pytest.mark.parametrize(("offset", "broken"), [(5, ["D9"]), (6, [])])
def test_a_proposed_replica_has_the_start_of_the_epoch(
    monkeypatch: Patch, offset: int, broken: list[str]
) -> None:
    leader = Leading(monkeypatch)
    assert leader.fetch(1_000, offset, 2, proposes=True) == broken


@pytest.mark.parametrize(("hw", "broken"), [(9, []), (10, ["D8"])])
def test_a_high_watermark_beyond_the_fetches_of_a_member_breaks_d8(
    monkeypatch: Patch, hw: int, broken: list[str]
) -> None:
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 9, 3, proposes=True)
    leader.fetch(2_000, 4, 1)
    leader.leader.hw = hw
    leader.watch.on_advanced[0](leader.host, leader.leader)
    assert leader.broken == broken


@pytest.mark.parametrize(("epoch", "broken"), [(-1, ["D7"]), (1, ["D7"]), (2, []), (3, [])])
def test_a_follower_names_the_epoch_of_its_last_record(
    monkeypatch: Patch, epoch: int, broken: list[str]
) -> None:
    leader = Leading(monkeypatch)
    fetch = data.FetchFrom(5, 1, 500, (FetchPart(KEY, 6, 100, 4, epoch),))
    leader.traffic.followers.on_fetch[0](leader.host, fetch)
    assert leader.broken == broken


@pytest.mark.parametrize(("end", "broken"), [(10, ["D9"]), (6, []), (4, ["D9"])])
def test_a_fetch_that_counts_is_where_the_log_of_its_follower_ends(
    monkeypatch: Patch, end: int, broken: list[str]
) -> None:
    """It may have been cut since the fetch before."""
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 10, 3)
    assert leader.fetch(2_000, 6, 2, end=end, caught_up=1_000) == broken


def test_a_fetch_that_does_not_count_changes_nothing(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 10, 3)
    assert leader.fetch(2_000, 6, 1, refuses=True) == []


def test_of_two_fetches_at_a_time_the_second_one_may_not_count(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 10, 3)
    assert leader.fetch(1_000, 6, 1, refuses=True) == []


@pytest.mark.parametrize(("broker_epoch", "broken"), [(-1, []), (0, ["D9"])])
def test_a_follower_without_a_broker_epoch_is_not_replaced(
    monkeypatch: Patch, broker_epoch: int, broken: list[str]
) -> None:
    leader = Leading(monkeypatch)
    leader.leader.with_.peers = {FOLLOWER: SimpleNamespace(epoch=8)}
    assert leader.fetch(1_000, 6, 2, broker_epoch=broker_epoch) == broken


def test_of_two_fetches_in_a_step_the_last_one_counts(monkeypatch: Patch) -> None:
    leader = Leading(monkeypatch)
    leader.fetch(1_000, 4, 1)
    assert leader.fetch(2_000, 6, 2, end=10, twice=True) == []


@pytest.mark.parametrize(("known", "broken"), [(7, []), (8, ["D9"]), (None, [])])
def test_the_fetch_of_a_replaced_process_does_not_count(
    monkeypatch: Patch, known: int | None, broken: list[str]
) -> None:
    """The fetches name broker epoch 7."""
    leader = Leading(monkeypatch)
    if known is not None:
        leader.leader.with_.peers = {FOLLOWER: SimpleNamespace(epoch=known)}
    assert leader.fetch(1_000, 6, 2) == broken
