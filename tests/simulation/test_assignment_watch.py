"""D17: within a second the replicas of a broker are those that its metadata gives it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.replication.events import Assignment, Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import assignment_watch
from kraftwreck.systems.kraft.simulated.assignment_watch import AssignmentWatch, _difference
from tests.simulation.replicas import BROKERS, KEY

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize(
    ("partition_epoch", "leader_epoch", "right"),
    [(5, 3, False), (4, 3, False), (6, 3, True), (6, 4, True), (6, 2, False)],
)
def test_a_leader_may_know_a_newer_isr_than_its_metadata(
    partition_epoch: int, leader_epoch: int, right: bool
) -> None:
    """The metadata has partition epoch 5 and leader epoch 3."""
    given = SimpleNamespace(
        replicas=BROKERS, isr=BROKERS, leader=4, leader_epoch=3, partition_epoch=5
    )
    image: Any = SimpleNamespace(
        partitions={KEY: given}, brokers={}, configs={}, names={KEY[0]: "t"}
    )
    acts = SimpleNamespace(
        assignment=Assignment(BROKERS, (4,), 4, leader_epoch, partition_epoch),
        settings=Settings(),
        with_=SimpleNamespace(peers={}),
    )
    replicas: Any = {KEY: acts}
    assert (_difference(4, image, replicas) == "") is right


@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["D17"])])
def test_a_broker_has_a_second_to_act_on_its_metadata(
    late_us: int, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment_watch, "_difference", lambda *_: "has no replica")
    monkeypatch.setattr(assignment_watch, "Node", SimpleNamespace)
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[])
    data = SimpleNamespace(replicas=object(), core=SimpleNamespace(partitions={}))
    node = SimpleNamespace(
        image=SimpleNamespace(stable=SimpleNamespace(last_offset=9)),
        broker=SimpleNamespace(data=data),
    )
    host: Any = SimpleNamespace(
        id=4, life=1, name="b4", node=node, waited=lambda since, now, slack: now - since - slack
    )
    AssignmentWatch(world, failures)
    for world.now in (0, STEPS_US + late_us):
        world.on_emit[0](host)
    assert [failure.type for failure in failures.items] == broken
