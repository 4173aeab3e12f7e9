"""``kraftwreck shrink`` and ``kraftwreck replay CASE``: small cases from failing runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.campaigns import shrinking
from kraftwreck.campaigns.campaign import Tested as Outcome
from kraftwreck.campaigns.case import Case, replaced
from kraftwreck.campaigns.case_file import Expected, SavedCase, read_case, write_case
from kraftwreck.campaigns.case_run import CaseRun, run_case
from kraftwreck.campaigns.shrink_kept import shrink_kept
from kraftwreck.campaigns.shrinking import PassesError, first_failure, shrink_case
from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.store import save
from kraftwreck.systems.simulators import simulate
from kraftwreck.workloads.registry import find

Run = Callable[..., Any]
SECOND = 1_000_000_000

QUIET = Case(
    workload="leader",
    nodes=3,
    time_limit_s=4.0,
    rate=4.0,
    concurrency=2,
    seed=3,
    knobs=Knobs(node={"linger_ms": 0}),
    schedule=(
        Fault(at=SECOND, kind="kill", shape="one", duration=SECOND, draw=1),
        Fault(at=2 * SECOND, kind="pause", shape="leader", duration=SECOND, draw=2),
    ),
)
PLANTED = "R01"
"""The high watermark is reported before a majority has the epoch's start: seen in any run."""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that says a bug was planted."""
    options = RunOptions(
        workload="leader", cluster="sim", nodes=3, seed=3, time_limit_s=4, rate=4, concurrency=2,
        mutant=PLANTED, store=tmp_path_factory.mktemp("store"),
    )  # fmt: skip
    workload = find("leader")
    result = simulate(options, workload, QUIET.schedule, Injector, knobs=QUIET.knobs)
    return save(options, workload, result)


@pytest.mark.slow
def test_a_run_with_a_planted_bug_is_shrunk_with_it_and_passes_without(
    kraftwreck: Run, failing: Path, tmp_path: Path
) -> None:
    ended = kraftwreck("shrink", failing, "--save", tmp_path / "kept", "--budget", 60, "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["passes_without"] is True
    assert told["before"]["faults"] == 2
    assert told["after"]["faults"] == 0
    assert told["after"]["operations"] == 0
    kept = [failing / "shrunk.json", tmp_path / "kept" / f"{PLANTED}.json"]
    assert told["saved"] == [str(path) for path in kept]
    assert "no faults" in ended.err
    assert f"repeat: kraftwreck replay {kept[0]}" in ended.err
    first, second = map(read_case, kept)
    assert first == second
    assert first.mutant == PLANTED

    again = kraftwreck("replay", kept[1], "--json")
    assert again.code == 0, again.err
    assert "still fails" in again.err
    assert "without it: passes" in again.err
    assert json.loads(again.out)["passes_without"] is True


def test_a_run_that_does_not_fail_is_not_shrunk(
    kraftwreck: Run, failing: Path, tmp_path: Path
) -> None:
    case = tmp_path / "case.json"
    write_case(case, SavedCase(case=QUIET))
    ended = kraftwreck("shrink", case)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("kraftwreck shrink: the run shows no failure")
    other = kraftwreck("shrink", failing, "--failure", "linearizable")
    assert other.code == 2
    assert "no linearizable" in other.err


def test_a_case_that_no_longer_fails_is_reported(kraftwreck: Run, tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    gone = Expected(checker="simulator", type="I1", roles=("leader",))
    write_case(case, SavedCase(case=QUIET, failure=gone))
    ended = kraftwreck("replay", case)
    assert ended.code == 1
    assert "passes; it used to fail: simulator: I1 (leader)" in ended.err


def test_a_case_that_is_to_pass_and_does_is_as_it_was(kraftwreck: Run, tmp_path: Path) -> None:
    case = tmp_path / "case.json"
    write_case(case, SavedCase(case=QUIET, about="quiet"))
    ended = kraftwreck("replay", case)
    assert ended.code == 0
    assert ended.err.splitlines()[-1] == "passes"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give either RUN, the folder of a run, or --seed"),
        (("--seed", 1, "--mutant", "X99"), "unknown mutant"),
        (("--seed", 1, "--mutant", "R01", "--patch", __file__), "cannot be combined"),
    ],
)
def test_bad_arguments_are_one_line(
    kraftwreck: Run, arguments: tuple[object, ...], says: str
) -> None:
    ended = kraftwreck("shrink", *arguments)
    assert ended.code == 254
    assert says in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_folder_that_is_no_run_is_refused(kraftwreck: Run, tmp_path: Path) -> None:
    ended = kraftwreck("shrink", tmp_path)
    assert ended.code == 254
    assert "test.json" in ended.err


@pytest.mark.slow
def test_the_schedule_of_a_run_on_hosts_is_tried_in_the_simulator(
    kraftwreck: Run, failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.campaigns.case_sources.SEEDS", 2)
    test = json.loads((failing / "test.json").read_text())
    hosts = {key: test[key] for key in ("options", "schedule")} | {"simulated": False}
    hosts["options"]["mutant"] = None
    (tmp_path / "test.json").write_text(json.dumps(hosts))
    ended = kraftwreck("shrink", tmp_path)
    assert ended.code == 2
    assert "only simulated runs can be shrunk" in ended.err
    hosts["options"]["mutant"] = PLANTED
    (tmp_path / "test.json").write_text(json.dumps(hosts))
    ended = kraftwreck("shrink", tmp_path, "--budget", 20)
    assert ended.code == 0, ended.err
    assert read_case(tmp_path / "shrunk.json").mutant == PLANTED


# --- the same failure ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet() -> CaseRun:
    return run_case(QUIET)


def test_nothing_fails_without_a_bug(quiet: CaseRun) -> None:
    assert quiet.failures == ()


def test_another_failure_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case with another failure is refused: it would be another bug's case."""
    real = Expected(checker="simulator", type="I1", roles=("leader",))
    other = Expected(checker="simulator", type="I1", roles=("follower",))

    def pretended(case: Case, *, checker: str | None = None, limit_s: float = 60.0) -> CaseRun:
        run = run_case(replaced(case, schedule=(), time_limit_s=1.0))
        failures = (real,) if len(case.schedule) >= 1 else (other,)
        return CaseRun(failures, run.result, 0.1)

    monkeypatch.setattr(shrinking, "run_case", pretended)
    monkeypatch.setattr(shrinking, "explicit", lambda case, ops, faults: case)
    shrunk = shrink_case(SavedCase(case=QUIET), 60.0, lambda line: None)
    assert shrunk.failure is not None
    assert shrunk.failure.same(real)
    assert len(shrunk.case.schedule) == 1


def test_a_failure_that_is_asked_for_is_the_one_that_is_kept() -> None:
    with pytest.raises(PassesError, match="shows no committed:I7"):
        first_failure(QUIET, None, "committed:I7")


def test_a_campaign_shrinks_nothing_that_was_not_kept() -> None:
    tested = Outcome(1, "leader", "", 0.0, 0.0)
    assert shrink_kept({("simulator", "I1"): tested}, lambda line: None) == []
