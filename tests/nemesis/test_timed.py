"""The rival: faults by the clock alone, in Jepsen's shapes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nemesis.timed import INTERVAL_S, SECOND, plan

NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)
KINDS = ("partition", "kill", "pause", "power")


def test_the_seed_decides_everything() -> None:
    assert plan(KINDS, 7, 60, FIVE) == plan(KINDS, 7, 60, FIVE)
    assert plan(KINDS, 7, 60, FIVE) != plan(KINDS, 8, 60, FIVE)


def test_nothing_waits_for_the_protocol_and_targets_are_chosen_when_a_fault_starts() -> None:
    for fault in plan(KINDS, 1, 600, FIVE):
        assert fault.trigger is None
        assert fault.targets == ()


def test_shapes_are_jepsens_and_equally_frequent() -> None:
    faults = plan(("partition", "kill"), 1, 60_000, FIVE)
    for kind in ("partition", "kill"):
        counts = Counter(fault.shape for fault in faults if fault.kind == kind)
        assert set(counts) == set(families("kraft")[kind].jepsen or ())
        assert min(counts.values()) > 0.8 * max(counts.values())


def test_faults_start_and_end_once_an_interval_on_average() -> None:
    faults = plan(("kill",), 1, 60_000, FIVE)
    assert len(faults) == pytest.approx(60_000 / (2 * INTERVAL_S), rel=0.05)
    lengths = [fault.duration / SECOND for fault in faults]
    assert sum(lengths) / len(lengths) == pytest.approx(INTERVAL_S, rel=0.05)
    assert max(lengths) <= 2 * INTERVAL_S


def test_a_family_does_not_depend_on_the_others_and_has_one_fault_at_a_time() -> None:
    alone = plan(("kill",), 7, 600, FIVE)
    assert alone == [fault for fault in plan(KINDS, 7, 600, FIVE) if fault.kind == "kill"]
    for earlier, later in pairwise(alone):
        assert earlier.at + earlier.duration <= later.at


def test_all_is_over_when_the_run_is() -> None:
    assert all(f.at + f.duration <= 60 * SECOND + 1 for f in plan(KINDS, 3, 60, FIVE))
    assert plan((), 3, 60, FIVE) == []
