"""The rules about the data planes of all brokers, each at its edge."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.effects import StartAt
from kraftwreck.nodes.replication.events import Settings
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.systems.kraft.simulated import record_watch
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from kraftwreck.systems.kraft.simulated.record_watch import (
    RecordWatch,
    identity,
    least_in_sync,
)
from tests.simulation.replicas import BROKERS, KEY, Brokers, batch

pytestmark = pytest.mark.interpreted

FIRST, SECOND, THIRD = batch(0, 4, 1), batch(4, 6, 2), batch(6, 10, 3)
OTHER = replace(FIRST, crc=99)


class Watched(Brokers):
    """Brokers whose replicas :class:`RecordWatch` judges."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch, record_watch)
        self.watch = RecordWatch(self.world, self.failures)
        self.logs = self.watch.logs
        self.world.on_emit.append(self.watch._on_emit)

    def committed(self, *batches: Batch) -> None:
        """Commit batches, each in its own epoch."""
        topic = self.watch.topic(KEY)
        topic.committed += [identity(each) for each in batches]
        topic.committed_in += [each.leader_epoch for each in batches]

    def metadata(self, isr: tuple[int, ...], epoch: int = 1) -> None:
        """Let the controllers commit an ISR."""
        self.image.partitions[KEY] = SimpleNamespace(leader_epoch=epoch, isr=isr)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_what_older_epochs_committed_ends_before_the_first_batch_of_the_epoch(
    brokers: Watched,
) -> None:
    brokers.committed(FIRST, SECOND, THIRD)
    ends = [brokers.watch.committed_before(KEY, epoch) for epoch in (1, 2, 3, 4)]
    assert ends == [0, 4, 6, 10]


def test_a_committed_batch_is_found_by_its_first_offset(brokers: Watched) -> None:
    brokers.committed(FIRST, SECOND)
    found = [brokers.watch.committed_at(KEY, offset) for offset in (0, 1, 4, 6)]
    assert found == [identity(FIRST), None, identity(SECOND), None]


# --- one replica --------------------------------------------------------------------------


@pytest.mark.parametrize(("hw", "broken"), [(4, []), (5, ["D5"])])
def test_no_high_watermark_is_above_the_log_end(
    brokers: Watched, hw: int, broken: list[str]
) -> None:
    brokers.has(5, FIRST, hw=hw)
    assert brokers.emit(5) == broken


@pytest.mark.parametrize(("hw", "broken"), [(4, []), (3, ["D11"])])
def test_no_log_begins_above_its_high_watermark(
    brokers: Watched, hw: int, broken: list[str]
) -> None:
    brokers.has(5, SECOND, start=4, hw=hw)
    assert brokers.emit(5) == broken


@pytest.mark.parametrize(("start", "broken"), [(4, []), (3, ["D11"])])
def test_no_log_start_goes_back(brokers: Watched, start: int, broken: list[str]) -> None:
    brokers.has(5, SECOND, start=4, hw=4)
    brokers.emit(5)
    brokers.has(5, SECOND, start=start, hw=5)
    assert brokers.emit(5) == broken


@pytest.mark.parametrize(("offset", "broken"), [(4, []), (5, ["D11"])])
def test_no_emptied_log_begins_later_than_another_has_begun(
    brokers: Watched, offset: int, broken: list[str]
) -> None:
    brokers.has(4, SECOND, start=4, hw=6, leads=True)
    brokers.emit(4)
    brokers.watch._on_disk(brokers.hosts[5], StartAt(KEY, offset))
    assert [each for each in brokers.broken if each == "D11"] == broken


@pytest.mark.parametrize(
    ("life", "epoch", "partition_epoch", "broken"),
    [(1, 2, 3, []), (1, 1, 3, ["D17"]), (1, 2, 2, ["D17"]), (1, 3, 3, []), (2, 1, 2, [])],
)
def test_a_running_broker_returns_to_no_older_metadata(
    brokers: Watched, life: int, epoch: int, partition_epoch: int, broken: list[str]
) -> None:
    brokers.has(5, FIRST, epoch=2, partition_epoch=3)
    brokers.emit(5)
    brokers.hosts[5].life = life
    brokers.has(5, FIRST, hw=1, epoch=epoch, partition_epoch=partition_epoch)
    assert brokers.emit(5) == broken


