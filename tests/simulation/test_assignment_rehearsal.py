"""D17, D18: a leader takes over no older state of its partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import Altered, Assignment
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.systems.kraft.simulated.assignment_rehearsal import wrong_assignments
from tests.replication.test_replicas import Broker
from tests.replication.world import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader(*, proposes: bool = False) -> Partition:
    """A leader of its third epoch, perhaps with a proposal in flight."""
    broker = Broker(isr=(1, 2))
    one = broker.core.partitions[KEY]
    now = one.assignment
    leader_epoch, partition_epoch = now.leader_epoch + 2, now.partition_epoch + 4
    one.assigned(replace(now, leader_epoch=leader_epoch, partition_epoch=partition_epoch))
    if proposes:
        one._propose((1,))
    return one


def takes_all(partition: Partition, new: Assignment) -> None:
    partition.assignment = new
    partition.in_sync.isr = new.isr


@pytest.mark.parametrize("proposes", [False, True])
def test_a_leader_keeps_what_it_knows(proposes: bool) -> None:
    one = leader(proposes=proposes)
    before = one.assignment, one.in_sync.isr, one.in_sync.pending, one.hw, one.with_.changed
    assert list(wrong_assignments(one)) == []
    assert before == (
        one.assignment, one.in_sync.isr, one.in_sync.pending, one.hw, one.with_.changed
    )  # fmt: skip


def test_metadata_that_comes_late_is_not_taken_over(monkeypatch: Patch) -> None:
    one = leader()
    before = one.assignment
    monkeypatch.setattr(Partition, "assigned", takes_all)
    assert [rule for rule, _ in wrong_assignments(one)] == ["D17"] * 3
    assert one.assignment == before


def test_older_metadata_of_the_same_leader_epoch_is_not_taken_over(monkeypatch: Patch) -> None:
    one = leader()
    assigned = Partition.assigned

    def planted(self: Partition, new: Assignment) -> None:
        least = min(new.partition_epoch, self.assignment.partition_epoch)
        self.assignment = replace(self.assignment, partition_epoch=least)
        assigned(self, new)

    monkeypatch.setattr(Partition, "assigned", planted)
    assert {rule for rule, _ in wrong_assignments(one)} == {"D17"}


def test_a_leader_forgets_its_followers_where_others_may_have_led(monkeypatch: Patch) -> None:
    """Metadata shows it as leader twice, and leaves out the leader in between."""
    one = leader()
    one.in_sync.remotes[2].end = 0
    assert list(wrong_assignments(one)) == []
    lead = Partition._lead

    def planted(self: Any, log: Any, old: Assignment, new: Assignment) -> None:
        lead(self, log, replace(old, leader_epoch=new.leader_epoch - 1), new)

    monkeypatch.setattr(Partition, "_lead", planted)
    assert [rule for rule, _ in wrong_assignments(one)] == ["D9"]


def test_answers_of_other_epochs_decide_nothing(monkeypatch: Patch) -> None:
    one = leader(proposes=True)

    def planted(self: Partition, proposal: Any, answer: Altered) -> None:
        self.in_sync.pending = None

    monkeypatch.setattr(Partition, "altered", planted)
    assert [rule for rule, _ in wrong_assignments(one)] == ["D18"] * 4


def test_a_partition_without_an_earlier_state_is_not_judged(monkeypatch: Patch) -> None:
    one = leader()
    one.assignment = replace(one.assignment, partition_epoch=0)
    monkeypatch.setattr(Partition, "assigned", takes_all)
    assert list(wrong_assignments(one)) == []
