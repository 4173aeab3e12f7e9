"""F25: a stopping broker ends once the controller has let it go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.broker.lifecycle import Life
from kraftwreck.nodes.consensus.effects import ApiResponseReceived, Tick
from kraftwreck.nodes.protocol.errors import (
    BROKER_ID_NOT_REGISTERED,
    NONE,
    NOT_CONTROLLER,
    STALE_BROKER_EPOCH,
)
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import leave_watch
from kraftwreck.systems.kraft.simulated.leave_watch import LeaveWatch

pytestmark = pytest.mark.interpreted


class Stopping:
    """A broker in service that was asked to stop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        world: Any = SimpleNamespace(now=0, on_step=[])
        patch.setattr(leave_watch, "Node", SimpleNamespace)
        self.world = world
        LeaveWatch(world, self.failures)
        self.broker = SimpleNamespace(state=Life.RUNNING)
        node = SimpleNamespace(broker=self.broker)
        self.host: Any = SimpleNamespace(id=4, name="b4", life=1, node=node)
        self.step(Tick(), Life.RUNNING)
        self.step(Tick(), Life.PENDING_CONTROLLED_SHUTDOWN)

    def step(self, event: Any, state: Life) -> list[str]:
        """Return the rules that are broken after a step that leaves the broker in ``state``."""
        self.broker.state = state
        self.world.on_step[0](self.host, event)
        return [failure.type for failure in self.failures.items]

    def answer(self, error: int, **fields: bool) -> list[str]:
        """End in the step that handles an answer."""
        body = {"error_code": error, **fields}
        return self.step(ApiResponseReceived(1, 7, body), Life.STOPPED)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Stopping:
    return Stopping(monkeypatch)


@pytest.mark.parametrize("error", [BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH])
def test_a_broker_that_is_not_registered_may_end(broker: Stopping, error: int) -> None:
    assert broker.answer(error) == []


@pytest.mark.parametrize(("released", "broken"), [(True, []), (False, ["F25"])])
def test_a_broker_waits_until_it_should_shut_down(
    broker: Stopping, released: bool, broken: list[str]
) -> None:
    assert broker.answer(NONE, should_shut_down=released) == broken
    assert broker.step(Tick(), Life.STOPPED) == broken, "once"


def test_other_answers_let_no_broker_go(broker: Stopping) -> None:
    assert broker.answer(NONE) == ["F25"]


@pytest.mark.parametrize(
    "event",
    [
        Tick(),
        ApiResponseReceived(1, 7, None),
        ApiResponseReceived(1, 7, {"error_code": NOT_CONTROLLER}),
    ],
)
def test_nothing_else_lets_a_broker_go(broker: Stopping, event: Any) -> None:
    assert broker.step(event, Life.STOPPED) == ["F25"]


def test_a_broker_that_was_not_in_service_ends_at_once(broker: Stopping) -> None:
    broker.host.life = 2
    broker.step(Tick(), Life.STARTING)
    assert broker.step(Tick(), Life.STOPPED) == []
    broker.host.node = None
    assert broker.step(Tick(), Life.STOPPED) == []
