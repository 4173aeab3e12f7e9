"""Topics in which a majority of the replicas commits (``commit.mode=quorum``)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.protocol.errors import INELIGIBLE_REPLICA, NONE, NOT_ENOUGH_REPLICAS
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication import quorum_commit
from kraftwreck.nodes.replication.in_sync import Pending
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.quorum_commit import (
    LATE_US,
    STEADY_US,
    Pace,
    least_in_sync,
    majority,
)
from tests.replication import judge
from tests.replication.judge import Quorum
from tests.replication.test_planted import RULES
from tests.replication.test_replicas import Broker, produced
from tests.replication.world import BROKERS, KEY, NUMBERS, batch

LATE_MS = LATE_US // 1000 + 1
STEADY_MS = STEADY_US // 1000 + 1


def proposed(effects: list[out.Effect]) -> list[int] | None:
    """Return the ISR that a broker proposes, None if it proposes none."""
    found = [each for each in effects if isinstance(each, out.AlterPartition)]
    return [broker for broker, _ in found[-1].proposals[0].isr] if found else None


def answer(broker: Broker, isr: tuple[int, ...], error: int = NONE, epoch: int = 11) -> list[Any]:
    """Answer the broker's only proposal."""
    (last,) = [each for each in broker.did if isinstance(each, out.AlterPartition)][-1:]
    altered = come.Altered(KEY, error, 3, epoch, isr, recovering=False)
    return broker.step(come.AlterPartitionAnswered(last.correlation, (altered,)))


def caught_up(**more: Any) -> Broker:
    """Return a leader whose followers 2 and 3 are in the ISR and have all of an empty log."""
    broker = Broker(isr=BROKERS, quorum=True, **more)
    broker.fetch(2, 0)
    broker.fetch(3, 0)
    return broker


def behind() -> Broker:
    """Return a leader whose follower 2 has a record that follower 3 lacks."""
    broker = caught_up()
    broker.produce(batch(1))
    broker.fetch(2, 1)
    return broker


def test_a_slow_follower_delays_a_record_by_one_proposal() -> None:
    broker = behind()
    assert broker.core.partitions[KEY].hw == 0, "follower 3 may still be elected"
    assert broker.core.deadline == LATE_US + 1
    assert proposed(broker.wait(LATE_MS)) == [1, 2]
    assert broker.core.partitions[KEY].hw == 0, "the removal is not committed yet"
    assert produced(answer(broker, (1, 2))) == (NONE, 0)
    broker.produce(batch(2))
    assert produced(broker.fetch(2, 2)) == (NONE, 1), "follower 3 delays no other record"


def test_a_slow_follower_of_another_topic_is_waited_for() -> None:
    broker = Broker(isr=BROKERS, min_insync=2)
    broker.fetch(3, 0)
    broker.produce(batch(1))
    broker.fetch(2, 1)
    assert proposed(broker.wait(LATE_MS)) is None
    assert broker.core.partitions[KEY].hw == 0


def test_a_follower_in_time_is_not_removed() -> None:
    broker = behind()
    broker.wait(LATE_MS - 1)
    assert produced(broker.fetch(3, 1)) == (NONE, 0)
    assert proposed(broker.wait(LATE_MS)) is None


def test_a_follower_that_is_always_a_little_behind_is_not_late() -> None:
    pace = Pace(late_at=0)
    for step in range(1, 100):
        now = step * (LATE_US - 1)
        pace.observe(10 * step, 10 * (step + 1), now)
        assert not pace.is_late(now)
    assert pace.is_late(now + LATE_US + 1)


def test_a_removed_follower_returns_when_it_has_kept_pace() -> None:
    broker = behind()
    broker.wait(LATE_MS)
    answer(broker, (1, 2))
    assert proposed(broker.fetch(3, 1)) is None, "it was late just now"
    broker.wait(STEADY_MS - 1)
    assert proposed(broker.fetch(3, 1)) is None
    broker.wait(1)
    assert proposed(broker.fetch(3, 1)) == [1, 2, 3]


def test_a_removed_follower_returns_at_once_if_another_has_failed() -> None:
    broker = behind()
    broker.wait(LATE_MS)
    answer(broker, (1, 2))
    broker.produce(batch(2))
    assert proposed(broker.fetch(3, 2)) == [1, 2, 3], "it is ahead of follower 2"
    answer(broker, BROKERS, epoch=12)
    assert broker.core.partitions[KEY].hw == 1
    assert proposed(broker.wait(LATE_MS)) == [1, 3]
    answer(broker, (1, 3), epoch=13)
    assert broker.core.partitions[KEY].hw == 2


