"""Processes that get too little: one want at a time each, given back however they fared."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import schedule
from kraftwreck.nemesis.families.squeezes import SQUEEZES
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.possible import check_simulator
from kraftwreck.nemesis.scope import Scope


@pytest.fixture
def injector(env: Any) -> Injector:
    return Injector(env, lambda: 7)


def fault(shape: str, *targets: str, kind: str = "squeeze") -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=5, targets=targets)


def done(env: Any, node: str = "n2") -> list[str]:
    """Return the actions on ``node``, in order."""
    return [name for name, what in env.calls if node in (what, what and what[0])]


def test_every_shape_is_given_back_and_leaves_everybody_up(env: Any, injector: Injector) -> None:
    for number, name in enumerate(SQUEEZES):
        event = injector.start(number, fault(name))
        assert (event.error, bool(event.targets)) == (None, True)
        assert injector.stop(number).error is None
        assert not env.down
    assert injector.heal_all() == []


def test_a_squeezed_node_that_died_is_started_again(env: Any, injector: Injector) -> None:
    injector.start(0, fault("files", "n2"))
    injector.stop(0)
    assert done(env) == ["squeeze", "release", "start"]


def test_a_node_killed_for_want_of_memory_is_down_until_the_fault_ends(
    env: Any, injector: Injector
) -> None:
    injector.start(0, fault("oom", "n2"))
    skipped = injector.start(1, fault("one", "n2", kind="pause"))
    assert skipped.detail["skipped"] == {"n2": "down already"}
    injector.stop(1)
    injector.stop(0)
    assert done(env) == ["squeeze", "release", "start"]


def test_a_slow_start_is_a_kill_and_a_start_with_little_cpu(env: Any, injector: Injector) -> None:
    started = injector.start(0, fault("slow-start", "n2"))
    assert started.evidence["n2"]["launched"]
    injector.stop(0)
    assert done(env) == ["kill", "squeeze", "launch", "release", "start"]


def test_one_want_at_a_time_and_none_of_a_node_that_is_held(env: Any, injector: Injector) -> None:
    injector.start(0, fault("cpu", "n2"))
    again = injector.start(1, fault("memory", "n2"))
    assert again.detail["skipped"] == {"n2": "it is squeezed already"}
    injector.start(2, fault("one", "n3", kind="kill"))
    held = injector.start(3, fault("cpu", "n3"))
    assert held.targets == []


def test_a_failed_release_is_tried_again(env: Any, injector: Injector) -> None:
    injector.start(0, fault("cpu", "n2"))
    env.failing.add("release")
    assert "release" in str(injector.stop(0).error)
    env.failing.clear()
    (rest,) = injector.heal_all()
    assert (rest.kind, rest.error, rest.targets) == ("heal", None, ["n2"])


def test_the_simulator_refuses_them_in_one_line() -> None:
    planned = schedule.plan(("squeeze",), 1, 99, Scope.of("kraft", ("n1", "n2")))
    assert {each.kind for each in planned} == {"squeeze"}
    with pytest.raises(OptionError, match="the fault 'squeeze': it needs real hosts"):
        check_simulator(("kill", "squeeze"))
