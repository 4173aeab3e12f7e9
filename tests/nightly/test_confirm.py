"""After a fix: how many runs it takes to be sure, and which they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nightly.confidence import Seen, alike, runs_needed, seen
from kraftwreck.nightly.confirm import confirming, find
from kraftwreck.nightly.folder import NightError
from kraftwreck.nightly.plan import length, order

from .conftest import FakeNight, refuted

Make = Callable[..., FakeNight]


@pytest.mark.parametrize(
    ("rate", "runs"), [(1.0, 1), (0.99, 1), (0.5, 7), (0.1, 44), (0.01, 459), (0.001, 4603)]
)
def test_a_rarer_failure_needs_more_runs(rate: float, runs: int) -> None:
    assert runs_needed(rate) == runs
    assert rate == 1.0 or runs == math.ceil(math.log(0.01) / math.log(1 - rate))


@given(st.floats(1e-4, 0.999), st.floats(0.5, 0.999))
def test_so_many_runs_are_enough_and_one_less_is_not(rate: float, confidence: float) -> None:
    needed = runs_needed(rate, confidence)
    assert (1 - rate) ** needed <= (1 - confidence) * (1 + 1e-6)
    assert needed == 1 or (1 - rate) ** (needed - 1) > (1 - confidence) * (1 - 1e-6)


@pytest.mark.parametrize(("rate", "confidence"), [(0, 0.99), (1.1, 0.99), (0.5, 1), (0.5, 0)])
def test_invalid_probabilities_are_refused(rate: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="not"):
        runs_needed(rate, confidence)


def test_few_runs_leave_it_open_how_rare_it_is() -> None:
    assert Seen(1, 1).rate == 1
    assert 0.1 < Seen(1, 1).least < 0.4
    assert 0.85 < Seen(950, 1000).least / Seen(950, 1000).rate < 1


@pytest.fixture
def night(fake_night: Make) -> FakeNight:
    rules = {"1": [refuted()], "2": [refuted()], "4": [refuted("forked")], "5": [{"exit": 3}]}
    made = fake_night(rules, seeds="0..7")
    made.run()
    return made


def test_the_rate_is_that_of_the_same_failure_in_the_same_cell(night: FakeNight) -> None:
    record = night.record(1)
    past = seen(record, night.records)
    assert (past.failed, past.runs) == (2, 8)
    same = alike(record)
    assert [r.seed for r in night.records if same(r)] in ([1, 2], [2, 1])
    broken = seen(night.record(5), night.records)
    assert (broken.failed, broken.runs) == (1, 8)


def test_a_run_is_named_by_its_night_its_case_or_its_folder(night: FakeNight) -> None:
    record = night.record(1)
    assert record.case is not None
    for name in (f"{night.path}#{record.n}", str(night.path / record.case)):
        assert find(name).record.seed == 1


@pytest.mark.parametrize("text", ["nowhere", "nowhere#1", "{night}#99", "{night}#{good}"])
def test_a_run_that_is_not_red_is_refused(night: FakeNight, text: str) -> None:
    name = text.format(night=night.path, good=night.record(0).n)
    with pytest.raises(NightError):
        find(name)


def test_the_red_run_comes_first_then_other_seeds_of_its_cell(night: FakeNight) -> None:
    # Seeds 1 and 2 fail alike and run side by side; the one that ends first is shrunk.
    (shrunk,) = (record for record in night.records if record.seed in (1, 2) and record.shrunk)
    target = find(f"{night.path}#{shrunk.n}")
    config, found, plan = confirming(target, 17, tree=None, jobs=1, seed=3)
    runs = list(order(plan, config, found))
    files = [Path(str(run.case)).name for run in runs if run.kind == "corpus"]
    assert files == ["case.json", "shrunk.json"]
    rest = [run for run in runs if run.cell is not None]
    assert len(rest) == 18
    assert rest[0].seed == shrunk.seed
    assert len({run.seed for run in rest}) == 18
    assert {run.cell.key for run in rest if run.cell} == {target.record.cell}
    assert length(plan, config, found) == len(runs)


def test_a_planted_bug_is_confirmed_with_another_build(fake_night: Make) -> None:
    made = fake_night({"0": [refuted()]}, seeds="0..1", block='trees = ["mutant:R02"]')
    made.run()
    target = find(f"{made.path}#{made.record(0).n}")
    _, found, _ = confirming(target, 5, tree="clean", jobs=1, seed=3)
    assert [cell.tree for cell in found] == ["clean"]
    _, found, _ = confirming(target, 5, tree=None, jobs=1, seed=3)
    assert [cell.tree for cell in found] == ["mutant:R02"]
