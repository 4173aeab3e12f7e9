"""Schedules by seed: many styles, few families at a time, and triggers that really fire."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import generator, relays, triggers
from kraftwreck.nemesis.generator import STYLES, few, style_of
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.workloads.registry import find

NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)
KINDS = ("partition", "kill", "pause", "power", "membership")
SECOND = 1_000_000_000


@pytest.mark.parametrize("style", sorted(set(STYLES)))
def test_the_seed_decides_everything(style: generator.Style) -> None:
    def plan(seed: int) -> list[Fault]:
        return generator.plan(KINDS, seed, 30, FIVE, style=style)

    assert plan(7) == plan(7)
    assert len({str(plan(seed)) for seed in range(10)}) == 10


def test_every_style_is_met() -> None:
    counts = Counter(style_of(seed) for seed in range(2000))
    assert set(counts) == set(STYLES)
    assert min(counts.values()) > 150


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_names_only_existing_targets(seed: int) -> None:
    for fault in generator.plan(KINDS, seed, 30, Scope.of("kraft", NODES, 1)):
        assert fault.kind in KINDS
        assert fault.shape in families()[fault.kind].usable(len(NODES), 1)
        assert 0 <= fault.at < 30 * SECOND
        assert fault.duration > 0


def test_a_run_has_one_two_three_or_all_families() -> None:
    counts = Counter(len(few(KINDS, seed)) for seed in range(1000))
    assert set(counts) == {1, 2, 3, 5}
    assert {kind for seed in range(50) for kind in few(KINDS, seed)} == set(KINDS)
    assert few((), 1) == []


def test_no_faults_without_families_or_nodes() -> None:
    assert generator.plan((), 3, 30, FIVE) == []
    assert relays.plan(("membership",), 3, 30, FIVE) == []
    assert relays.plan(KINDS, 3, 30, Scope.of("kraft", ("n1",))) == []


def test_fault_chains_use_only_the_requested_families() -> None:
    for seed in range(40):
        kinds = {fault.kind for fault in relays.plan(("kill",), seed, 30, FIVE)}
        assert kinds <= {"kill"}


def started(faults: list[Fault], seed: int, nodes: int) -> int:
    """Simulate ten seconds; return how many faults hit a node."""
    options = RunOptions(
        cluster="sim", nodes=nodes, seed=seed, time_limit_s=15, store=Path("unused")
    )
    result = simulate(options, find("leader"), faults, Injector)
    return sum(1 for fault in result.faults if fault.phase == "start" and fault.targets)


@pytest.mark.parametrize("seed", range(3))
def test_one_deposition_leads_to_the_next(seed: int) -> None:
    faults = triggers.depositions(seed, 15, FIVE)
    assert started(faults, seed, 3) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_triggers_do_not_wait_for_impossible_transitions(seed: int) -> None:
    faults = triggers.plan(("kill", "partition"), seed, 15, FIVE)
    assert started(faults, seed, 5) >= len(faults) / 3
