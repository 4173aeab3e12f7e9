"""F26: before its time a Tick finds nothing to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.simulation.clocks import Clock
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import tick_watch
from kraftwreck.systems.kraft.simulated.tick_watch import EACH, TickWatch

pytestmark = pytest.mark.interpreted

DUE = 5_000
AHEAD = 300
"""How far the clock of the node is ahead."""


class Ticking:
    """A node that asks for a Tick when its clock shows :data:`DUE`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(tick_watch, "Node", SimpleNamespace)
        self.failures = Failures()
        self.planned: list[tuple[int, Any]] = []
        world: Any = SimpleNamespace(
            now=1_000, on_step=[], at=lambda time, action, _: self.planned.append((time, action))
        )
        self.world = world
        TickWatch(world, self.failures)
        self.effects: list[Any] = []
        self.ticks: list[int] = []
        self.node = SimpleNamespace(deadline=DUE, step=self.tick)
        self.host: Any = SimpleNamespace(
            id=1, name="n1", life=1, node=self.node, clock=Clock(AHEAD, 0), paused=False,
            is_writing=False,
        )  # fmt: skip

    def tick(self, event: Any, mono: int, wall_ms: int) -> list[Any]:
        assert event == Tick()
        self.ticks.append(mono)
        return self.effects

    def steps(self, count: int = EACH) -> None:
        """Take steps of the node."""
        for _ in range(count):
            self.world.on_step[0](self.host, Tick())

    def broken(self) -> list[str]:
        """Let the planned Tick come; return the rules that are broken."""
        ((self.world.now, action),) = self.planned
        action()
        return [failure.type for failure in self.failures.items]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    return Ticking(monkeypatch)


def test_a_tick_comes_a_microsecond_early_and_has_no_effect(node: Ticking) -> None:
    node.steps()
    assert node.broken() == []
    assert node.ticks == [DUE - 1]
    assert node.world.now == DUE - AHEAD - 1


def test_one_with_effects_shows_that_the_node_asked_too_late(node: Ticking) -> None:
    node.steps()
    node.effects = [object()]
    assert node.broken() == ["F26"]
    assert "asks for a Tick in 1 µs" in node.failures.items[0].explanation


def test_only_one_in_so_many_steps_is_followed_by_one(node: Ticking) -> None:
    node.steps(EACH - 1)
    assert not node.planned
    node.steps(EACH + 1)
    assert len(node.planned) == 2


def test_none_comes_where_the_node_is_due_at_once(node: Ticking) -> None:
    node.node.deadline = node.world.now + AHEAD + 1
    node.steps()
    assert not node.planned
    node.node.deadline += 1
    node.steps()
    assert len(node.planned) == 1


def test_a_deadline_that_has_moved_closer_is_not_judged(node: Ticking) -> None:
    node.steps()
    node.effects = [object()]
    node.node.deadline -= 1
    assert node.broken() == []
    assert node.ticks == []


@pytest.mark.parametrize(
    "change", [{"life": 2}, {"node": None}, {"paused": True}, {"is_writing": True}]
)
def test_a_process_that_does_not_run_is_not_judged(node: Ticking, change: dict[str, Any]) -> None:
    node.steps()
    node.effects = [object()]
    vars(node.host).update(change)
    assert node.broken() == []


def test_without_a_process_nothing_is_planned(node: Ticking) -> None:
    node.host.node = None
    node.steps()
    assert not node.planned
