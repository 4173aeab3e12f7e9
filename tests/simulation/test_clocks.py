"""The clocks of a machine: the monotonic one never jumps, whatever the wall clock does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import judge
from kraftwreck.checkers.recorded.clocks import node_clocks
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.families.clocks import CLOCKS
from kraftwreck.nemesis.inject import Injector
from kraftwreck.simulation.clocks import WALL_START, Clock
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.workloads.registry import find

SECOND = 1_000_000
MS = 1_000
NS = 1_000_000_000
DAY = 86_400 * SECOND
RIGHT = {"wall_us": 0, "strobe_us": 0, "rate_ppm": 0}
MakeToys = Callable[..., Any]


def test_a_steady_clock_is_ahead_by_its_offset() -> None:
    clock = Clock(7, 9)
    assert clock.steady
    assert (clock.mono(100), clock.wall(100), clock.due(107)) == (107, WALL_START + 109, 100)
    assert clock.told() == {"offset_us": 7}


@pytest.mark.parametrize("by", [DAY, -DAY, 50 * MS])
def test_the_wall_jumps_and_comes_back_and_the_monotonic_clock_does_not_care(by: int) -> None:
    clock = Clock(7, 9)
    clock.set(1000, by, 0, 0)
    assert clock.wall(2000) == WALL_START + 2009 + by
    assert clock.mono(2000) == 2007
    clock.set(3000, 0, 0, 0)
    assert clock.wall(4000) == WALL_START + 4009
    assert clock.steady and clock.told() == {"offset_us": 7}


def test_a_strobed_wall_goes_to_and_fro() -> None:
    clock = Clock(0, 0)
    clock.set(1000, 5 * SECOND, 100, 0)
    ahead = [clock.wall(t) - WALL_START - t for t in (1000, 1099, 1100, 1199, 1200, 1300)]
    assert ahead == [5 * SECOND, 5 * SECOND, 0, 0, 5 * SECOND, 0]
    clock.set(1350, 0, 0, 0)
    assert clock.wall(1350) == WALL_START + 1350


@pytest.mark.parametrize("rate", [-50_000, 50_000, 1_000_000, -500_000, -17])
def test_a_drifting_clock_is_continuous_and_its_deadlines_are_met(rate: int) -> None:
    clock = Clock(7, 0)
    clock.set(1 * SECOND, 0, 0, rate)
    second = SECOND + rate
    assert clock.mono(1 * SECOND) == 1 * SECOND + 7
    assert clock.mono(2 * SECOND) == 1 * SECOND + 7 + second
    assert clock.wall(2 * SECOND) == WALL_START + 1 * SECOND + second
    for reading in range(3 * SECOND, 3 * SECOND + 50):
        due = clock.due(reading)
        assert clock.mono(due) >= reading > clock.mono(due - 1)
    clock.set(3 * SECOND, 0, 0, 0)
    assert clock.steady
    assert clock.mono(3 * SECOND) == 1 * SECOND + 7 + 2 * second
    assert clock.wall(3 * SECOND) == WALL_START + 3 * SECOND, "right again"
    assert clock.mono(4 * SECOND) == 2 * SECOND + 7 + 2 * second
    assert clock.elapsed(0, 4 * SECOND) == 2 * SECOND + 2 * second
    assert clock.elapsed(2 * SECOND, 3 * SECOND) == second
    assert clock.elapsed(1 * SECOND, 2 * SECOND) == second, "both are past"
    assert clock.elapsed(0, SECOND // 2) == SECOND // 2


def test_recorded_clock_samples_convert_readings_to_time() -> None:
    clock = Clock(123, 0)
    rates = {1: -50_000, 3: 1_000_000, 4: 0, 9: 50_000, 11: 0}
    readings = []
    for second in range(12):
        if second in rates:
            clock.set(second * SECOND, 0, 0, rates[second])
        times = [second * SECOND + i * 77_777 for i in range(12)]
        readings += [(at, clock.mono(at)) for at in times]
    known = node_clocks({"clock": {"n1": clock.told()}})["n1"]
    for at, shown in readings:
        assert abs(known.time(shown) - at) <= 2, "readings are whole microseconds"


def test_a_node_with_a_fast_clock_ticks_more_often(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.run(1 * SECOND)
    made.world.set_clock("n1", **(RIGHT | {"rate_ppm": 1_000_000}))
    made.world.run(2 * SECOND)
    made.world.set_clock("n1", **RIGHT)
    made.world.run(3 * SECOND)
    asked = [e.mono for e in made.world.events if e.node == "n1" and e.kind == "asked"]
    assert len(asked) == pytest.approx(10 + 20 + 10, abs=2)
    gaps = {later - earlier for earlier, later in pairwise(asked)}
    assert gaps <= {100 * MS, 100 * MS + 1}


def test_a_slowed_clock_puts_the_next_tick_off(toys: MakeToys) -> None:
    made = toys(count=2)
    made.world.run(50 * MS)
    made.world.set_clock("n1", **(RIGHT | {"rate_ppm": -500_000}))
    made.world.run(149 * MS)
    assert "asked" not in made.kinds("n1")
    made.world.run(150 * MS)
    assert "asked" in made.kinds("n1")


def test_skewed_clocks_are_part_of_the_digest(toys: MakeToys) -> None:
    def digest(**setting: int) -> str:
        made = toys(count=2)
        made.world.set_clock("n1", **(RIGHT | setting))
        made.world.run(1 * SECOND)
        return str(made.world.digest)

    assert digest() != digest(wall_us=DAY)
    assert digest(wall_us=DAY) == digest(wall_us=DAY)


def test_clocks_always_advance() -> None:
    with pytest.raises(ValueError, match="ppm"):
        Clock(0, 0).set(0, 0, 0, -1_000_000)


# --- whole runs ---------------------------------------------------------------------------


def simulated(*schedule: Fault) -> SimResult:
    options = RunOptions(seed=1, time_limit_s=10, rate=10, cluster="sim", nodes=3)
    killed = Fault(at=2 * NS, kind="kill", shape="leader", duration=3 * NS, draw=1)
    return simulate(options, find("metadata"), (*schedule, killed), Injector, knobs=Knobs())


def skewed(shape: str, *nodes: str, draw: int = 5) -> Fault:
    return Fault(at=NS, kind="clock", shape=shape, duration=7 * NS, draw=draw, targets=nodes)


def told(result: SimResult) -> list[tuple[object, ...]]:
    return [
        (e.node, e.mono, e.kind, e.state, e.epoch, e.leader, e.voted, e.leo, e.hw)
        for e in result.events
    ]


@pytest.mark.parametrize("shape", ["jump", "strobe"])
def test_no_transition_hangs_on_the_wall_clock(shape: str) -> None:
    right, wrong = simulated(), simulated(skewed(shape, "n1", "n2", "n3"))
    assert wrong.failures == []
    assert told(right) == told(wrong)
    assert [e.wall for e in right.events] != [e.wall for e in wrong.events]


def test_a_leader_whose_clock_is_slow_may_take_longer_by_the_clocks_of_others() -> None:
    slow = next(draw for draw in range(99) if CLOCKS["drift"].setting(draw).rate_ppm == -500_000)
    cut = Fault(at=2 * NS, kind="partition", shape="leader", duration=8 * NS, draw=1)
    options = RunOptions(seed=1, time_limit_s=12, rate=10, cluster="sim", nodes=3)
    drift = skewed("drift", "n1", "n2", "n3", draw=slow)
    result = simulate(options, find("metadata"), [drift, cut], Injector, knobs=Knobs())
    assert result.failures == []
    clocks = node_clocks(result.test)
    resigned = next(e for e in result.events if e.kind == "resign")
    late = clocks[resigned.node].time(resigned.mono) - 2 * SECOND
    assert 5 * SECOND < late < 7 * SECOND, "3 s of its own time are 6 s"
    assert judge(result, find("metadata")).checkers["invariants"].valid is True
