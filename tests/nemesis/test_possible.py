"""Faults that a cluster cannot do: refused by name, never drawn."""

from __future__ import annotations

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.possible import adapt, check, need
from kraftwreck.nemesis.registry import families

LACKING = {"packets": "packets by tun: no device", "memory": "no control group"}


def fault(kind: str, shape: str, draw: int) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=draw)


def test_each_shape_needs_one_kind_of_means() -> None:
    needs = {
        f"{name}/{shape_name}": need(family, shape)
        for name, family in families().items()
        for shape_name, shape in family.shapes.items()
    }
    assert needs["network/slow"] == needs["wire/throttle"] == "packets"
    assert needs["wire/port"] == needs["roles-slow/leader-and-busiest"] == "packets"
    assert needs["network/rpc"] == needs["network/duplicate"] == "messages"
    assert needs["wire/names"] == "names"
    assert needs["partition/one"] == needs["roles/busiest"] == "drops"
    assert needs["squeeze/memory"] == "memory"
    free = ("squeeze/oom", "kill/one", "clock/jump", "disk/slow", "roles-kill/leader-and-busiest")
    assert {needs[name] for name in free} == {""}


def test_a_family_of_which_nothing_can_be_done_is_refused_with_the_reason() -> None:
    with pytest.raises(OptionError) as refused:
        check(["partition", "roles-slow"], LACKING)
    assert str(refused.value) == (
        "these hosts do not support the fault 'roles-slow': packets by tun: no device"
    )


def test_a_family_of_which_something_can_be_done_is_not() -> None:
    check(["network", "wire", "squeeze", "kill"], LACKING)
    check(["roles-slow"], {})


def test_impossible_faults_are_never_drawn_and_others_stay() -> None:
    schedule = [fault(kind, shape, n) for n in range(50) for kind, shape in (
        ("network", "slow"), ("wire", "corrupt"), ("squeeze", "memory"), ("kill", "one"),
        ("network", "rpc"))]  # fmt: skip
    adapted = adapt(schedule, LACKING, 3, 0)
    shapes = {(each.kind, each.shape) for each in adapted}
    assert {shape for kind, shape in shapes if kind == "network"} == {"rpc", "duplicate"}
    assert {shape for kind, shape in shapes if kind == "wire"} == {"names"}
    assert "memory" not in {shape for kind, shape in shapes if kind == "squeeze"}
    assert [each for each in adapted if each.kind == "kill"] == [
        each for each in schedule if each.kind == "kill"
    ]
    assert len(adapted) == len(schedule)
    assert adapt(schedule, LACKING, 3, 0) == adapted


def test_with_all_means_a_schedule_stays_as_it_is() -> None:
    schedule = [fault("network", "slow", 7), fault("squeeze", "memory", 8)]
    assert adapt(schedule, (), 3, 0) == schedule
