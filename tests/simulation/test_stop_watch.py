"""D5: a broker that stops in good order stores its high watermarks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.effects import FlushLog, WriteHighWatermarks
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import stop_watch
from kraftwreck.systems.kraft.simulated.stop_watch import StopWatch
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted


class Broker:
    """A broker with one replica, whose high watermark is 7."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.replica = SimpleNamespace(log=object(), hw=7)
        self.host: Any = SimpleNamespace(id=4, life=1, name="b4")
        world: Any = SimpleNamespace(now=0, on_disk=[], on_trace=[])
        self.world = world
        patch.setattr(stop_watch, "replicas_on", lambda host: {KEY: self.replica})
        StopWatch(world, self.failures)

    def store(self, effect: Any) -> None:
        self.world.on_disk[0](self.host, effect)

    def tell(self, kind: str, state: str) -> list[str]:
        event = SimpleNamespace(kind=kind, detail={"state": state})
        self.world.on_trace[0](self.host, event)
        return [failure.type for failure in self.failures.items]


@pytest.mark.parametrize(
    ("offsets", "broken"), [({KEY: 7}, []), ({KEY: 6}, ["D5"]), ({KEY: 8}, ["D5"]), ({}, ["D5"])]
)
def test_a_stop_stores_the_high_watermarks(
    offsets: dict[Any, int], broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(monkeypatch)
    broker.store(WriteHighWatermarks({KEY: 3}))
    broker.store(WriteHighWatermarks(offsets))
    broker.store(FlushLog(KEY, 1))
    assert broker.tell("broker", "stopped") == broken


def test_a_checkpoint_of_an_earlier_process_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch)
    broker.store(WriteHighWatermarks({KEY: 7}))
    broker.host.life = 2
    assert broker.tell("broker", "stopped") == ["D5"]


def test_a_broker_that_runs_or_opens_its_log_has_nothing_to_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch)
    assert broker.tell("broker", "running") == []
    assert broker.tell("state", "stopped") == []
    broker.replica.log = None
    assert broker.tell("broker", "stopped") == []
