"""A governed schedule in the simulator: repeatable, recorded, and a plain schedule afterwards."""

from __future__ import annotations

from functools import cache

import pytest

from kraftwreck.campaigns.case import Case, explicit
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.plan import plan_faults
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World
from kraftwreck.systems.simulators import simulate
from kraftwreck.workloads.registry import find

SECOND = 1_000_000_000
OPTIONS = RunOptions(cluster="sim", nodes=3, time_limit_s=20.0, seed=4)


@cache
def governed() -> SimResult:
    return simulate(OPTIONS, find(OPTIONS.workload), plan_faults(OPTIONS, 0), Injector)


def spans(result: SimResult) -> list[tuple[str, str, int, tuple[str, ...]]]:
    return [(e.phase, e.kind, e.time, tuple(e.targets)) for e in result.faults if e.targets]


def test_the_same_seed_has_the_same_storms() -> None:
    again = simulate(OPTIONS, find(OPTIONS.workload), plan_faults(OPTIONS, 0), Injector)
    assert again.digest == governed().digest


def test_the_record_says_which_storm_a_fault_belongs_to_and_why_it_began() -> None:
    began = [event for event in governed().faults if event.phase == "start"]
    storms = [event.detail["storm"]["number"] for event in began]
    assert storms == sorted(storms)
    assert len(set(storms)) >= 2
    assert {event.detail["storm"]["after"] for event in began} <= {"recovery", "bound"}
    assert {event.kind for event in began} == set(OPTIONS.faults)


def test_between_storms_no_fault_is_in_force() -> None:
    in_force: set[int] = set()
    storm = 0
    for event in sorted(governed().faults, key=lambda e: (e.time, e.phase == "start")):
        if event.phase == "stop":
            in_force.discard(event.id)
            continue
        if event.detail["storm"]["number"] != storm:
            storm = event.detail["storm"]["number"]
            assert not in_force
        in_force.add(event.id)


def test_a_governed_run_in_other_words_is_a_schedule_by_time() -> None:
    result = governed()
    case = Case.of(OPTIONS, result.knobs, plan_faults(OPTIONS, 0))
    said = explicit(case, result.ops, result.faults)
    assert all(fault.storm is None and fault.trigger is None for fault in said.schedule)
    again = simulate(OPTIONS, find(OPTIONS.workload), said.schedule, Injector, knobs=result.knobs)
    assert spans(again) == spans(result)


@pytest.mark.interpreted
def test_a_fault_that_the_simulator_cannot_carry_out_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: World, name: str) -> bool:
        raise WorldError(f"{name} does not resume")

    monkeypatch.setattr(World, "resume", broken)
    options = RunOptions(seed=1, time_limit_s=5, rate=10, cluster="sim", nodes=3)
    paused = Fault(at=SECOND, kind="pause", shape="one", duration=SECOND, draw=1)
    with pytest.raises(WorldError, match="does not resume"):
        simulate(options, find("metadata"), [paused], Injector)
