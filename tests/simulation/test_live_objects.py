"""A worker of a campaign leaves nothing behind after a run, apart from caches that are bounded."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.simulators import simulate

pytestmark = pytest.mark.interpreted

RUNS = 6
SEED = 3


def live() -> Counter[str]:
    """Return how many objects there are of each class."""
    return Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())


def blocks() -> int:
    """Return how many blocks the allocator has given out."""
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize(
    ("workload", "own"),
    [
        ("metadata", ("brokers=0",)),
        pytest.param("produce", ("brokers=3", "records=yes"), marks=pytest.mark.slow),
    ],
)
def test_a_run_leaves_no_object(workload: str, own: tuple[str, ...]) -> None:
    """Equal runs need the same entries of each cache, so they add none."""
    campaign = KraftCampaign(workload=workload, time_limit_s=1, system_options=own)

    def runs(count: int) -> None:
        for _ in range(count):
            run_seed(campaign, SEED, keep=False, cover=True)

    runs(RUNS)
    gc.collect()
    before = live()
    given_out = blocks()
    runs(RUNS)
    more = blocks() - given_out
    left = {name: count - before[name] for name, count in live().items()}
    assert {name: count for name, count in left.items() if count >= RUNS} == {}
    assert more < RUNS, "objects that the collector does not see"


def test_a_run_begins_when_the_one_before_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its world is a cycle, which the collector would leave for hundreds of runs."""
    worlds: list[int] = []

    def counted(*arguments: Any, **options: Any) -> SimResult:
        worlds.append(sum(isinstance(each, World) for each in gc.get_objects()))
        return simulate(*arguments, **options)

    monkeypatch.setattr("kraftwreck.campaigns.campaign.simulate", counted)
    campaign = KraftCampaign(workload="metadata", time_limit_s=1)
    for seed in range(3):
        run_seed(campaign, seed, keep=False)
    assert len(set(worlds)) == 1, "only worlds of other tests"
