"""D17: within a second the replicas of a broker are those that its metadata gives it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.nodes.metadata.image_values import BROKER, TOPIC
from kraftwreck.nodes.replication.effects import ShapeLog
from kraftwreck.nodes.replication.events import Assignment, LogOpened, Peer, Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import assignment_watch
from kraftwreck.systems.kraft.simulated.assignment_watch import (
    NO_SHAPE,
    AssignmentWatch,
    Shape,
    _difference,
)
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
        leading=False,
    )
    replicas: Any = {KEY: acts}
    assert (_difference(4, image, replicas, {}) == "") is right


@pytest.mark.parametrize(
    ("known", "acts_on", "leading", "right"),
    [
        (False, False, True, True),
        (False, True, True, False),
        (True, False, True, False),
        (True, True, True, True),
        (False, True, False, True),
    ],
)
def test_a_leader_knows_whether_its_partition_is_recovering(
    known: bool, acts_on: bool, leading: bool, right: bool
) -> None:
    assignment = Assignment(BROKERS, BROKERS, 4, 3, 5, recovering=known)
    image: Any = SimpleNamespace(
        partitions={KEY: assignment}, brokers={}, configs={}, names={KEY[0]: "t"}
    )
    acts: Any = SimpleNamespace(
        assignment=assignment,
        settings=Settings(),
        with_=SimpleNamespace(peers={}),
        leading=leading,
        recovering=acts_on,
    )
    assert (_difference(4, image, {KEY: acts}, {}) == "") is right


def settings_of(
    configs: dict[tuple[int, str], dict[str, str]], settings: Settings, shape: Shape | None = None
) -> str:
    """Return how a replica with ``settings`` and a log of this ``shape`` differs from its image."""
    assignment = Assignment(BROKERS, BROKERS, 4, 3, 5)
    image: Any = SimpleNamespace(
        partitions={KEY: assignment}, brokers={}, configs=configs, names={KEY[0]: "t"}
    )
    acts: Any = SimpleNamespace(
        assignment=assignment,
        settings=settings,
        with_=SimpleNamespace(peers={}),
        leading=False,
    )
    return _difference(4, image, {KEY: acts}, {} if shape is None else {KEY: shape})


@pytest.mark.parametrize(
    ("topic", "broker", "cluster", "right"),
    [
        ("1", "2", "3", 1),
        (None, "2", "3", 2),
        (None, None, "3", 3),
        (None, None, None, 7),  # The default of the process is not known here.
    ],
)
def test_a_config_of_a_topic_precedes_those_of_brokers(
    topic: str | None, broker: str | None, cluster: str | None, right: int
) -> None:
    named = (
        (TOPIC, "t", "retention.ms", topic),
        (BROKER, "4", "log.retention.ms", broker),
        (BROKER, "", "log.retention.ms", cluster),
        (BROKER, "5", "log.retention.ms", "9"),
    )
    configs = {
        (kind, name): {config: value} for kind, name, config, value in named if value is not None
    }
    assert settings_of(configs, Settings(retention_ms=right)) == ""
    if topic or broker or cluster:
        assert "retention.ms" in settings_of(configs, Settings(retention_ms=9))


@pytest.mark.parametrize(
    ("shape", "right"),
    [((1 << 20, None, None), True), (NO_SHAPE, False), ((1 << 20, 5, None), False), (None, True)],
)
def test_the_configs_of_segments_reach_the_log(shape: Shape | None, right: bool) -> None:
    """None: the log is not open yet."""
    configs = {(TOPIC, "t"): {"segment.bytes": "1048576"}}
    assert (settings_of(configs, Settings(), shape) == "") is right


def test_a_log_that_is_opened_again_needs_its_configs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def difference(*given: Any) -> str:
        seen.append(given[3])
        return ""

    monkeypatch.setattr(assignment_watch, "_difference", difference)
    monkeypatch.setattr(assignment_watch, "Node", SimpleNamespace)
    world: Any = SimpleNamespace(now=0, on_emit=[], on_caused=[], on_disk=[])
    replica = SimpleNamespace(log=object(), with_=SimpleNamespace(peers={}))
    core = SimpleNamespace(partitions={KEY: replica})
    data = SimpleNamespace(replicas=object(), core=core)
    image = SimpleNamespace(stable=SimpleNamespace(last_offset=9, brokers={}))
    node = SimpleNamespace(image=image, broker=SimpleNamespace(data=data))
    host: Any = SimpleNamespace(id=4, life=1, name="b4", node=node)
    AssignmentWatch(world, Failures())
    world.on_disk[0](host, ShapeLog(KEY, 1 << 20, None, None))
    for _ in range(2):
        world.on_emit[0](host)
    world.on_caused[0](host, LogOpened(KEY, 0, 0, (), (), 0, 0))
    world.on_emit[0](host)
    assert seen == [{KEY: (1 << 20, None, None)}, {KEY: NO_SHAPE}]


@pytest.mark.parametrize(("late_us", "broken"), [(0, []), (1, ["D17"])])
def test_a_broker_has_a_second_to_act_on_its_metadata(
    late_us: int, broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment_watch, "_difference", lambda *_: "has no replica")
    monkeypatch.setattr(assignment_watch, "Node", SimpleNamespace)
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[], on_caused=[], on_disk=[])
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


@pytest.mark.parametrize(
    ("peer", "fenced", "stopping", "stopped", "broken"),
    [
        (Peer(7, True), False, False, False, []),
        (Peer(7, True), True, False, False, ["D17"]),
        (Peer(7, True), False, True, False, ["D17"]),
        (Peer(7, False), True, False, False, []),
        (Peer(7, False), False, True, False, []),
        (Peer(7, False), False, False, False, ["D17"]),
        (Peer(6, True), False, False, False, ["D17"]),
        (None, False, False, False, ["D17"]),
        (None, False, False, True, []),
    ],
)
def test_a_broker_knows_at_once_which_brokers_may_be_in_isrs(
    peer: Peer | None,
    fenced: bool,
    stopping: bool,
    stopped: bool,
    broken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broker 5 has epoch 7. A process that has stopped takes in nothing."""
    monkeypatch.setattr(assignment_watch, "_difference", lambda *_: "")
    monkeypatch.setattr(assignment_watch, "Node", SimpleNamespace)
    failures = Failures()
    world: Any = SimpleNamespace(now=0, on_emit=[], on_caused=[], on_disk=[])
    peers = {} if peer is None else {5: peer}
    replica = SimpleNamespace(log=None, with_=SimpleNamespace(peers=peers))
    core = SimpleNamespace(partitions={KEY: replica})
    data = SimpleNamespace(replicas=object(), core=core)
    registered = SimpleNamespace(epoch=7, fenced=fenced, in_controlled_shutdown=stopping)
    stable = SimpleNamespace(last_offset=9, brokers={5: registered})
    broker = SimpleNamespace(data=data, stopped=stopped)
    node = SimpleNamespace(image=SimpleNamespace(stable=stable), broker=broker)
    host: Any = SimpleNamespace(id=4, life=1, name="b4", node=node)
    AssignmentWatch(world, failures)
    world.on_emit[0](host)
    assert [failure.type for failure in failures.items] == broken
