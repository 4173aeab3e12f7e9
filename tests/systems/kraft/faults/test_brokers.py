"""Faults of brokers: their targets, and their place in schedules."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import triggers
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.schedule import plan
from kraftwreck.nemesis.scope import Scope

NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)
KINDS = ("partition", "kill", "pause")


def fault(kind: str, shape: str, *targets: str) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=11, targets=targets)


@pytest.mark.parametrize(("kind", "shape"), [("kill", "broker"), ("pause", "brokers")])
def test_a_fault_of_brokers_hits_no_controller(
    env: Any, injector: Injector, kind: str, shape: str
) -> None:
    env.controllers = ("n1", "n2", "n3")
    wanted = {"n4", "n5"}
    event = injector.start(1, fault(kind, shape))
    assert set(event.targets) <= wanted
    assert len(event.targets) == (1 if shape == "broker" else 2)


def test_a_broker_is_cut_off_from_everybody(env: Any, injector: Injector) -> None:
    env.controllers = ("n1", "n2", "n3", "n4")
    assert injector.start(1, fault("partition", "broker")).targets == ["n5"]
    assert env.dropped["n5"] == {"n1", "n2", "n3", "n4"}
    assert env.dropped["n1"] == {"n5"}
    injector.stop(1)
    assert injector.start(2, fault("partition", "mute-broker")).targets == ["n5"]
    assert env.dropped == {name: {"n5"} for name in ("n1", "n2", "n3", "n4")}


@pytest.mark.parametrize("kind", ["kill", "terminate", "pause", "power", "partition"])
def test_without_brokers_a_fault_of_brokers_is_skipped(
    env: Any, injector: Injector, kind: str
) -> None:
    event = injector.start(1, fault(kind, "broker"))
    assert (event.targets, event.error) == ([], None)
    assert event.detail["skipped"] == "there are no nodes of the role broker"
    assert injector.stop(1).error is None
    assert (env.down, env.paused, env.dropped) == (set(), set(), {})


def test_a_broker_that_was_shut_down_is_started_again(env: Any, injector: Injector) -> None:
    env.controllers = ("n1", "n2", "n3", "n4")
    assert injector.start(1, fault("kill", "one", "n4")).error is None
    begun = injector.start(2, fault("terminate", "one", "n4", "n5"))
    assert begun.evidence == {"n5": {"signal": "SIGTERM"}}
    assert begun.detail["skipped"] == {"n4": "down already"}
    assert injector.start(3, fault("terminate", "broker")).targets == ["n5"]
    injector.stop(3)
    assert env.down == {"n4", "n5"}
    injector.stop(2)
    assert env.down == {"n4"}
    assert "stop" in {what for what, _ in env.calls}


def test_brokers_are_struck_where_there_are_any() -> None:
    without = plan(KINDS, 1, 3000, FIVE)
    assert not {fault.shape for fault in without} & {"broker", "brokers", "mute-broker"}
    struck = {(f.kind, f.shape) for f in plan(KINDS, 1, 3000, Scope.of("kraft", NODES, 2))}
    assert {("kill", "broker"), ("pause", "brokers"), ("partition", "broker")} <= struck
    assert {("kill", "leader"), ("partition", "leader")} <= struck


def test_triggered_faults_strike_brokers_too() -> None:
    def shapes(brokers: int) -> set[str]:
        plans = (
            triggers.plan(KINDS, seed, 60, Scope.of("kraft", NODES, brokers)) for seed in range(40)
        )
        return {fault.shape for faults in plans for fault in faults}

    assert "broker" in shapes(1)
    assert "broker" not in shapes(0)
