"""Schedules are decided by the seed, never overlap within a kind, and leave calm."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.schedule import CALM_S, PERIOD_S, SECOND, plan
from kraftwreck.nemesis.scope import Scope

NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)
KINDS = ("partition", "kill", "pause")


def test_the_seed_decides_everything() -> None:
    assert plan(KINDS, 7, 60, FIVE) == plan(KINDS, 7, 60, FIVE)
    assert plan(KINDS, 7, 60, FIVE) != plan(KINDS, 8, 60, FIVE)


def test_a_kinds_faults_do_not_depend_on_the_other_kinds() -> None:
    alone = plan(("kill",), 7, 60, FIVE)
    assert alone == [fault for fault in plan(KINDS, 7, 60, FIVE) if fault.kind == "kill"]


@pytest.mark.parametrize("seed", range(30))
def test_the_rules_of_a_schedule(seed: int) -> None:
    faults = plan(KINDS, seed, 60, FIVE)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    assert {fault.kind for fault in faults} == set(KINDS)
    for fault in faults:
        assert fault.at >= SECOND
        assert fault.duration >= SECOND - 1
        assert fault.duration <= 10 * SECOND
        assert fault.at + fault.duration <= 60 * SECOND
        period = fault.at // (PERIOD_S * SECOND)
        assert fault.at + fault.duration <= ((period + 1) * PERIOD_S - CALM_S) * SECOND + 1
    for kind in KINDS:
        own = [fault for fault in faults if fault.kind == kind]
        for earlier, later in pairwise(own):
            assert later.at - (earlier.at + earlier.duration) >= SECOND - 1


def test_kinds_do_overlap() -> None:
    def overlap(a: Fault, b: Fault) -> bool:
        return a.kind < b.kind and a.at < b.at + b.duration and b.at < a.at + a.duration

    faults = plan(KINDS, 1, 600, FIVE)
    assert sum(overlap(a, b) for a in faults for b in faults) > 20


def test_shapes_come_in_the_published_proportions() -> None:
    counts = Counter(fault.shape for fault in plan(("partition",), 1, 60_000, FIVE))
    total = sum(counts.values())
    assert total > 3000
    assert (counts["one"] + counts["leader"]) / total == pytest.approx(0.6, abs=0.04)
    partial = sum(counts[shape] for shape in ("bridge", "ring", "link", "links"))
    assert partial / total == pytest.approx(0.2, abs=0.03)


def test_small_clusters_get_only_shapes_that_mean_something() -> None:
    shapes = {fault.shape for fault in plan(KINDS, 1, 3000, Scope.of("kraft", NODES[:3]))}
    assert "ring" not in shapes
    assert plan(("partition",), 1, 600, Scope.of("kraft", ("n1",))) == []


def test_no_kinds_or_no_time_is_no_faults() -> None:
    assert plan((), 1, 60, FIVE) == []
    assert plan(KINDS, 1, 1.5, FIVE) == []


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        plan(("earthquake",), 1, 60, FIVE)
