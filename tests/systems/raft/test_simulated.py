"""The store on Raft in the simulator: clean runs stay clean, and planted bugs are found."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import Judged, run_schedule, run_seed
from kraftwreck.harness.options import Style
from kraftwreck.harness.simulated.core import FAULTS, load_core
from kraftwreck.histories.fault import Fault
from kraftwreck.systems.core_campaign import CoreCampaign
from kraftwreck.systems.core_simulator import CoreSimulator
from kraftwreck.systems.registry import simulated_workload

PATCHES = Path(__file__).parents[2] / "consensus" / "raft" / "mutants"
CAMPAIGN = CoreCampaign(system="raft", faults=FAULTS, time_limit_s=20.0)
Run = Any


@cache
def judged(seed: int) -> Judged:
    """Return the run of a seed, simulated once for all tests."""
    options = CAMPAIGN.options(seed)
    workload = simulated_workload("raft", options.workload)
    return run_schedule(options, workload, CAMPAIGN.knobs(seed), CAMPAIGN.schedule(seed))


@pytest.mark.xdist_group("raft runs")
def test_clean_runs_are_valid() -> None:
    tested = [judged(seed).tested for seed in range(12)]
    assert [(t.seed, t.found, t.unknown) for t in tested if t.found or t.unknown] == []


def test_seeds_choose_workloads_sizes_and_options() -> None:
    options = [CAMPAIGN.options(seed) for seed in range(60)]
    assert {each.workload for each in options} == set(load_core("raft").workloads)
    assert {each.nodes for each in options} == {3, 4, 5}
    for name in ("pre_vote", "read_index", "check_quorum"):
        assert {CAMPAIGN.knobs(seed).node[name] for seed in range(60)} == {0, 1}


@pytest.mark.xdist_group("raft runs")
def test_runs_reach_what_they_should() -> None:
    elections = installed = acknowledged = 0
    for seed in range(12):
        result = judged(seed).result
        kinds = [event.kind for event in result.events]
        elections += kinds.count("elected")
        installed += kinds.count("install")
        acknowledged += sum(op.type == "ok" for op in result.ops)
    assert elections > 30
    assert installed > 0
    assert acknowledged > 500


@pytest.mark.whole_run
def test_long_runs_of_locks_are_valid_and_go_through_many_locks() -> None:
    campaign = CoreCampaign(system="raft", workload="lock", faults=FAULTS, time_limit_s=120.0)
    workload = simulated_workload("raft", "lock")
    abandoned = 0
    for seed in range(4):
        schedule = campaign.schedule(seed)
        run = run_schedule(campaign.options(seed), workload, campaign.knobs(seed), schedule)
        assert run.verdict.valid is True, run.verdict
        ops = run.result.ops
        abandoned += max(op.key for op in ops if op.key is not None)
        assert any(op.type == "ok" for op in ops[len(ops) * 3 // 4 :]), "locks are not used up"
    assert abandoned >= 10


def test_a_slow_winner_may_lack_what_a_later_leader_committed() -> None:
    campaign = CoreCampaign(system="raft", faults=FAULTS)
    assert run_seed(campaign, 304, keep=False).found == []


def test_a_seed_decides_everything() -> None:
    once, again = (run_seed(CAMPAIGN, 3, keep=False).digest for _ in range(2))
    assert once == again


def test_faults_of_a_core_come_in_the_style_of_its_options() -> None:
    """In a single run storms are the default, as on hosts."""
    simulator, options = CoreSimulator("raft"), CAMPAIGN.options(3)

    def planned(style: Style, governed: bool = False) -> list[Fault]:
        return simulator.schedule(replace(options, style=style, governed=governed))

    storms, swarm, timed = planned("storms"), planned("swarm"), planned("timed")
    assert storms and all(fault.storm is not None for fault in storms)
    assert swarm and all(fault.storm is None for fault in swarm)
    assert timed and all(fault.storm is None and fault.trigger is None for fault in timed)
    assert all(fault.storm is not None for fault in planned("swarm", governed=True))
    assert CAMPAIGN.schedule(3) == swarm
    assert replace(CAMPAIGN, style="storms").schedule(3) == storms
    often = simulator.schedule(replace(options, style="timed", interval_s=1.0))
    assert len(often) > len(timed)


@pytest.mark.whole_run
def test_a_planted_bug_is_found_shrunk_and_replayed(kraftwreck: Run, tmp_path: Path) -> None:
    patch = PATCHES / "X06.patch"
    seeds = ("--seeds", "0..0", "-t", 30, "--jobs", 1)
    done = kraftwreck("sim", "raft", *seeds, "--patch", patch, "--store", tmp_path, "--json")
    assert done.code == 1
    small = next(tmp_path.rglob("shrunk.json"))
    assert json.loads(small.read_text())["system"] == "raft"
    assert kraftwreck("replay", small).code == 0, "it fails with the bug, and passes without"
    assert kraftwreck("replay", small.parent).code == 0, "the same digest"


def test_a_run_leaves_a_folder_that_replays(kraftwreck: Run, tmp_path: Path) -> None:
    seconds = ("-t", 10, "--seed", 1, "-n", "kill", "--floor", "none", "-w", "register")
    done = kraftwreck("run", "raft", "-c", "sim", *seconds, "--store", tmp_path, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["checkers"]["model/register"] is True
    assert kraftwreck("replay", told["run"]).code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("sim", "raft", "-w", "queue"), "it lacks enqueue, dequeue, drain"),
        (("sim", "raft", "-w", "leader"), "unknown workload 'leader' of raft"),
        (("sim", "--patch", "x.patch"), "--patch is for cores"),
        (("sim", "raft", "--patch", "x.patch"), "x.patch: No such file"),
        (("run", "raft", "-c", "sim", "-n", "membership"), "does not support"),
    ],
)
def test_what_it_cannot_do_is_one_line(kraftwreck: Run, arguments: Any, reason: str) -> None:
    done = kraftwreck(*arguments)
    assert (done.code, done.err.count("\n")) == (254, 1)
    assert reason in done.err
