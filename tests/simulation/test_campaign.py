"""The settings that a campaign draws for its runs."""

from __future__ import annotations

from kraftwreck.systems.kraft.simulated.knobs import draw_knobs
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


def test_nobody_fetches_so_slowly_that_it_never_catches_up() -> None:
    for seed in range(3000):
        knobs = draw_knobs(seed, 5, quorum="dynamic", brokers=2)
        if knobs.slow_disk and knobs.fsync_max * knobs.slow_factor > 200_000:
            assert knobs.node["fetch_max_bytes"] >= 1_000, seed
