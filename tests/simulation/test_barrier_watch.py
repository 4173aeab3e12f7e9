"""F32: the active controller answers once it has committed a record after the request arrived."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest, Tick
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import barrier_watch
from kraftwreck.systems.kraft.simulated.barrier_watch import BarrierWatch

pytestmark = pytest.mark.interpreted

MS = 1000
TOKEN = 3


def fake(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


class Process:
    """An active controller that has appended up to 9 and committed up to 8."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(barrier_watch, "Node", SimpleNamespace)
        self.failures = Failures()
        self.image = fake(last_offset=9, stable_offset=8)
        self.controller, self.replica = fake(is_active=True), fake(epoch=5)
        node = fake(controller=self.controller, replica=self.replica, image=self.image)
        self.target = object()
        self.host = fake(
            id=1, name="n1", life=1, node=node, tokens={}, clock=fake(mono=lambda now: now + 7)
        )
        wires = fake(on_reply=[], on_client_reply=[])
        self.world = fake(now=0, on_step=[], wires=wires)
        BarrierWatch(self.world, self.failures)

    def step(self, event: Any = None) -> None:
        self.world.on_step[0](self.host, event or Tick())

    def ask(self, api: str = "DescribeConfigs", version: int = 4, **body: Any) -> None:
        self.host.tokens[TOKEN] = self.target
        self.step(ApiRequest(TOKEN, api, version, body))

    def answer(self, *, broker: bool = False) -> list[str]:
        wires = self.world.wires
        (told,) = wires.on_reply if broker else wires.on_client_reply
        told(self.host, self.target, None)
        return [each.type for each in self.failures.items]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    process = Process(monkeypatch)
    process.step()
    return process


@pytest.mark.parametrize("broker", [False, True])
@pytest.mark.parametrize(("committed", "found"), [(8, ["F32"]), (9, ["F32"]), (10, [])])
def test_a_record_after_the_request_is_committed_first(
    process: Process, broker: bool, committed: int, found: list[str]
) -> None:
    process.ask()
    process.image.stable_offset = committed
    assert process.answer(broker=broker) == found


def test_a_record_of_the_same_step_counts(process: Process) -> None:
    process.image.last_offset = 10
    process.ask("CreateTopics", timeout_ms=1000)
    process.image.stable_offset = 10
    assert process.answer() == []


@pytest.mark.parametrize(
    ("version", "topics", "found"),
    [(1, [], []), (0, [], ["F32"]), (1, None, ["F32"]), (1, [{"name": "t"}], ["F32"])],
)
def test_metadata_without_topics_is_answered_at_once(
    process: Process, version: int, topics: Any, found: list[str]
) -> None:
    process.ask("Metadata", version, topics=topics)
    assert process.answer() == found


@pytest.mark.parametrize(("waited", "found"), [(0, []), (-1, ["F32"])])
def test_a_request_that_took_too_long_is_answered_earlier(
    process: Process, waited: int, found: list[str]
) -> None:
    process.ask("CreateTopics", timeout_ms=20)
    process.world.now = 20 * MS + waited
    assert process.answer() == found


def test_a_request_without_a_timeout_has_that_of_the_controller(process: Process) -> None:
    process.ask()
    process.world.now = 30_000 * MS
    assert process.answer() == []


def test_apis_that_every_controller_serves_are_not_judged(process: Process) -> None:
    process.ask("DescribeCluster")
    assert process.answer() == []


def resigns(process: Process) -> None:
    process.controller.is_active = False


def leads_another_epoch(process: Process) -> None:
    process.replica.epoch += 1


def restarts(process: Process) -> None:
    process.host.life += 1


@pytest.mark.parametrize("loses", [resigns, leads_another_epoch, restarts])
def test_a_controller_that_is_deposed_refuses_at_once(process: Process, loses: Any) -> None:
    process.ask()
    loses(process)
    assert process.answer() == []


def test_the_step_that_makes_a_controller_active_is_not_judged(process: Process) -> None:
    process.controller.is_active = False
    process.step()
    process.controller.is_active = True
    process.ask()
    assert process.answer() == []
