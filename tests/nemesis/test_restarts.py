"""Restarts in order beside other faults, and cuts by what nodes are to each other."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.nemesis import schedule
from kraftwreck.nemesis.families.restarts import GAPS_S, RESTARTS
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.possible import check_simulator
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw_below
from tests.waiting import wait_until

PATIENCE_S = 30.0


@pytest.fixture
def injector(env: Any) -> Injector:
    return Injector(env, time.monotonic_ns)


def fault(shape: str, *targets: str, kind: str = "restart", draw: int = 5) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=draw, targets=targets)


def restarted(env: Any) -> list[tuple[str, str]]:
    return [call for call in env.calls if call[0] in ("stop", "kill", "upgrade", "start")]


def whole(env: Any, injector: Injector, shape: str, *targets: str) -> FaultEvent:
    """Let a fault run until all its targets have been started, and end it."""
    started = injector.start(0, fault(shape, *targets))
    assert started.error is None
    nodes = started.targets
    wait_until(lambda: sum(name == "start" for name, _ in env.calls) == len(nodes))
    return injector.stop(0)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ("rolling-in-order", ["n1", "n2", "n3", "n4", "n5"]),
        ("rolling-backwards", ["n5", "n4", "n3", "n2", "n1"]),
        ("bounce-leader", ["n3"]),
    ],
)
def test_nodes_are_restarted_one_after_the_other(
    env: Any, injector: Injector, shape: str, order: list[str]
) -> None:
    env.current_leader = "n3"
    event = whole(env, injector, shape)
    end = RESTARTS[shape].how
    assert restarted(env) == [(what, node) for node in order for what in (end, "start")]
    assert event.error is None
    assert all(event.evidence[node]["up"] for node in order)
    assert not env.down
    assert injector.heal_all() == []


def test_the_leader_is_the_last_or_the_first(env: Any, injector: Injector) -> None:
    env.current_leader = "n3"
    assert injector.start(0, fault("rolling")).targets[-1] == "n3"
    injector.stop(0)
    assert injector.start(1, fault("rolling-leader-first")).targets[0] == "n3"
    injector.stop(1)


def test_all_are_down_before_the_first_one_starts(env: Any, injector: Injector) -> None:
    whole(env, injector, "together")
    calls = restarted(env)
    assert {name for name, _ in calls[:5]} == {"stop"}
    assert calls[5:] == [("start", f"n{number}") for number in range(1, 6)]


def test_an_upgrade_exchanges_the_code_while_a_node_is_down(env: Any, injector: Injector) -> None:
    event = whole(env, injector, "upgrade", "n2", "n1")
    assert restarted(env) == [
        (what, node) for node in ("n2", "n1") for what in ("stop", "upgrade", "start")
    ]
    assert event.evidence["n1"]["code"] == "other"


def test_other_faults_are_not_held_up_and_leave_a_restarting_node_alone(
    env: Any, injector: Injector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = threading.Event()
    start = env.start
    monkeypatch.setattr(env, "start", lambda node: slow.wait(PATIENCE_S) and start(node))
    injector.start(0, fault("rolling", "n1", "n2"))
    wait_until(lambda: "n1" in env.down)
    skipped = injector.start(1, fault("one", "n1", "n3", kind="pause"))
    assert skipped.detail["skipped"] == {"n1": "down already"}
    assert env.paused == {"n3"}
    slow.set()
    injector.stop(1)
    injector.stop(0)
    assert not env.down | env.paused


def test_a_node_that_another_fault_holds_is_passed_over(env: Any, injector: Injector) -> None:
    injector.start(1, fault("one", "n2", kind="kill"))
    env.calls.clear()
    injector.start(0, fault("rolling", "n2", "n1"))
    wait_until(lambda: ("start", "n1") in env.calls)
    event = injector.stop(0)
    assert event.detail["missed"] == {"n2": "it is held by another fault"}
    assert env.down == {"n2"}


def test_the_end_of_the_fault_ends_the_round_after_the_node_under_way(
    env: Any, injector: Injector
) -> None:
    number = next(n for n in range(99) if GAPS_S[draw_below(len(GAPS_S), n, "gap")] == 1.0)
    injector.start(0, fault("rolling", draw=number))
    event = injector.stop(0)
    assert len(event.evidence) < 5
    assert not env.down


def test_a_node_that_does_not_start_is_tried_again(env: Any, injector: Injector) -> None:
    env.failing.add("start")
    injector.start(0, fault("bounce-leader", "n2"))
    wait_until(lambda: ("start", "n2") in env.calls)
    event = injector.stop(0)
    assert "start does not work" in str(event.error)
    env.failing.clear()
    (rest,) = injector.heal_all()
    assert rest.error is None
    assert not env.down


def test_only_hosts_restart_nodes_in_order() -> None:
    assert len(schedule.plan(("restart",), 1, 99, Scope.of("kraft", ("n1", "n2")))) > 3
    with pytest.raises(OptionError, match="'restart': it needs real hosts"):
        check_simulator(("restart",))
    check_simulator(("roles", "storage"))


# --- machines -----------------------------------------------------------------------------


def test_active_faults_are_restored_after_a_machine_crash(env: Any, injector: Injector) -> None:
    injector.start(0, fault("one", "n2", kind="host"))
    assert env.down == {"n2"}
    injector.start(1, fault("one", "n2", kind="partition"))
    injector.start(2, fault("jump", "n2", kind="clock"))
    env.calls.clear()
    event = injector.stop(0)
    assert [name for name, _ in env.calls] == ["boot_host", "drop", "set_clock", "start"]
    assert event.evidence["n2"]["host"] == "booted"
    assert "n2" in event.evidence["renewed"]
    assert not env.down
    injector.heal_all()
    assert injector.heal_all() == []


def test_a_machine_whose_disk_or_process_is_in_trouble_is_not_crashed(
    env: Any, injector: Injector
) -> None:
    injector.start(0, fault("slow", "n2", kind="disk"))
    injector.start(1, fault("cpu", "n3", kind="squeeze"))
    injector.start(2, fault("one", "n4", kind="kill"))
    event = injector.start(3, fault("all", "n2", "n3", "n4", "n5", kind="host"))
    assert event.targets == ["n5"]


def test_a_boot_that_failed_is_tried_again_before_anything_else(
    env: Any, injector: Injector
) -> None:
    env.failing.add("boot_host")
    injector.start(0, fault("one", "n2", kind="host"))
    assert "boot_host" in str(injector.stop(0).error)
    env.failing.clear()
    env.calls.clear()
    injector.heal_all()
    assert [name for name, _ in env.calls] == ["boot_host"]
