"""F19: a broker asks to be unfenced once its logs are open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker.data_plane import DataPlane
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.replication.effects import RemoveLog
from kraftwreck.nodes.replication.events import Assignment, LogOpened, Published, Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import opening_watch
from kraftwreck.systems.kraft.simulated.opening_watch import OpeningWatch, waits_for_removed
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

OTHER = (KEY[0], 1)


class Starting:
    """A broker that has two partitions once it knows its metadata."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_step=[], on_caused=[], on_disk=[], on_trace=[])
        patch.setattr(opening_watch, "Node", SimpleNamespace)
        self.world = world
        OpeningWatch(world, self.failures)
        self.data: Any = SimpleNamespace(replicas=None, is_open=False)
        self.data.step = lambda *_: None
        self.waits = False
        patch.setattr(opening_watch, "waits_for_removed", lambda *_: self.waits)
        node = SimpleNamespace(broker=SimpleNamespace(data=self.data))
        self.host: Any = SimpleNamespace(id=4, name="b4", life=1, node=node)

    def learns(self) -> None:
        self.data.replicas = frozenset({KEY, OTHER})
        self.world.on_step[0](self.host, object())

    def opens(self, key: Any) -> None:
        self.world.on_caused[0](self.host, LogOpened(key, 0, 0, (), (), 0))

    def removes(self, key: Any) -> None:
        self.world.on_disk[0](self.host, RemoveLog(key))

    def says(self, state: str = "recovery") -> list[str]:
        event: Any = SimpleNamespace(kind="broker", detail={"state": state})
        self.world.on_trace[0](self.host, event)
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Starting:
    return Starting(monkeypatch)


def test_all_logs_are_open_or_gone(broker: Starting) -> None:
    broker.learns()
    broker.opens(KEY)
    broker.removes(OTHER)
    assert broker.says() == []


def test_a_log_that_is_not_open_breaks_f19(broker: Starting) -> None:
    broker.learns()
    broker.opens(KEY)
    assert broker.says("running") == []
    assert broker.says() == ["F19"]


def test_logs_that_are_not_known_break_f19(broker: Starting) -> None:
    assert broker.says() == ["F19"]


def test_partitions_of_later_metadata_may_still_be_opened(broker: Starting) -> None:
    broker.data.replicas = frozenset({KEY})
    broker.world.on_step[0](broker.host, object())
    broker.opens(KEY)
    broker.learns()
    assert broker.says() == []


def test_each_process_opens_its_logs(broker: Starting) -> None:
    broker.learns()
    broker.opens(KEY)
    broker.opens(OTHER)
    broker.host.life = 2
    broker.learns()
    assert broker.says() == ["F19"]


def test_a_broker_that_waits_for_logs_that_are_gone_breaks_f19(broker: Starting) -> None:
    broker.waits = True
    broker.learns()
    assert [failure.type for failure in broker.failures.items] == ["F19"]


@pytest.mark.parametrize("forgets", [True, False])
def test_a_data_plane_waits_for_its_own_logs_only(
    forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = NodeConfig(4, "cluster", bytes(16), {})
    plane = DataPlane(config, 0)
    plane._opening = {KEY, OTHER}
    assigned = {key: Assignment((4, 5), (4,), 4, 0, 1) for key in (KEY, OTHER)}
    plane.core.step(Published((), assigned, dict.fromkeys(assigned, Settings())), 0, 0)
    if not forgets:
        monkeypatch.setattr(DataPlane, "step", lambda self, *event: self.core.step(*event))
    assert waits_for_removed(plane, 0) == (not forgets)
    assert plane._opening == {KEY, OTHER}, "a copy was asked"


def test_a_broker_without_records_has_no_logs(broker: Starting) -> None:
    broker.host.node.broker.data = None
    broker.world.on_step[0](broker.host, object())
    assert broker.says() == []
