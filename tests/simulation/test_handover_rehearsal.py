"""F11: copies of brokers turn to a controller that takes over while they wait for another one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.limits import HANDED_OVER_US
from kraftwreck.nodes.broker.broker import Broker
from kraftwreck.nodes.broker.isr_proposals import IsrProposals
from kraftwreck.nodes.broker.lifecycle import Lifecycle
from kraftwreck.nodes.consensus.effects import SendApi
from kraftwreck.nodes.replication.effects import AlterPartition, Proposal
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import handover_rehearsal
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.handover_rehearsal import HandoverRehearsal, turns
from tests.broker.conftest import Rig
from tests.simulation.replicas import KEY

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


def waits() -> tuple[Rig, ApiMessage]:
    """Return a broker that has sent its registration, and the registration."""
    rig = Rig()
    rig.tick()
    return rig, message(rig.last("BrokerRegistration"))


def message(sent: SendApi) -> ApiMessage:
    return ApiMessage(sent.api, 0, sent.body)


def test_a_broker_registers_with_the_new_controller() -> None:
    rig, asked = waits()
    sent, deadline = list(rig.sent), rig.broker.deadline
    assert turns(rig.broker, rig.image, asked, rig.now, 0)
    rig.tick()
    assert (rig.sent, rig.broker.deadline) == (sent, deadline), "a copy was asked"


def test_a_broker_that_goes_on_waiting_is_found(monkeypatch: Patch) -> None:
    rig, asked = waits()
    tick = Lifecycle.tick

    def planted(self: Lifecycle, controller: Any, *more: Any) -> Any:
        return tick(self, self._controller or controller, *more)

    monkeypatch.setattr(Lifecycle, "tick", planted)
    assert not turns(rig.broker, rig.image, asked, rig.now, 0)


@pytest.mark.parametrize(("late", "right"), [(0, True), (1, False)])
def test_a_broker_has_a_tenth_of_a_second(monkeypatch: Patch, late: int, right: bool) -> None:
    rig, asked = waits()
    at, tick = rig.now + HANDED_OVER_US + late, Lifecycle.tick
    deadline = Lifecycle.deadline

    def planted(self: Lifecycle, controller: Any, correlation: int, now: int) -> Any:
        return tick(self, controller if now >= at else self._controller, correlation, now)

    monkeypatch.setattr(Lifecycle, "tick", planted)
    monkeypatch.setattr(Lifecycle, "deadline", lambda *of: max(at, deadline(*of)))
    assert turns(rig.broker, rig.image, asked, rig.now, 0) is right


def leads() -> tuple[Rig, ApiMessage]:
    """Return a broker of records that has proposed an ISR, and its request."""
    rig = Rig(data_plane=True)
    data = rig.broker.data
    assert data is not None
    proposal = Proposal(KEY, 3, 5, ((4, 7), (5, 7)))
    data._proposed = AlterPartition(1, (proposal,))
    data.tick(rig.broker._find_controller(), 7, 1 << 20, rig.now, 0)
    pending: Any = SimpleNamespace(
        in_sync=SimpleNamespace(pending=SimpleNamespace(proposal=proposal))
    )
    pending.with_ = SimpleNamespace(proposed=set())
    data.core.partitions[KEY] = pending
    asked = next(e for e in data.take_effects() if isinstance(e, SendApi))
    return rig, message(asked)


def only_the_proposals(monkeypatch: Patch, act: Callable[[Any], None]) -> None:
    """Let the data plane do nothing but give proposals up; then ``act`` on its core."""

    def tick(self: Any, controller: Any, _epoch: int, _correlation: int, now: int, _: int) -> int:
        if self._proposals.void(controller, now) is not None:
            act(self.core)
        return 0

    monkeypatch.setattr(Broker, "tick", lambda self, now, _: tick(
        self.data, self._find_controller(), 0, 0, now, 0
    ))  # fmt: skip


def decides(core: Any) -> None:
    core.partitions.clear()


def test_a_leader_that_waits_for_no_answer_is_right(monkeypatch: Patch) -> None:
    rig, asked = leads()
    only_the_proposals(monkeypatch, decides)
    assert turns(rig.broker, rig.image, asked, rig.now, 0)


def test_a_leader_that_waits_for_the_earlier_controller_is_found(monkeypatch: Patch) -> None:
    rig, asked = leads()
    only_the_proposals(monkeypatch, decides)
    monkeypatch.setattr(IsrProposals, "void", lambda *_: None)
    assert not turns(rig.broker, rig.image, asked, rig.now, 0)


def test_requests_of_a_run_are_judged_twice_of_each_kind(monkeypatch: Patch) -> None:
    rig, asked = waits()
    failures = Failures()
    monkeypatch.setattr(handover_rehearsal, "Node", SimpleNamespace)
    judged: list[ApiMessage] = []

    def wrong(_broker: Any, _image: Any, message: ApiMessage, *_: int) -> bool:
        judged.append(message)
        return False

    monkeypatch.setattr(handover_rehearsal, "turns", wrong)
    world: Any = SimpleNamespace(now=0, wires=SimpleNamespace(on_ask=[]))
    HandoverRehearsal(world, failures)
    node = SimpleNamespace(broker=rig.broker, image=rig.image)
    clock = SimpleNamespace(both=lambda now: (now, now))
    host: Any = SimpleNamespace(name="b4", node=node, clock=clock)
    other = ApiMessage("AllocateProducerIds", 0, {})
    for each in (asked, other, asked, asked):
        world.wires.on_ask[0](host, SimpleNamespace(message=each, named=1))
    assert judged == [asked, asked]
    assert {each.type for each in failures.items} == {"F11"}
