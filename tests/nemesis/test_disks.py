"""Failing disks: the targets, a bit that is flipped in one disk only, and the repair."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import schedule, triggers
from kraftwreck.nemesis.families.disks import DISKS
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope


@pytest.fixture
def injector(env: Any) -> Injector:
    return Injector(env, lambda: 7)


def fault(shape: str, *targets: str, kind: str = "disk") -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=5, targets=targets)


def done(env: Any, node: str = "n2") -> list[str]:
    """Return the actions on ``node``, in order."""
    return [
        name
        for name, what in env.calls
        if what == node or (isinstance(what, tuple) and what[0] == node)
    ]


def test_every_shape_strikes_the_disks_it_picks(env: Any, injector: Injector) -> None:
    for number, (name, shape) in enumerate(DISKS.items()):
        event = injector.start(number, fault(name))
        assert event.error is None
        assert event.targets
        expected = "flipped" if shape.fault == "flip" else "trouble"
        assert all(expected in event.evidence[node] for node in event.targets)
        injector.stop(number)
        assert not env.down
        env.calls.clear()


def test_a_disk_in_trouble_is_mended_and_its_node_started_in_case_it_died(
    env: Any, injector: Injector
) -> None:
    injector.start(0, fault("error", "n2"))
    injector.stop(0)
    assert done(env) == ["trouble_disk", "mend_disk", "start"]


def test_a_node_that_another_fault_holds_is_not_started(env: Any, injector: Injector) -> None:
    injector.start(0, fault("full", "n2"))
    injector.start(1, fault("one", "n2", kind="kill"))
    injector.stop(0)
    assert done(env) == ["trouble_disk", "kill", "mend_disk"]
    injector.stop(1)
    assert done(env)[-1] == "start"


def test_a_damaged_machine_is_replaced_where_members_can_change(
    env: Any, injector: Injector
) -> None:
    started = injector.start(0, fault("flip", "n2"))
    assert started.evidence["n2"]["refused"] == "corrupt"
    stopped = injector.stop(0)
    assert done(env) == ["kill", "damage_disk", "start", "wipe", "start"]
    assert ("change_members", [("add", "n2")]) in env.calls
    assert stopped.evidence["n2"]["wiped"] is True


@pytest.mark.parametrize("why", ["members are fixed", "an earlier change is not complete"])
def test_otherwise_the_bit_is_put_right(env: Any, injector: Injector, why: str) -> None:
    env.fixed = why if "fixed" in why else None
    injector.start(0, fault("flip", "n2"))
    env.open_changes = 1
    stopped = injector.stop(0)
    assert done(env) == ["kill", "damage_disk", "start", "mend_disk", "start"]
    assert stopped.detail["put right"] == why
    assert not any(name == "change_members" for name, _ in env.calls)


def test_damage_that_was_repaired_needs_nothing(env: Any, injector: Injector) -> None:
    injector.start(0, fault("flip", "n2"))
    env.damaged.clear()
    env.down.clear()
    injector.stop(0)
    assert not any(name in ("wipe", "change_members") for name, _ in env.calls)


def test_one_disk_at_a_time_is_damaged_and_none_of_a_node_that_is_held(
    env: Any, injector: Injector
) -> None:
    injector.start(0, fault("one", "n2", kind="pause"))
    held = injector.start(1, fault("flip", "n2"))
    assert held.targets == []
    injector.start(2, fault("flip", "n3"))
    second = injector.start(3, fault("flip", "n4"))
    assert second.targets == []
    assert env.damaged == {"n3"}
    same = injector.start(4, fault("slow", "n3"))
    assert same.detail["skipped"] == {"n3": "its disk has a fault already"}


def test_a_kill_of_a_damaged_node_does_not_start_it_before_it_is_mended(
    env: Any, injector: Injector
) -> None:
    injector.start(0, fault("flip", "n2"))
    injector.start(1, fault("one", "n2", kind="kill"))
    injector.stop(1)
    assert done(env) == ["kill", "damage_disk", "start"]
    injector.heal_all()
    assert not env.down


@pytest.mark.parametrize("kind", ["disk", "storage"])
def test_both_kinds_of_schedules_have_disks(kind: str) -> None:
    nodes = ("n1", "n2", "n3")
    for planned in (
        schedule.plan((kind,), 1, 200, Scope.of("kraft", nodes)),
        triggers.plan((kind,), 1, 99, Scope.of("kraft", nodes)),
    ):
        assert {each.shape for each in planned} <= set(families()[kind].shapes)
        assert len(planned) > 5


@pytest.mark.parametrize("shape", ["torn", "torn-leader", "torn-minority"])
def test_a_log_is_torn_while_its_node_is_down(env: Any, injector: Injector, shape: str) -> None:
    started = injector.start(0, fault(shape, kind="storage"))
    assert all(started.evidence[node]["torn"] for node in started.targets)
    assert done(env, started.targets[0]) == ["kill", "tear_log", "start"]
    assert not env.down, "what was never acknowledged may be cut"
    injector.stop(0)
    assert not env.down


def test_a_read_only_disk_is_mended_and_its_node_started(env: Any, injector: Injector) -> None:
    injector.start(0, fault("readonly", "n2", kind="storage"))
    assert ("trouble_disk", ("n2", "readonly")) in env.calls
    injector.stop(0)
    assert done(env) == ["trouble_disk", "mend_disk", "start"]
