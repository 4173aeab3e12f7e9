"""Node clocks that run at other rates are translated by what was sampled of them."""

from __future__ import annotations

from typing import Final, Literal

import pytest

from kraftwreck.checkers.recorded.clocks import (
    FLUSH_NS,
    NodeClock,
    after,
    fastest,
    node_clocks,
    pauses,
    running_since,
    slowest,
)
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.simulation.disk_trouble import SLOWEST

PHASES: Final[tuple[tuple[Literal["start", "stop"], int], ...]] = (("start", 5), ("stop", 9))

DRIFTED = {
    "n1": {"offset_us": 500, "samples": [[1_000, 1_500], [3_000, 2_500], [5_000, 6_500]]},
    "n2": {"offset_us": -700},
}


def test_an_undisturbed_clock_is_off_by_one_offset() -> None:
    clock = node_clocks({"clock": DRIFTED})["n2"]
    assert clock.time(-700) == 0
    assert clock.time(99_300) == 100_000
    assert clock.reading(100_000) == 99_300
    assert clock.stretch == 1.0


@pytest.mark.parametrize(
    ("reading", "time"),
    [
        (400, -100),  # before it was disturbed, as fast as the test's clock
        (1_500, 1_000),
        (2_000, 2_000),  # half as fast
        (2_500, 3_000),
        (4_500, 4_000),  # twice as fast
        (6_500, 5_000),
        (7_500, 6_000),  # as fast as the test's again
    ],
)
def test_a_disturbed_clock_is_followed_from_sample_to_sample(reading: int, time: int) -> None:
    clock = node_clocks({"clock": DRIFTED})["n1"]
    assert clock.time(reading) == time
    assert clock.reading(time) == reading


def test_a_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="goes from 10 to 10"):
        NodeClock([(0, 10), (5, 10)])


def test_the_slowest_clock_is_known() -> None:
    assert slowest({"simulated": True, "clock": {"n1": {"offset_us": 0}}}) == 1.0
    assert slowest({"clock": DRIFTED}) == 2.0


def test_a_span_of_a_nodes_time_ends_when_its_clock_says_so() -> None:
    clock = node_clocks({"clock": DRIFTED})["n1"]
    for since in range(0, 8_000, 250):
        end = clock.after(since, 1_000)
        assert abs(clock.reading(end) - clock.reading(since) - 1_000) <= 1
        assert after(clock, since * 1000, 1_000_000) == end * 1000
    assert after(None, 7, 5) == 12
    assert fastest({"clock": DRIFTED}) == 0.5


def test_runs_without_measured_clocks_have_none() -> None:
    assert node_clocks({}) == {}
    assert node_clocks({"clock": {"n1": {}}}) == {}


@pytest.mark.parametrize(
    ("kind", "shape", "stopped"),
    [
        ("pause", "one", [(5, 9)]),
        ("disk", "slow-leader", [(5, 1_000_000_009)]),
        ("disk", "full", []),
    ],
)
def test_a_node_that_waits_for_a_slow_disk_counts_as_paused(
    kind: str, shape: str, stopped: list[tuple[int, int]]
) -> None:
    """Seed 524770: a flush that began on a slow disk continued after the fault's end."""
    faults = [
        FaultEvent(
            id=0, phase=phase, kind=kind, shape=shape, targets=["n1"], time=time, done=time
        )
        for phase, time in PHASES
    ]  # fmt: skip
    assert pauses(faults) == ({"n1": stopped} if stopped else {})


def test_the_slowest_simulated_flush_takes_what_is_allowed_for() -> None:
    assert SLOWEST * 1000 == FLUSH_NS


def test_the_time_in_which_a_node_is_stopped_does_not_count_as_its_own() -> None:
    assert running_since(100, 10, []) == 90
    assert running_since(100, 10, [(0, 80)]) == 90, "over before"
    assert running_since(100, 10, [(200, 300)]) == 90, "still to come"
    assert running_since(100, 10, [(92, 95)]) == 87
    assert running_since(100, 10, [(50, 100)]) == 40
    assert running_since(100, 10, [(70, 88), (90, 95)]) == 67
    assert running_since(100, 10, [(96, 1 << 62)]) == 86
