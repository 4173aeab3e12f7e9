"""The settings that a campaign draws for its runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs
from kraftwreck.systems.simulators import everything


def test_now_and_then_a_campaign_has_a_single_controller() -> None:
    counts = [everything().options(seed).nodes for seed in range(200)]
    assert set(counts) == {1, 3, 4, 5}
    lonely = [seed for seed in range(200) if counts[seed] == 1]
    for seed in lonely:  # Its disk is the only one, and nobody else could vote.
        for fault in everything().schedule(seed):
            assert fault.kind != "membership"
            on_brokers = fault.targets and all(name.startswith("b") for name in fault.targets)
            assert fault.kind != "disk" or on_brokers


def is_dense(seed: int, campaign: Any = None) -> bool:
    return bool((campaign or everything()).options(seed).rate == 200)


def test_one_run_in_eleven_sends_many_requests_to_one_controller() -> None:
    dense = [seed for seed in range(200) if is_dense(seed)]
    assert dense == list(range(3, 200, 11)), "early, and in place of all workloads"
    for seed in dense:
        options, knobs = everything().options(seed), everything().knobs(seed)
        assert isinstance(knobs, Knobs)
        assert (options.nodes, options.faults, knobs.brokers) == (1, (), 0)
        assert options.workload in ("requests", "partitions")
        assert everything().schedule(seed) == []


@pytest.mark.parametrize(
    "named",
    [
        {"workload": "requests"},
        {"nodes": 3},
        {"rate": 5.0},
        {"style": "timed"},
        {"governed": True},
        {"system_options": ("brokers=2",)},
        {"system_options": ("records=yes",)},
        {"system_options": ("shells=yes",)},
    ],
)
def test_a_campaign_that_names_a_choice_has_no_such_runs(named: Any) -> None:
    campaign = replace(everything(), **named)
    assert not any(is_dense(seed, campaign) for seed in range(100))


def test_nobody_fetches_so_slowly_that_it_never_catches_up() -> None:
    for seed in range(3000):
        knobs = draw_knobs(seed, 5, quorum="dynamic", brokers=2)
        if knobs.slow_disk and knobs.fsync_max * knobs.slow_factor > 200_000:
            assert knobs.node["fetch_max_bytes"] >= 1_000, seed
