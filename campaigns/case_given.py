"""The case that a user names: by a seed, a case file, or the folder of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.campaigns import case_sources
from kraftwreck.campaigns.case_file import SavedCase, read_case
from kraftwreck.campaigns.shrinking import PassesError, Say, run_anywhere
from kraftwreck.harness.simulated.store import read_test


def case_given(
    run: Path | None, seed: int | None, planted: dict[str, Any], failure: str | None, say: Say
) -> SavedCase:
    """Return the case of ``run``, a case file or the folder of a run, or that of ``seed``.

    ``planted`` are fields to replace. The schedule of a run on hosts is tried in the simulator for
    a case with the ``failure``, ``CHECKER[:TYPE]``. Raises PassesError if no case fails.
    """
    if seed is not None:
        return msgspec.structs.replace(case_sources.case_of_seed(seed), **planted)
    assert run is not None
    if run.is_file():
        return msgspec.structs.replace(read_case(run), **planted)
    test = read_test(run)
    if test.get("simulated"):
        return msgspec.structs.replace(case_sources.case_of_run(run), **planted)
    cases = case_sources.cases_like(run, test)
    seeds = case_sources.SEEDS
    say(f"{run}: a run on real hosts; trying its schedule in the simulator, {seeds} seeds")
    checker, _, kind = (failure or "").partition(":")
    for saved in cases:
        candidate = msgspec.structs.replace(saved, **planted)
        for found in run_anywhere(candidate):
            if not checker or (found.checker, found.type) == (checker, kind or found.type):
                candidate.failure = found
                return candidate
    raise PassesError(
        f"{run}: only simulated runs can be shrunk, and its schedule does not fail in the"
        f" simulator ({seeds} seeds)"
    )