# --- leaders ------------------------------------------------------------------------------


@pytest.mark.parametrize(("hw", "broken"), [(4, []), (3, ["D5"])])
def test_the_high_watermark_of_a_leader_does_not_go_back(
    brokers: Watched, hw: int, broken: list[str]
) -> None:
    for number in BROKERS:
        brokers.has(number, FIRST)
    brokers.has(4, FIRST, hw=0, leads=True)
    assert brokers.emit(4) == []
    brokers.has(4, FIRST, hw=4, leads=True)
    assert brokers.emit(4) == []
    brokers.has(4, FIRST, hw=hw, leads=True, isr=(4, 5))
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("least", "broken"), [(2, []), (3, ["D8"])])
def test_an_isr_of_the_least_size_commits(brokers: Watched, least: int, broken: list[str]) -> None:
    brokers.has(5, FIRST)
    settings = Settings(min_insync=least)
    brokers.has(4, FIRST, hw=4, leads=True, isr=(4, 5), settings=settings)
    assert brokers.emit(4) == broken
    assert brokers.watch.committed_end(KEY) == 4


@pytest.mark.parametrize(("epoch", "broken"), [(1, []), (2, ["D8"])])
def test_leaders_count_from_the_one_on_that_lost_records_legally(
    brokers: Watched, epoch: int, broken: list[str]
) -> None:
    brokers.watch.topic(KEY).baseline = 2
    alone = Settings(min_insync=3)
    brokers.has(4, FIRST, hw=4, epoch=epoch, leads=True, isr=(4,), settings=alone)
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("end", "broken"), [(6, []), (4, ["D8"])])
def test_all_members_have_what_a_leader_commits(
    brokers: Watched, end: int, broken: list[str]
) -> None:
    brokers.has(5, *[FIRST, SECOND][: end // 3], epoch=2)
    brokers.has(4, FIRST, SECOND, hw=6, epoch=2, leads=True, isr=(4, 5))
    assert brokers.emit(4) == broken


def test_a_leader_with_another_batch_than_the_committed_one_breaks_d2(brokers: Watched) -> None:
    """It has committed nothing itself: its high watermark is where that of the epoch was."""
    brokers.committed(FIRST)
    brokers.has(4, OTHER, hw=4, leads=True)
    assert brokers.emit(4) == ["D2"]


@pytest.mark.parametrize(("hw", "broken"), [(3, []), (4, ["D2"])])
def test_a_follower_has_the_committed_batches_below_its_high_watermark(
    brokers: Watched, hw: int, broken: list[str]
) -> None:
    brokers.committed(FIRST)
    brokers.has(5, OTHER, hw=hw)
    assert brokers.emit(5) == broken


def test_only_a_leader_that_commits_more_has_advanced(brokers: Watched) -> None:
    heard: list[int] = []
    brokers.watch.on_advanced.append(lambda host, partition: heard.append(partition.hw))
    brokers.has(5, FIRST)
    for hw, isr in ((0, (4, 5)), (0, (4,)), (4, (4,))):
        brokers.has(4, FIRST, hw=hw, leads=True, isr=isr)
        brokers.emit(4)
    assert (heard, brokers.broken) == ([4], [])


def test_a_log_that_was_deleted_to_its_end_has_no_batch_to_commit(brokers: Watched) -> None:
    """The batches up to 6 were committed and deleted in one step; no record followed."""
    brokers.has(4, start=6, hw=6, leads=True, isr=(4,))
    assert brokers.emit(4) == []


@pytest.mark.parametrize(
    ("flush_messages", "losses", "broken"),
    [(1, 1, ["D1"]), (2, 1, []), (2, 0, ["D1"])],
)
def test_a_loss_of_power_takes_only_records_that_were_in_memory(
    brokers: Watched, flush_messages: int, losses: int, broken: list[str]
) -> None:
    """With ``flush.messages=1`` what was committed was on the disks of the whole ISR."""
    brokers.committed(FIRST)
    brokers.hosts[4].disk.losses = losses
    brokers.has(4, epoch=2, leads=True, settings=Settings(flush_messages=flush_messages))
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("start", "broken"), [(0, ["D1"]), (4, [])])
def test_batches_that_a_leader_had_deleted_at_a_legal_loss_are_not_missed_later(
    brokers: Watched, start: int, broken: list[str]
) -> None:
    """Its log is empty and names no epoch, so an old replica keeps other batches below the end of
    that log, and may lead before it hears of the deletion."""
    brokers.committed(FIRST, SECOND)
    brokers.hosts[4].disk.losses = 1
    lossy = Settings(flush_messages=2)
    kept = [FIRST] if start < 4 else []
    brokers.has(4, *kept, start=start, hw=4, epoch=3, leads=True, settings=lossy)
    assert brokers.emit(4) == []
    assert brokers.watch.committed_end(KEY) == 4
    brokers.has(5, OTHER, epoch=4, leads=True, settings=lossy)
    assert brokers.emit(5) == broken
    assert brokers.watch.committed_end(KEY) == (4 if start else 0)


def test_a_leader_of_the_first_epoch_after_a_legal_loss_has_the_older_records(
    brokers: Watched,
) -> None:
    brokers.committed(FIRST)
    brokers.watch.topic(KEY).baseline = 2
    brokers.has(4, epoch=2, leads=True)
    assert brokers.emit(4) == ["D1"]


def test_a_leader_need_not_have_what_its_own_or_a_newer_epoch_committed(brokers: Watched) -> None:
    brokers.committed(FIRST, SECOND)
    brokers.has(4, FIRST, epoch=2, leads=True)
    assert brokers.emit(4) == []
    brokers.has(5, FIRST, epoch=3, leads=True)
    assert brokers.emit(5) == ["D1"]


def test_a_leader_need_not_have_what_was_deleted(brokers: Watched) -> None:
    brokers.committed(FIRST, SECOND)
    brokers.has(4, SECOND, start=4, hw=6, epoch=3, leads=True)
    assert brokers.emit(4) == []


@pytest.mark.parametrize(
    ("epoch", "sequence", "broken"),
    [(0, 4, []), (0, 5, ["D3"]), (0, 3, ["D3"]), (1, 0, []), (1, 4, ["D3"])],
)
def test_sequence_numbers_have_no_gap_and_no_repetition(
    brokers: Watched, epoch: int, sequence: int, broken: list[str]
) -> None:
    own = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first = batch(0, 4, **own)
    second = batch(4, 6, **own | {"producer_epoch": epoch, "base_sequence": sequence})
    brokers.has(4, first, second, hw=6, leads=True, isr=(4,))
    assert brokers.emit(4) == broken


def test_sequence_numbers_go_on_with_0_and_no_epoch_goes_back(brokers: Watched) -> None:
    own = {"producer_id": 7, "producer_epoch": 1}
    first = batch(0, 2, **own, base_sequence=(1 << 31) - 2)
    topic = brokers.watch.topic(KEY)
    topic.producers[7] = 1, (1 << 31) - 3, 0
    second = batch(2, 4, **own, base_sequence=0)
    older = batch(4, 6, producer_id=7, producer_epoch=0, base_sequence=0)
    brokers.has(4, first, second, hw=4, leads=True, isr=(4,))
    assert brokers.emit(4) == []
    brokers.has(4, first, second, older, hw=6, leads=True, isr=(4,))
    assert brokers.emit(4) == ["D3"]


@pytest.mark.parametrize(("began", "broken"), [(4, ["D3"]), (5, [])])
def test_a_leader_that_never_had_the_batch_before_takes_any_sequence_number(
    brokers: Watched, began: int, broken: list[str]
) -> None:
    brokers.watch.topic(KEY).producers[7] = 0, 1, 4
    brokers.committed(FIRST, batch(4, 6))
    later = batch(6, 7, producer_id=7, producer_epoch=0, base_sequence=3)
    brokers.has(4, later, start=6, hw=7, leads=True, isr=(4,))
    brokers.logs._logs[4, KEY].began = began
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("end", "broken"), [(4, ["D9"]), (6, [])])
def test_a_replica_enters_the_isr_with_the_committed_records(
    brokers: Watched, end: int, broken: list[str]
) -> None:
    log = [batch(0, 4), batch(4, 6)]
    brokers.has(5, *log[: end // 3])
    brokers.has(4, *log, hw=6, leads=True, isr=(4,))
    brokers.emit(4)
    brokers.has(4, *log, hw=6, leads=True, isr=(4, 5))
    assert brokers.emit(4) == broken


# --- commit.mode=quorum -------------------------------------------------------------------

QUORUM = Settings(quorum=True)


@pytest.mark.parametrize(
    ("replicas", "adding", "least"), [(3, 0, 2), (4, 0, 3), (5, 0, 3), (4, 1, 2), (1, 0, 1)]
)
def test_a_quorum_is_a_majority_of_the_replicas_that_stay(
    replicas: int, adding: int, least: int
) -> None:
    assignment = SimpleNamespace(replicas=tuple(range(replicas)), adding=tuple(range(adding)))
    partition: Any = SimpleNamespace(settings=QUORUM, assignment=assignment)
    assert least_in_sync(partition) == least


@pytest.mark.parametrize(("end", "broken"), [(6, []), (4, ["D15"])])
def test_a_majority_has_what_a_quorum_commits(
    brokers: Watched, end: int, broken: list[str]
) -> None:
    """Broker 5 has lost power, so its disk is no proof of D8."""
    log = [batch(0, 4), batch(4, 6)]
    brokers.has(5, *log[: end // 3])
    brokers.hosts[5].disk.losses = 1
    brokers.has(6)
    brokers.has(4, *log, hw=6, leads=True, isr=(4, 5), settings=QUORUM)
    assert brokers.emit(4) == broken


@pytest.mark.parametrize(("end", "broken"), [(6, []), (4, ["D8", "D15"])])
def test_each_committed_member_has_what_a_quorum_commits(
    brokers: Watched, end: int, broken: list[str]
) -> None:
    """D8 is broken as the leader does not count broker 6, and D15 if it lacks records, too."""
    log = [batch(0, 4), batch(4, 6)]
    brokers.has(5, *log)
    brokers.has(6, *log[: end // 3])
    brokers.metadata((4, 5, 6))
    brokers.has(4, *log, hw=6, leads=True, isr=(4, 5, 6), settings=QUORUM)
    assert brokers.emit(4) == broken


# --- the end of a run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hw", "baseline", "broken"), [(4, -1, ["D6"]), (4, 1, ["D6"]), (4, 2, []), (3, -1, [])]
)
def test_in_the_end_each_replica_has_the_committed_batches(
    brokers: Watched, hw: int, baseline: int, broken: list[str]
) -> None:
    """One that last was in an epoch before a legal loss need not have them."""
    brokers.has(5, OTHER, hw=hw)
    brokers.emit(5)
    brokers.committed(FIRST)
    brokers.watch.topic(KEY).baseline = baseline
    brokers.watch.finish()
    assert brokers.broken == broken


def test_in_the_end_deleted_batches_are_not_missed(brokers: Watched) -> None:
    brokers.has(5, SECOND, start=4, hw=6)
    brokers.emit(5)
    brokers.committed(FIRST, SECOND)
    brokers.watch.finish()
    assert not brokers.broken
    brokers.logs._logs[5, KEY] = RecordLog(4, [replace(SECOND, crc=99)])
    brokers.watch.finish()
    assert brokers.broken == ["D6"]
