"""Every bug that was planted here, or was once found, has the smallest run that shows it.

All of them pass on the present tree. With the bug back (a mutant, or a patch that reverts the fix)
each must fail as its file says, else it is useless. ``make test-campaign`` checks that for all,
the ordinary tests for a few. ``python -m tests.regressions.make NAME`` makes one again.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kraftwreck.campaigns.case_file import SavedCase, read_case
from kraftwreck.campaigns.case_run import run_case
from kraftwreck.campaigns.shrinking import patch_for, run_anywhere

FOLDER = Path(__file__).resolve().parent
CASES = sorted(FOLDER.glob("*.json"))
QUICK = ("R02", "R05", "S01", "C12", "V05")
LIMIT_S = 60.0
"""CPU seconds for all of them together, as they are."""

_spent: dict[str, float] = {}


def name(path: Path) -> str:
    return path.stem


def still_fails(saved: SavedCase) -> bool:
    """Whether the case still fails in the same way with its bug."""
    assert saved.failure is not None
    failures = run_anywhere(saved)
    assert failures, "it passes with its bug: make it anew"
    return any(failure.same(saved.failure) for failure in failures)


@pytest.mark.xdist_group("regressions")
@pytest.mark.parametrize("path", CASES, ids=name)
def test_it_passes(path: Path) -> None:
    saved = read_case(path)
    begun = time.process_time()
    failures = run_case(saved.case).failures
    _spent[path.stem] = time.process_time() - begun
    assert [f"{failure}: {failure.explanation}" for failure in failures] == []


@pytest.mark.xdist_group("regressions")
def test_all_of_them_take_less_than_a_minute() -> None:
    if len(_spent) < len(CASES):
        pytest.skip("not all cases were run")
    assert sum(_spent.values()) < LIMIT_S


@pytest.mark.parametrize("path", CASES, ids=name)
def test_it_says_which_bug_it_guards_against_and_how_that_shows(path: Path) -> None:
    saved = read_case(path)
    assert saved.failure is not None
    assert saved.failure.explanation
    patch = patch_for(saved)
    assert patch is not None
    assert patch.is_file()
    assert saved.mutant == path.stem or saved.about


def test_there_are_cases_of_all_areas() -> None:
    assert {path.stem[0] for path in CASES if path.stem[1:].isdigit()} >= set("RSVCM")
    assert len(CASES) >= 20


@pytest.mark.parametrize("mutant", QUICK)
def test_it_still_fails_with_the_bug(mutant: str) -> None:
    assert still_fails(read_case(FOLDER / f"{mutant}.json"))


@pytest.mark.campaign
@pytest.mark.parametrize("path", CASES, ids=name)
def test_every_one_still_fails_with_its_bug(path: Path) -> None:
    assert still_fails(read_case(path))
