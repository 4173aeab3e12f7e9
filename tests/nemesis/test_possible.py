"""Faults that a cluster cannot do: refused by name, never drawn."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.capabilities import CLOCKS, PACKETS, PROCESSES
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.possible import adapt, check, lacking_of, unsupported
from kraftwreck.nemesis.registry import families

LACKING = {"links": "packets by tun: no device", "memory": "no control group"}
KRAFT = families("kraft")


def fault(kind: str, shape: str, draw: int) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=draw)


def test_each_shape_names_the_features_that_it_needs() -> None:
    def needs(name: str) -> set[str]:
        kind, _, shape = name.partition("/")
        return set(KRAFT[kind].features(shape))

    assert needs("network/slow") == {"messages", "links"}
    assert needs("wire/throttle") == needs("wire/port") == {"messages", "links", "wire"}
    assert needs("roles-slow/leader-and-busiest") == {"messages", "links", "load"}
    assert needs("network/rpc") == needs("network/duplicate") == {"messages", "relay"}
    assert needs("wire/names") == {"messages", "names", "wire"}
    assert needs("partition/one") == {"packets"}
    assert needs("roles/busiest") == {"packets", "load"}
    assert needs("squeeze/memory") == {"limits", "processes", "memory"}
    assert needs("squeeze/oom") == {"limits", "processes"}
    assert needs("kill/one") == {"processes"}
    assert needs("storage/torn") == {"disks", "processes", "torn writes"}


def test_a_family_of_which_nothing_can_be_done_is_refused_with_the_reason() -> None:
    with pytest.raises(OptionError) as refused:
        check(["partition", "roles-slow"], KRAFT, LACKING, "-c netns")
    assert str(refused.value) == (
        "-c netns does not support the fault 'roles-slow': packets by tun: no device"
    )


def test_a_family_of_which_something_can_be_done_is_not() -> None:
    check(["network", "wire", "squeeze", "kill"], KRAFT, LACKING, "-c netns")
    check(["roles-slow"], KRAFT, {}, "-c netns")


def test_impossible_faults_are_never_drawn_and_others_stay() -> None:
    schedule = [fault(kind, shape, n) for n in range(50) for kind, shape in (
        ("network", "slow"), ("wire", "corrupt"), ("squeeze", "memory"), ("kill", "one"),
        ("network", "rpc"))]  # fmt: skip
    adapted = adapt(schedule, KRAFT, LACKING, 3, 0)
    shapes = {(each.kind, each.shape) for each in adapted}
    assert {shape for kind, shape in shapes if kind == "network"} == {"rpc", "duplicate"}
    assert {shape for kind, shape in shapes if kind == "wire"} == {"names"}
    assert "memory" not in {shape for kind, shape in shapes if kind == "squeeze"}
    assert [each for each in adapted if each.kind == "kill"] == [
        each for each in schedule if each.kind == "kill"
    ]
    assert len(adapted) == len(schedule)
    assert adapt(schedule, KRAFT, LACKING, 3, 0) == adapted


def test_where_nothing_is_lacking_a_schedule_stays_as_it_is() -> None:
    schedule = [fault("network", "slow", 7), fault("squeeze", "memory", 8)]
    assert adapt(schedule, KRAFT, (), 3, 0) == schedule


class Plain:
    """A system that drops packets and ends processes, and says why it has no clocks."""

    offers = (PACKETS, PROCESSES)

    def lacking(self, options: RunOptions) -> dict[str, str]:
        return {CLOCKS.name: "static Go programs load no library that sets their clock"}


def test_a_system_refuses_what_it_does_not_offer_with_its_own_reason() -> None:
    system: Any = Plain()
    known = families("plain")
    lacking = lacking_of(system, RunOptions(), known)
    check(["partition", "kill", "pause", "terminate"], known, lacking, "plain")
    with pytest.raises(OptionError) as refused:
        check(["clock"], known, lacking, "plain")
    assert str(refused.value) == (
        "plain does not support the fault 'clock':"
        " static Go programs load no library that sets their clock"
    )
    assert unsupported("disk", known, lacking) == "it offers no disks"
    assert unsupported("storage", known, lacking) == "it offers no disks; it offers no torn writes"


def test_families_of_one_system_are_unknown_to_others() -> None:
    assert "membership" in KRAFT
    assert "membership" not in families("plain")
    assert set(families("plain")["kill"].shapes) < set(KRAFT["kill"].shapes)
