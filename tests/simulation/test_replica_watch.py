"""The rules about how replicas follow, each at its edge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import Peer, Settings
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.systems.kraft.simulated import record_watch, replica_watch
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch, identity
from kraftwreck.systems.kraft.simulated.replica_watch import ReplicaWatch
from tests.simulation.replicas import KEY, Brokers, batch

pytestmark = pytest.mark.interpreted

FIRST, SECOND, THIRD = batch(0, 4), batch(4, 6), batch(6, 10)


class Following(Brokers):
    """Brokers whose replicas :class:`ReplicaWatch` judges; broker 4 leads epoch 1."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch, record_watch, replica_watch)
        self.watch = RecordWatch(self.world, self.failures)
        self.logs = self.watch.logs
        self.watch.topic(KEY).leaders[1] = 4
        self.rules = ReplicaWatch(self.world, self.failures, self.watch)
        self.world.on_emit.append(self.rules._on_emit)

    def append(self, *log: Any) -> list[str]:
        """Let broker 5 append the last batch of ``log``; return the rules that are broken."""
        self.has(5, *log)
        self.rules._appended(self.hosts[5], KEY, log[-1])
        return self.broken

    def cut(self, *removed: Any) -> list[str]:
        """Let broker 5 cut batches; return the rules that are broken."""
        self.rules._cut(self.hosts[5], KEY, list(removed))
        return self.broken


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following(monkeypatch)


@pytest.mark.parametrize(("start", "broken"), [(4, ["D6"]), (5, [])])
def test_a_follower_appends_a_batch_that_its_leader_has(
    brokers: Following, start: int, broken: list[str]
) -> None:
    """A batch below the leader's log start may have been deleted."""
    brokers.has(4, THIRD, start=start, leads=True)
    assert brokers.append(replace(SECOND, crc=99)) == broken


@pytest.mark.parametrize(("start", "broken"), [(0, ["D6"]), (1, [])])
def test_a_follower_appends_after_a_batch_that_its_leader_has(
    brokers: Following, start: int, broken: list[str]
) -> None:
    brokers.has(4, FIRST, SECOND, start=start, leads=True)
    assert brokers.append(SECOND) == []
    assert brokers.append(replace(FIRST, crc=99), SECOND) == broken


@pytest.mark.parametrize(
    ("removed", "broken"), [(SECOND, []), (FIRST, ["D1"]), (replace(FIRST, crc=99), [])]
)
def test_no_committed_batch_is_cut(brokers: Following, removed: Any, broken: list[str]) -> None:
    topic = brokers.watch.topic(KEY)
    topic.committed.append(identity(FIRST))
    brokers.has(5, FIRST)
    assert brokers.cut(removed) == broken


@pytest.mark.parametrize("deleted", [False, True])
def test_the_records_of_a_deleted_topic_may_be_cut(brokers: Following, deleted: bool) -> None:
    brokers.watch.topic(KEY).committed.append(identity(FIRST))
    brokers.has(5, FIRST)
    if not deleted:
        brokers.image.partitions[KEY] = None
    brokers.watch._applied(brokers.image)
    assert brokers.cut(FIRST) == ([] if deleted else ["D1"])


def test_no_batch_is_cut_that_the_leader_has(brokers: Following) -> None:
    brokers.has(4, FIRST, SECOND, leads=True)
    brokers.has(5, FIRST)
    assert brokers.cut(replace(SECOND, crc=99)) == []
    assert brokers.cut(SECOND) == ["D6"]


@pytest.mark.parametrize(("hw", "broken"), [(4, []), (3, ["L13"])])
def test_the_high_watermark_is_where_the_isr_allows_it(
    brokers: Following, hw: int, broken: list[str]
) -> None:
    brokers.has(5, FIRST)
    brokers.has(4, FIRST, SECOND, hw=hw, leads=True, isr=(4, 5))
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("least", "broken"), [(2, ["L13"]), (3, [])])
def test_an_isr_below_its_least_size_allows_nothing(
    brokers: Following, least: int, broken: list[str]
) -> None:
    brokers.has(5, FIRST)
    settings = Settings(min_insync=least)
    brokers.has(4, FIRST, leads=True, isr=(4, 5), settings=settings)
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("behind_us", "broken"), [(0, []), (1, ["L13"])])
def test_a_replica_that_may_enter_the_isr_holds_the_high_watermark_back(
    brokers: Following, behind_us: int, broken: list[str]
) -> None:
    """For one and a half times the time that it may lag behind, and 100 ms."""
    leader = brokers.has(4, FIRST, SECOND, hw=4, leads=True, isr=(4,))
    leader.in_sync.remotes[5] = Remote(0, 4, broker_epoch=7)
    leader.with_.peers[5] = Peer(7, eligible=True)
    leader.with_.lag_us = 1_000_000
    leader.with_.now = 1_600_000 + behind_us
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("before", "broken"), [((4,), ["L13"]), ((4, 5), [])])
def test_a_replica_that_has_not_fetched_holds_nothing_back_unless_it_was_in_the_isr(
    brokers: Following, before: tuple[int, ...], broken: list[str]
) -> None:
    brokers.has(4, FIRST, hw=4, leads=True, isr=before)
    brokers.emit(4)
    leader = brokers.has(4, FIRST, SECOND, hw=4, leads=True, isr=(4,))
    leader.in_sync.remotes = {5: Remote(0, broker_epoch=7)}
    leader.with_.peers[5] = Peer(7, eligible=True)
    assert brokers.emit(4) == broken


def test_the_members_of_an_isr_are_forgotten_when_another_broker_leads(brokers: Following) -> None:
    brokers.has(4, FIRST, hw=4, leads=True, isr=(4, 5))
    brokers.emit(4)
    brokers.has(4, FIRST, hw=4)
    brokers.emit(4)
    leader = brokers.has(4, FIRST, SECOND, hw=4, leads=True, isr=(4,))
    leader.in_sync.remotes = {5: Remote(0, broker_epoch=7)}
    leader.with_.peers[5] = Peer(7, eligible=True)
    assert brokers.emit(4) == ["L13"]
