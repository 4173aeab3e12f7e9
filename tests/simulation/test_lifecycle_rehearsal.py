"""F36: brokers take each answer of a controller as their state demands."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker import lifecycle
from kraftwreck.nodes.broker.lifecycle import NO_EPOCH, Life, Lifecycle
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import lifecycle_rehearsal
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.lifecycle_rehearsal import LifecycleRehearsal
from tests.broker.conftest import Rig
from tests.broker.conftest import rig as rig

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


class Broker:
    """A broker that asks its controller in each of its states."""

    def __init__(self, patch: Patch) -> None:
        self.rig = Rig()
        self.failures = Failures()
        patch.setattr(lifecycle_rehearsal, "Node", SimpleNamespace)
        self.wires = SimpleNamespace(on_ask=[])
        world: Any = SimpleNamespace(now=0, wires=self.wires)
        self.world = world
        LifecycleRehearsal(world, self.failures)

    def judge(self) -> None:
        """Judge the request in flight."""
        rig = self.rig
        while vars(vars(rig.broker)["_life"])["_asked"] is None:
            rig.until_due()
        sent = rig.sent[-1]
        self.world.now = rig.now
        node = SimpleNamespace(broker=rig.broker)
        clock = SimpleNamespace(mono=lambda now: now)
        host: Any = SimpleNamespace(id=4, name="b4", node=node, clock=clock)
        rpc: Any = SimpleNamespace(
            message=ApiMessage(sent.api, 0, {}), correlation=sent.correlation
        )
        for asked in self.wires.on_ask:
            asked(host, rpc)

    def live(self) -> list[str]:
        """Go through all states; return what was wrong."""
        rig = self.rig
        rig.tick()
        self.judge()
        rig.register()
        rig.broker.published(30, 1, rig.now)
        for flags in ({"is_caught_up": True}, {"is_fenced": False}, {}):
            self.judge()
            rig.beat(**flags)
        rig.broker.stop(rig.now)
        self.judge()
        return [each.explanation for each in self.failures.items]


def test_a_broker_hears_its_controller_in_each_state(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    assert broker.live() == []
    assert broker.rig.broker.state is Life.PENDING_CONTROLLED_SHUTDOWN


def only_stale_epochs(patch: Patch) -> None:
    patch.setattr(lifecycle, "BROKER_ID_NOT_REGISTERED", 77)


def returns_from_its_shutdown(patch: Patch) -> None:
    refused = Lifecycle._refused

    def planted(self: Any, code: int, now: int) -> None:
        if self.state is Life.PENDING_CONTROLLED_SHUTDOWN:
            self.state = Life.RUNNING
        refused(self, code, now)

    patch.setattr(Lifecycle, "_refused", planted)


def forgets_its_epoch(patch: Patch) -> None:
    failed = Lifecycle._failed

    def planted(self: Any, *given: Any, **named: Any) -> None:
        self.epoch = NO_EPOCH
        failed(self, *given, **named)

    patch.setattr(Lifecycle, "_failed", planted)


def fences_itself(patch: Patch) -> None:
    heard = Lifecycle._heard

    def planted(self: Any, answer: Any, now: int) -> None:
        if answer["is_fenced"] and self.state is Life.RUNNING:
            self.state = Life.RECOVERY
        heard(self, answer, now)

    patch.setattr(Lifecycle, "_heard", planted)


def leaves_at_once(patch: Patch) -> None:
    heard = Lifecycle._heard
    patch.setattr(
        Lifecycle,
        "_heard",
        lambda self, answer, now: heard(self, answer | {"should_shut_down": True}, now),
    )


def wants_no_fence(patch: Patch) -> None:
    request = Lifecycle._request

    def planted(self: Any) -> Any:
        api, body = request(self)
        return api, body | ({"want_fence": False} if api == "BrokerHeartbeat" else {})

    patch.setattr(Lifecycle, "_request", planted)


def takes_any_answer(patch: Patch) -> None:
    response = Lifecycle.response

    def planted(self: Any, event: Any, now: int) -> bool:
        event.correlation = self._asked[0]
        return response(self, event, now)

    patch.setattr(Lifecycle, "response", planted)


@pytest.mark.parametrize(
    "bug",
    [
        only_stale_epochs,
        returns_from_its_shutdown,
        forgets_its_epoch,
        fences_itself,
        leaves_at_once,
        wants_no_fence,
        takes_any_answer,
    ],
    ids=lambda bug: bug.__name__,
)
def test_a_broker_that_misunderstands_an_answer_shows(
    bug: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    broker = Broker(monkeypatch)
    judge, judged = broker.judge, list[str]()

    def planted() -> None:
        with monkeypatch.context() as patch:
            bug(patch)
            judge()
        judged.extend(each.type for each in broker.failures.items)

    monkeypatch.setattr(broker, "judge", planted)
    broker.live()
    assert set(judged) == {"F36"}


def test_a_registration_that_is_amended_may_be_refused(monkeypatch: Patch) -> None:
    broker = Broker(monkeypatch)
    broker.rig.run()
    vars(broker.rig.broker)["_life"].amend(broker.rig.now)
    broker.judge()
    assert broker.rig.sent[-1].api == "BrokerRegistration"
    assert broker.failures.items == []


def test_an_amendment_outlives_a_heartbeat_that_is_refused(rig: Any) -> None:
    rig.run()
    rig.until_due()
    vars(rig.broker)["_life"].amend(rig.now)
    assert rig.sent[-1].api == "BrokerHeartbeat"
    rig.answer({"error_code": -1})
    while rig.sent[-1].api == "BrokerHeartbeat":
        rig.until_due()
    assert rig.sent[-1].api == "BrokerRegistration"
