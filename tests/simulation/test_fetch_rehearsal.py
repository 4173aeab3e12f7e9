"""D9, D10, D11: leaders refuse fetches that they must not answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.replication import events as come
from kraftwreck.nodes.replication.effects import ReadPart
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.systems.kraft.simulated.fetch_rehearsal import wrong_fetches
from tests.replication.test_replicas import PEERS, Broker
from tests.replication.world import KEY, batch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def leader() -> Partition:
    """A leader of epoch 3, whose log has one record since it deleted another one."""
    broker = Broker(isr=(1,))
    for ident in (1, 2):
        broker.produce(batch(ident))
    broker.step(come.DeleteRecordsReceived(7, 100, ((KEY, 1),)))
    return broker.core.partitions[KEY]


def answers_all(patch: Patch) -> None:
    patch.setattr(Partition, "read", lambda self, part, *_: ReadPart(self.key, NONE))


def answers_replaced_processes(patch: Patch) -> None:
    def planted(self: Partition, part: Any, replica_id: int, broker_epoch: int) -> int:
        return NONE

    patch.setattr(Partition, "_follower_fault", planted)


def gives_ends_in_any_epoch(patch: Patch) -> None:
    patch.setattr(Partition, "epoch_end", lambda self, leader, epoch: (self.key, NONE, epoch, 1))


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


OLD = [
    ("D9", "would answer broker 2 with epoch 0, replaced by 1"),
    ("D9", "would answer broker 3 with epoch 0, replaced by 1"),
]


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (answers_replaced_processes, OLD),
        (
            gives_ends_in_any_epoch,
            [
                ("D10", "would answer 0 to OffsetForLeaderEpoch of its epoch 2, not 74"),
                ("D10", "would answer 0 to OffsetForLeaderEpoch of its epoch 4, not 75"),
            ],
        ),
        (
            answers_all,
            [
                *OLD,
                ("D10", "would answer 0 to a fetch of its epoch 2, not 74"),
                ("D10", "would answer 0 to a fetch of its epoch 4, not 75"),
                ("D11", "would answer 0 to a fetch at 0; its log is 1 to 2"),
                ("D11", "would answer 0 to a fetch at 3; its log is 1 to 2"),
            ],
        ),
    ],
)
def test_a_leader_refuses(
    plant: Callable[[Patch], None], broken: list[tuple[str, str]], monkeypatch: Patch
) -> None:
    one = leader()
    plant(monkeypatch)
    assert list(wrong_fetches(one)) == broken


@pytest.mark.parametrize(("epoch", "invented"), [(0, [(1, 75)]), (1, [(0, 74), (2, 75)])])
def test_what_cannot_be_is_not_invented(
    epoch: int, invented: list[tuple[int, int]], monkeypatch: Patch
) -> None:
    """Offsets and epochs below 0, and broker epochs of brokers that are not known."""
    one = leader()
    one.with_.peers = {1: PEERS[1], 2: replace(PEERS[2], epoch=0)}
    one.assignment = replace(one.assignment, leader_epoch=epoch)
    assert one.log is not None
    one.log.start = 0
    answers_all(monkeypatch)
    assert [wrong.partition(";")[0] for _, wrong in wrong_fetches(one)] == [
        *(
            f"would answer 0 to a fetch of its epoch {each}, not {right}"
            for each, right in invented
        ),
        "would answer 0 to a fetch at 3",
    ]
