"""Cuts, ends and pauses by what nodes are to each other."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import storms
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope
from kraftwreck.systems.kraft.faults.roles import ROLES


def fault(shape: str, kind: str) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=5)


@pytest.fixture
def mixed(env: Any) -> Any:
    """Three controllers, of which n2 leads, and two brokers, of which n5 leads most."""
    env.controllers = ("n1", "n2", "n3")
    env.current_leader, env.busiest_node = "n2", "n5"
    return env


def heard(env: Any) -> set[tuple[str, str]]:
    """Pairs of nodes, the first of which hears the second one."""
    return {
        (a, b)
        for a in env.nodes
        for b in env.nodes
        if a != b and b not in env.dropped.get(a, set())
    }


@pytest.mark.parametrize(
    ("shape", "together", "link"),
    [
        ("leader-with-busiest", True, False),
        ("leader-from-busiest", False, True),
        ("leader-and-busiest", False, False),
    ],
)
def test_the_leader_and_the_busiest_broker_are_cut_off(
    mixed: Any, injector: Injector, shape: str, together: bool, link: bool
) -> None:
    event = injector.start(0, fault(shape, kind="roles"))
    assert event.targets == ["n2", "n5"]
    assert event.detail["busiest"] == "n5"
    pairs = heard(mixed)
    assert (("n2", "n5") in pairs, ("n5", "n2") in pairs) == (together, together)
    assert (("n2", "n1") in pairs, ("n4", "n5") in pairs) == (link, link)
    assert ("n1", "n4") in pairs
    injector.stop(0)
    assert not mixed.dropped


def test_the_leader_and_the_busiest_broker_end_and_are_started_together(
    mixed: Any, injector: Injector
) -> None:
    event = injector.start(0, fault("leader-and-busiest", kind="roles-kill"))
    assert event.targets == ["n2", "n5"]
    assert mixed.down == {"n2", "n5"}
    assert not mixed.dropped
    assert injector.stop(0).error is None
    assert not mixed.down


def test_the_leader_and_the_busiest_broker_pause_together(mixed: Any, injector: Injector) -> None:
    assert injector.start(0, fault("leader-and-busiest", kind="roles-pause")).error is None
    assert mixed.paused == {"n2", "n5"}
    injector.stop(0)
    assert not mixed.paused


@pytest.mark.parametrize(
    ("shape", "slow"),
    [
        ("leader-and-busiest", {(a, b) for a in ("n2", "n5") for b in ("n1", "n3", "n4")}),
        ("leader-from-busiest", {("n2", "n5")}),
    ],
)
def test_the_leader_and_the_busiest_broker_are_slow(
    mixed: Any, injector: Injector, shape: str, slow: set[tuple[str, str]]
) -> None:
    event = injector.start(0, fault(shape, kind="roles-slow"))
    assert event.error is None
    wanted = event.detail["disturbances"]
    pairs = {(a, b) for each in wanted for a in each["senders"] for b in each["receivers"]}
    assert pairs == slow | {(b, a) for a, b in slow}
    assert all(each["delay"] >= 20_000 for each in wanted)
    assert injector.stop(0).error is None


def test_the_busiest_broker_runs_ahead_of_its_followers_and_dies(
    mixed: Any, injector: Injector
) -> None:
    mixed.controllers = ("n1", "n2")
    event = injector.start(0, fault("busiest", kind="roles-outrun"))
    assert event.targets == ["n5"]
    apart = {(a, b) for a in ("n3", "n4") for b in ("n5",)}
    everyone = {(a, b) for a in mixed.nodes for b in mixed.nodes if a != b}
    assert heard(mixed) == everyone - apart - {(b, a) for a, b in apart}
    assert not mixed.down
    mixed.calls.clear()
    assert injector.stop(0).error is None
    names = [call[0] for call in mixed.calls]
    assert names.index("kill") < names.index("heal") < names.index("start")
    assert not mixed.down
    assert not mixed.dropped


def test_a_broker_that_ran_ahead_stays_down_while_another_fault_keeps_it_down(
    mixed: Any, injector: Injector
) -> None:
    injector.start(0, fault("busiest", kind="roles-outrun"))
    injector.start(1, fault("leader-and-busiest", kind="roles-kill"))
    event = injector.stop(0)
    assert event.detail["skipped"]["n5"]
    assert mixed.down == {"n2", "n5"}
    assert not mixed.dropped
    injector.stop(1)
    assert not mixed.down


def test_the_busiest_broker_is_any_while_nobody_knows(mixed: Any, injector: Injector) -> None:
    mixed.busiest_node = None
    event = injector.start(0, fault("busiest", kind="roles"))
    assert set(event.targets) < {"n4", "n5"}
    assert len(event.targets) == 1


def test_roles_need_brokers(env: Any, injector: Injector) -> None:
    assert injector.start(0, fault("busiest", kind="roles")).detail["skipped"]
    assert families()["roles"].usable(5, 0) == {}
    assert set(families()["roles"].usable(5, 2)) == set(ROLES)


def test_without_brokers_roles_are_not_drawn() -> None:
    assert storms.plan(("roles",), 3, 60, Scope.of("kraft", ("n1", "n2", "n3", "n4", "n5"))) == []
