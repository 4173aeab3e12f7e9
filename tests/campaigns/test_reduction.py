"""Shrinking keeps the failure and loses everything else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraftwreck.campaigns.case import FLAT, Case, replaced, settings, with_settings
from kraftwreck.campaigns.ddmin import ddmin
from kraftwreck.campaigns.reduction import shrink
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault
from kraftwreck.systems.kraft.simulated.knobs import Knobs

SECOND = 1_000_000_000


def fault(number: int, **changes: object) -> Fault:
    plain: dict[str, object] = {
        "at": number * SECOND + 123_456_789,
        "kind": "kill",
        "shape": "one",
        "duration": 3_456_789_012,
        "draw": 77,
        "targets": (f"n{1 + number % 5}",),
    }
    return Fault(**{**plain, **changes})  # type: ignore[arg-type]  # fields by name


def case_of(faults: int = 12, operations: int = 60) -> Case:
    return Case(
        workload="metadata",
        nodes=5,
        time_limit_s=30.0,
        rate=10.0,
        concurrency=5,
        seed=7,
        knobs=Knobs(
            latency_min=2_000,
            latency_max=40_000,
            power_loss=100,
            node={"linger_ms": 0, "max_idle_ms": 5_000},
            hasty={"fetch_timeout_ms": 1_000},
            hasty_nodes=(2, 5),
        ).fitted(5, 2),
        schedule=tuple(fault(number) for number in range(faults)),
        operations=tuple((i % 5, i // 5) for i in range(operations)),
    )


def strikes(case: Case, *names: str) -> bool:
    """Whether there are faults on these nodes, in this order."""
    hit = iter(name for f in case.schedule for name in f.targets)
    return all(any(name == other for other in hit) for name in names)


def test_ddmin_finds_the_elements_that_matter_in_few_questions() -> None:
    asked = 0

    def fails(kept: tuple[int, ...]) -> bool:
        nonlocal asked
        asked += 1
        return {3, 77, 250} <= set(kept)

    assert ddmin(range(300), fails) == (3, 77, 250)
    assert asked < 80


def test_every_element_of_a_ddmin_result_is_needed() -> None:
    def fails(kept: tuple[int, ...]) -> bool:
        return sum(kept) >= 50 and len(kept) % 2 == 0

    kept = ddmin(range(20), fails)
    assert fails(kept)
    assert not any(fails(kept[:i] + kept[i + 1 :]) for i in range(len(kept)))


def test_a_failure_without_causes_shrinks_to_an_empty_case() -> None:
    done = shrink(case_of(), lambda case: True)
    assert done.ended == "minimal"
    assert done.case.schedule == ()
    assert done.case.operations == ()
    assert done.case.nodes == 3
    assert done.case.knobs.beside == 0
    assert settings(done.case.knobs) == ()
    assert done.case.time_limit_s == 1.0


def test_each_kind_of_thing_is_dropped_on_its_own() -> None:
    """A failure that needs two faults in order, one operation, four nodes, one setting."""

    def fails(case: Case) -> bool:
        return (
            strikes(case, "n2", "n4")
            and (3, 4) in (case.operations or ())
            and case.nodes >= 4
            and case.knobs.node.get("linger_ms") == 0
            and case.seed == 7
        )

    case = shrink(case_of(), fails).case
    assert [f.targets for f in case.schedule] == [("n2",), ("n4",)]
    assert case.operations == ((3, 4),)
    assert (case.concurrency, case.rate) == (4, 8.0), "the others keep their pace"
    assert case.nodes == 4
    assert case.knobs.beside == 0
    assert settings(case.knobs) == (("node", "linger_ms"),)


def test_durations_become_the_shortest_class_that_still_fails_and_times_round() -> None:
    def fails(case: Case) -> bool:
        return any(f.duration >= 200_000_000 and f.at >= 2_050_000_000 for f in case.schedule)

    case = shrink(case_of(), fails).case
    assert [f.duration for f in case.schedule] == [300_000_000]
    assert [f.at % SECOND for f in case.schedule] == [0]
    assert [f.draw for f in case.schedule] == [0]


def test_a_failure_that_needs_a_coincidence_is_looked_for_under_other_seeds() -> None:
    """One fault suffices where the draws are right; its own run needs all of them."""

    def fails(case: Case) -> bool:
        its_own = len(case.schedule) == 12 and case.time_limit_s >= 12
        return its_own or (case.seed == 5 and len(case.schedule) == 1)

    case = shrink(case_of(), fails).case
    assert (case.seed, len(case.schedule)) == (5, 1)


def test_delays_become_flat_and_stay_flat() -> None:
    case = shrink(case_of(), lambda case: case.knobs.power_loss == 100).case
    assert settings(case.knobs) == (("power_loss", None),)
    assert (case.knobs.latency_min, case.knobs.latency_max) == (
        FLAT["latency_min"],
        FLAT["latency_max"],
    )


def test_a_node_that_is_gone_is_hit_by_nothing() -> None:
    faults = (fault(0, targets=("n1", "n5")), fault(1, targets=("@",), trigger="elected#1"))
    start = replaced(case_of(), schedule=faults)
    case = shrink(start, lambda case: len(case.schedule) == 2).case
    assert case.nodes == 3
    assert [f.targets for f in case.schedule] == [("n1",), ("@",)]
    assert case.knobs.hasty_nodes == ()


def test_knobs_that_depend_on_the_number_of_nodes_follow_it() -> None:
    def fails(case: Case) -> bool:
        return case.knobs.hasty_nodes != ()

    assert shrink(case_of(), fails).case.knobs.hasty_nodes == (2,)


def test_half_a_spread_is_never_made_plain() -> None:
    knobs = Knobs(latency_min=50_000, latency_max=90_000)
    assert with_settings(knobs, [("latency_min", None)]) == Knobs()


def test_no_case_is_asked_twice() -> None:
    asked: list[bytes] = []

    def fails(case: Case) -> bool:
        asked.append(case.key)
        return strikes(case, "n3") and len(case.operations or ()) % 2 == 0

    shrink(case_of(), fails)
    assert len(asked) == len(set(asked))


def test_the_search_ends_with_its_budget_and_keeps_the_best() -> None:
    spent = 0

    def fails(case: Case) -> bool:
        nonlocal spent
        spent += 1
        return strikes(case, "n2")

    done = shrink(case_of(), fails, enough=lambda: spent >= 8)
    assert done.ended == "budget"
    assert done.runs == 7, "the case itself was asked first"
    assert strikes(done.case, "n2")


def test_ctrl_c_keeps_the_best_found_so_far() -> None:
    def fails(case: Case) -> bool:
        if len(case.schedule) == 3:
            raise KeyboardInterrupt
        return len(case.schedule) >= 3

    done = shrink(case_of(), fails)
    assert done.ended == "interrupted"
    assert 3 < len(done.case.schedule) <= 12


def test_a_passing_case_is_not_shrunk() -> None:
    with pytest.raises(OptionError, match="does not fail"):
        shrink(case_of(), lambda case: False)


def test_improvements_are_reported_with_their_pass() -> None:
    told: list[tuple[str, int]] = []

    def hear(what: str, case: Case, runs: int) -> None:
        told.append((what, runs))

    shrink(case_of(), lambda case: len(case.schedule) >= 2, on_progress=hear)
    assert {"length", "faults", "operations", "nodes", "settings", "delays"} <= {n for n, _ in told}
    assert [runs for _, runs in told] == sorted(runs for _, runs in told)


@pytest.mark.parametrize("needed", [("n1",), ("n5", "n1"), ("n2", "n3", "n4")])
def test_the_result_is_minimal_whatever_is_needed(needed: tuple[str, ...]) -> None:
    fails: Callable[[Case], bool] = lambda case: strikes(case, *needed)  # noqa: E731  # typed
    case = shrink(case_of(), fails).case
    assert [f.targets[0] for f in case.schedule] == list(needed)


def test_nothing_waits_longer_than_it_must() -> None:
    def fails(case: Case) -> bool:
        at = sorted(f.at for f in case.schedule)
        return len(at) == 2 and at[1] - at[0] >= 900_000_000 and case.time_limit_s * SECOND > at[1]

    start = replaced(case_of(), schedule=(fault(9), fault(20)))
    case = shrink(start, fails).case
    assert [f.at for f in case.schedule] == [0, SECOND]
    assert case.time_limit_s == 2.0


def test_faults_of_the_last_nodes_may_hit_others_instead() -> None:
    start = replaced(case_of(), schedule=(fault(1), fault(4)))  # n2 and n5
    case = shrink(start, lambda case: len(case.schedule) == 2).case
    assert (case.nodes, [f.targets for f in case.schedule]) == (3, [("n2",), ("n1",)])
