"""``kraftwreck replay CASE.json``: run a case again and check whether it still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.campaigns.case_file import Expected, read_case
from kraftwreck.campaigns.case_run import run_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.campaigns.shrinking import Say, patch_for, run_anywhere


def replay_case(path: Path, say: Say) -> dict[str, Any]:
    """Run the case in ``path`` again; print how it fails with ``say``, and return the result.

    A case with a planted bug runs twice: with the bug, where it must fail as recorded, and
    without, where it must pass. A case without one runs once, unchanged. ``same`` is whether all
    runs agree with the file. Raises :class:`~harness.options.OptionError` for a file that is
    not a case, :class:`~campaigns.shrinking.ShrinkError` when the run itself fails.
    """
    saved = read_case(path)
    patch = patch_for(saved)
    say(path.name + (f": {saved.about}" if saved.about else ""))
    for line in describe(saved.case):
        say(f"  {line}")
    failures = run_anywhere(saved)
    where = "" if patch is None else f"with {patch.name}: "
    as_recorded = _compared(where, failures, saved.failure, say)
    passes_without = None
    if patch is not None:
        passes_without = _compared("without it: ", run_case(saved.case).failures, None, say)
    return {
        "same": as_recorded and passes_without is not False,
        "failures": msgspec.to_builtins(_first_of_each(failures)),
        "passes_without": passes_without,
    }


def _compared(
    where: str, failures: tuple[Expected, ...], wanted: Expected | None, say: Say
) -> bool:
    """Print the result; return whether it is the ``wanted`` one (None: the case must pass)."""
    if wanted is None:
        same = not failures
        verdict = "passes" if same else f"fails: {_first(failures)}"
    elif any(failure.same(wanted) for failure in failures):
        same = True
        seen = next(failure for failure in failures if failure.same(wanted))
        verdict = f"still fails: {seen}: {seen.explanation}"
    else:
        same = False
        other = f"fails in another way: {_first(failures)}" if failures else "passes"
        verdict = f"{other}; it used to fail: {wanted}"
    say(f"{where}{verdict}")
    return same


def _first_of_each(failures: tuple[Expected, ...]) -> list[Expected]:
    return list({str(failure): failure for failure in reversed(failures)}.values())[::-1]


def _first(failures: tuple[Expected, ...]) -> str:
    return f"{failures[0]}: {failures[0].explanation}"
