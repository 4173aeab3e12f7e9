"""A node that starts slowly, and other faults meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.nemesis.inject import Injector
from tests.waiting import LIMIT_S


def fault(kind: str, *targets: str) -> Fault:
    return Fault(at=0, kind=kind, shape="one", duration=1, draw=11, targets=targets)


class Starting:
    """Lets nodes start only when the test says so."""

    def __init__(self, env: Any) -> None:
        self.begun = threading.Event()
        self.allowed = threading.Event()
        self._start: Callable[[str], dict[str, Any]] = env.start
        env.start = self.start

    def start(self, node: str) -> dict[str, Any]:
        self.begun.set()
        assert self.allowed.wait(LIMIT_S)
        return self._start(node)


@pytest.fixture
def injector(env: Any) -> Injector:
    return Injector(env, time.monotonic_ns)


def ending(injector: Injector, number: int) -> tuple[threading.Thread, list[FaultEvent]]:
    events: list[FaultEvent] = []
    thread = threading.Thread(target=lambda: events.append(injector.stop(number)))
    thread.start()
    return thread, events


def test_other_nodes_can_be_hit_meanwhile(env: Any, injector: Injector) -> None:
    starting = Starting(env)
    injector.start(1, fault("kill", "n1"))
    thread, events = ending(injector, 1)
    assert starting.begun.wait(LIMIT_S)
    assert injector.start(2, fault("pause", "n2")).error is None
    assert env.paused == {"n2"}
    assert not events
    starting.allowed.set()
    thread.join(LIMIT_S)
    assert env.down == set()
    assert events[0].evidence["n1"] == {"pid": 43}


def test_the_node_itself_counts_as_down_until_it_is_up(env: Any, injector: Injector) -> None:
    starting = Starting(env)
    injector.start(1, fault("kill", "n1"))
    thread, _ = ending(injector, 1)
    assert starting.begun.wait(LIMIT_S)
    assert injector.start(2, fault("kill", "n1")).detail["skipped"] == {"n1": "down already"}
    # And nobody else starts it: a third fault could have killed it between the two.
    assert injector.stop(2).detail["skipped"] == {"n1": "already starting"}
    starting.allowed.set()
    thread.join(LIMIT_S)
    assert [call for call in env.calls if call[0] == "start"] == [("start", "n1")]
    assert injector.start(3, fault("kill", "n1")).error is None
    assert env.down == {"n1"}
    injector.stop(3)
    assert env.down == set()


def test_a_start_that_failed_is_tried_again_at_the_end(env: Any, injector: Injector) -> None:
    injector.start(1, fault("kill", "n1"))
    env.failing.add("start")
    assert injector.stop(1).error == "n1: RuntimeError: start does not work"
    env.failing.clear()
    [rest] = injector.heal_all()
    assert rest.error is None
    assert env.down == set()


def test_no_vote_is_taken_while_a_replaced_machine_is_on_its_way_back(
    env: Any, injector: Injector
) -> None:
    # Of three members one has lost its disk: without another one, nobody would be elected again.
    def change(shape: str, node: str) -> Fault:
        return Fault(at=0, kind="membership", shape=shape, duration=1, draw=11, targets=(node,))

    starting = Starting(env)
    injector.start(1, change("replace", "n1"))
    thread, _ = ending(injector, 1)
    assert starting.begun.wait(LIMIT_S)
    assert injector.start(2, change("one", "n2")).detail["skipped"] == "another change is in force"
    starting.allowed.set()
    thread.join(LIMIT_S)
    injector.stop(2)
    assert injector.start(3, change("one", "n2")).detail.get("skipped") is None
    asked = [told for name, told in env.calls if name == "change_members"]
    assert asked == [[("add", "n1")], [("remove", "n2")]]


def test_a_slow_shutdown_delays_no_other_fault_and_ends_in_a_restart(
    env: Any, injector: Injector
) -> None:
    env.concurrent = True
    allowed, stop = threading.Event(), env.stop

    def slowly(node: str) -> dict[str, Any]:
        assert allowed.wait(LIMIT_S)
        told: dict[str, Any] = stop(node)
        return told

    env.stop = slowly
    begun = injector.start(1, fault("terminate", "n1"))
    assert (begun.error, begun.evidence) == (None, {}), "it is not known yet"
    assert injector.start(2, fault("pause", "n2")).error is None
    assert injector.start(3, fault("kill", "n1")).detail["skipped"] == {"n1": "down already"}
    injector.stop(3)
    thread, events = ending(injector, 1)
    thread.join(0.2)
    assert thread.is_alive()
    assert ("start", "n1") not in env.calls
    allowed.set()
    thread.join(LIMIT_S)
    assert env.down == set()
    assert events[0].evidence["n1"] == {"signal": "SIGTERM", "pid": 43}


def test_a_failed_end_is_reported(env: Any, injector: Injector) -> None:
    env.concurrent = True
    env.failing.add("stop")
    injector.start(1, fault("terminate", "n1"))
    assert "n1" in (injector.stop(1).error or "")
