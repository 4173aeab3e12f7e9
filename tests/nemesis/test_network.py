"""Network and clock faults: targets, effects, combinations, and ends."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kraftwreck.harness.capabilities import ClockSetting
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import triggers
from kraftwreck.nemesis.families.clocks import CLOCKS, JUMPS_US, together
from kraftwreck.nemesis.families.network import NetworkShape
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.possible import check_simulator
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.schedule import plan
from kraftwreck.nemesis.scope import Scope

NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)


def shapes(kind: str) -> dict[str, NetworkShape]:
    """The shapes of a family of network faults."""
    found = families("kraft")[kind].shapes
    return {name: shape for name, shape in found.items() if isinstance(shape, NetworkShape)}


NETWORKS, WIRES = shapes("network"), shapes("wire")
MS = 1000


def fault(kind: str, shape: str, *targets: str, draw: int = 11) -> Fault:
    return Fault(at=0, kind=kind, shape=shape, duration=1, draw=draw, targets=targets)


@pytest.fixture
def injector(env: Any) -> Injector:
    ticks = itertools.count(100, 10)
    return Injector(env, lambda: next(ticks))


@pytest.mark.parametrize("shape", NETWORKS)
@pytest.mark.parametrize("number", range(40))
def test_a_disturbance_stays_within_its_links_and_its_bounds(shape: str, number: int) -> None:
    known = NETWORKS[shape]
    targets = known.pick(NODES, number, "n3")
    assert len(targets) in (1, 2, 5)
    found = known.disturbances(NODES, targets, number)
    assert found == known.disturbances(NODES, targets, number)
    assert 1 <= len(found) <= 2
    for each in found:
        ends = {*each.senders, *each.receivers}
        assert ends == (set(targets) if len(targets) == 2 else set(NODES))
        assert targets[0] in each.senders or targets[0] in each.receivers
        assert len(targets) < 5 or each.senders == each.receivers
        assert each.delay <= 800 * MS and each.jitter <= each.delay
        assert each.loss in (0, 5, 10, 20, 40, 60)
        assert bool(each.apis) == (shape == "rpc")


def test_disturbances_add_up_and_end_one_by_one(env: Any, injector: Injector) -> None:
    begun = injector.start(1, fault("network", "slow", "n1"))
    assert begun.error is None
    assert begun.detail["disturbances"][0]["senders"]
    slow = list(env.disturbances)
    injector.start(2, fault("network", "reorder", "n2", "n3"))
    assert env.disturbances[: len(slow)] == slow
    assert len(env.disturbances) > len(slow)
    injector.stop(1)
    assert all(each.window for each in env.disturbances)
    injector.stop(2)
    assert env.disturbances == []
    assert injector.heal_all() == []


def test_a_disturbance_that_cannot_be_undone_is_tried_again(env: Any, injector: Injector) -> None:
    injector.start(1, fault("network", "lossy", "n1"))
    env.failing = {"disturb"}
    assert injector.stop(1).error == "disturb: RuntimeError: disturb does not work"
    env.failing = set()
    [event] = injector.heal_all()
    assert (event.kind, event.error) == ("heal", None)
    assert env.disturbances == []
    assert injector.heal_all() == []


def test_clocks_are_put_wrong_and_right_again(env: Any, injector: Injector) -> None:
    begun = injector.start(1, fault("clock", "jump", "n1", "n2"))
    assert abs(begun.detail["clock"]["wall_us"]) in JUMPS_US
    assert set(env.clocks) == {"n1", "n2"}
    injector.start(2, fault("clock", "drift", "n2"))
    assert env.clocks["n2"].rate_ppm and env.clocks["n2"].wall_us
    injector.stop(1)
    assert env.clocks["n1"] == ClockSetting()
    assert env.clocks["n2"].rate_ppm and not env.clocks["n2"].wall_us
    env.failing = {"set_clock"}
    assert "n2: RuntimeError" in (injector.stop(2).error or "")
    env.failing = set()
    assert injector.heal_all()[-1].targets == ["n2"]
    assert env.clocks["n2"] == ClockSetting()


def test_of_each_kind_of_wrong_clock_the_last_counts() -> None:
    jump, strobe = ClockSetting(wall_us=5), ClockSetting(wall_us=7, strobe_us=3)
    drift = ClockSetting(rate_ppm=9)
    assert together([]) == ClockSetting()
    assert together([jump, drift, strobe]) == ClockSetting(7, 3, 9)
    assert together([strobe, jump]) == jump


@pytest.mark.parametrize("number", range(40))
def test_settings_of_clocks_are_those_of_their_shape(number: int) -> None:
    jump, strobe, drift = (CLOCKS[name].setting(number) for name in ("jump", "strobe", "drift"))
    assert jump.wall_us and not jump.strobe_us and not jump.rate_ppm
    assert strobe.wall_us and strobe.strobe_us and not strobe.rate_ppm
    assert drift.rate_ppm and not drift.wall_us
    assert drift.rate_ppm > -1_000_000


def test_schedules_have_both_families_timed_and_triggered() -> None:
    kinds = ("network", "clock")
    timed = plan(kinds, 1, 600, FIVE)
    assert {f.shape for f in timed if f.kind == "network"} == set(NETWORKS)
    assert {f.shape for f in timed if f.kind == "clock"} == set(CLOCKS)
    triggered = [f for seed in range(40) for f in triggers.plan(kinds, seed, 30, FIVE)]
    assert {f.shape for f in triggered} == {*NETWORKS, *CLOCKS}
    assert all(shape in families()[f.kind].shapes for f in triggered for shape in [f.shape])


def test_the_simulator_refuses_faults_for_hosts_only() -> None:
    check_simulator(("kill", "clock", "network"))
    with pytest.raises(OptionError, match=r"the simulator .* 'wire': it needs real hosts"):
        check_simulator(("kill", "wire"))


@pytest.mark.parametrize("shape", WIRES)
@pytest.mark.parametrize("number", range(20))
def test_packet_faults_are_hosts_only(shape: str, number: int) -> None:
    known = WIRES[shape]
    targets = known.pick(NODES, number, "n3")
    found = known.disturbances(NODES, targets, number)
    assert found == known.disturbances(NODES, targets, number)
    assert not any(each.of_messages for each in found)
    assert all(each.of_packets for each in found) or shape == "reset"
    assert {*found[0].senders, *found[0].receivers} >= set(targets)
    if shape == "names":
        assert [each.senders for each in found] == [("n3",)]


def test_every_effect_of_packets_comes_up_in_a_schedule() -> None:
    assert {f.shape for f in plan(("wire",), 1, 600, FIVE)} == set(WIRES)