def test_a_removed_follower_returns_at_once_to_an_isr_without_a_majority() -> None:
    broker = Broker(isr=(1,), quorum=True)
    assert produced(broker.produce(batch(1))) == (NOT_ENOUGH_REPLICAS, -1)
    assert proposed(broker.fetch(3, 0)) == [1, 3]


def test_min_insync_replicas_is_ignored() -> None:
    broker = caught_up(min_insync=3)
    broker.produce(batch(1))
    broker.fetch(2, 1)
    broker.wait(LATE_MS)
    assert produced(answer(broker, (1, 2))) == (NONE, 0)


def test_a_refused_removal_is_proposed_again_later() -> None:
    broker = behind()
    broker.wait(LATE_MS)
    assert proposed(answer(broker, (), INELIGIBLE_REPLICA)) is None, "no busy loop"
    assert broker.core.deadline > broker.now
    assert proposed(broker.wait(LATE_MS)) == [1, 2]


def test_a_lost_answer_holds_the_high_watermark_back() -> None:
    broker = behind()
    broker.wait(LATE_MS)
    (sent,) = [each for each in broker.did if isinstance(each, out.AlterPartition)]
    broker.step(come.AlterPartitionAnswered(sent.correlation, None))
    assert broker.core.partitions[KEY].hw == 0
    assert proposed(broker.wait(LATE_MS)) == [1, 2]


def test_two_replicas_commit_nothing_alone() -> None:
    broker = Broker(isr=(1, 2), quorum=True)
    two = come.Assignment((1, 2), (1, 2), 1, 3, 11)
    broker.step(come.Published((), {KEY: two}))
    broker.fetch(2, 0)
    broker.produce(batch(1))
    assert proposed(broker.wait(LATE_MS)) is None
    assert broker.core.partitions[KEY].hw == 0


def test_new_replicas_of_a_reassignment_make_no_majority_larger() -> None:
    assert [majority(replicas) for replicas in range(1, 6)] == [1, 2, 2, 3, 3]
    assert least_in_sync(6, 3, 1, quorum=True) == 2
    assert least_in_sync(3, 0, 3, quorum=True) == 2
    assert least_in_sync(3, 0, 1, quorum=False) == 1
    broker = Broker(isr=(1, 2), quorum=True)
    more = come.Assignment((1, 2, 3, 4, 5), (1, 2), 1, 3, 11, adding=(4, 5))
    broker.step(come.Published((), {KEY: more}))
    broker.produce(batch(1))
    assert produced(broker.fetch(2, 1)) == (NONE, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, NUMBERS - 1), max_size=250))
def test_any_actions(numbers: list[int]) -> None:
    world = Quorum()
    world.run(numbers)
    world.finish()


def test_long_runs() -> None:
    worlds = [judge.judged_run(seed, kind=Quorum) for seed in range(40)]
    assert sum(len(world.acked) for world in worlds) > 100
    removed = [
        (before, proposal)
        for world in worlds
        for before, proposal in world.accepted
        if len(proposal.isr) < len(before)
    ]
    assert len(removed) > 20


def counts_a_proposed_removal(patch: pytest.MonkeyPatch) -> None:
    """The high watermark passes a member whose removal is only proposed."""
    propose = Partition._propose

    def planted(self: Partition, isr: tuple[int, ...]) -> None:
        propose(self, isr)
        pending = self.in_sync.pending
        assert pending is not None
        self.in_sync.pending = Pending(pending.proposal, frozenset(isr))

    patch.setattr(Partition, "_propose", planted)


def takes_half_for_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quorum_commit, "majority", lambda replicas: replicas // 2)


@pytest.mark.parametrize("plant", [counts_a_proposed_removal, takes_half_for_a_majority])
def test_a_planted_bug_breaks_d15(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(judge, "IGNORED", RULES - {"D15"})
    for seed in range(150):
        try:
            judge.judged_run(seed, kind=Quorum)
        except judge.BrokenError as broken:
            assert broken.rule == "D15"
            return
        except (AssertionError, KeyError, ValueError):
            continue  # The bug broke what the world relies on.
    pytest.fail("150 runs did not break D15")
