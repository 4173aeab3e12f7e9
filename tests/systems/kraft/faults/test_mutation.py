"""Schedules that are changed by chance stay within what a cluster has."""

from __future__ import annotations

from kraftwreck.nemesis.registry import families
from tests.campaigns.test_steering import MS, kill, mutated, replace_shape


def test_nothing_is_made_that_means_nothing_there() -> None:
    faults = [replace_shape("broker"), kill(30_000)]
    for seed in range(40):
        for fault in mutated(seed, faults, []):
            assert fault.shape in families()[fault.kind].usable(5, 0)
            assert fault.at < 20_000 * MS
