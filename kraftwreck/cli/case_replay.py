"""``kraftwreck replay CASE.json``: run a case again and check whether it still fails."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec

from kraftwreck.cli.case_run import run_case
from kraftwreck.cli.shrinking import patch_for, run_anywhere
from kraftwreck.histories.exit_codes import INVALID, VALID
from kraftwreck.nemesis.case_file import Expected, read_case
from kraftwreck.nemesis.case_text import describe


def replay_case(path: Path, json_output: bool) -> int:
    """Run the case in ``path`` again and print how it fails; return the exit code.

    A case with a planted bug runs twice: with the bug, where it must fail as recorded, and
    without, where it must pass. A case without one runs once, unchanged. The exit code is 0 if
    all runs agree with the file. Raises :class:`~harness.options.OptionError` for a file that is
    not a case, :class:`~kraftwreck.shrinking.ShrinkError` when the run itself fails.
    """
    saved = read_case(path)
    patch = patch_for(saved)
    _say(path.name + (f": {saved.about}" if saved.about else ""))
    for line in describe(saved.case):
        _say(f"  {line}")
    failures = run_anywhere(saved)
    as_recorded = _tell("" if patch is None else f"with {patch.name}: ", failures, saved.failure)
    passes_without = None
    if patch is not None:
        passes_without = _tell("without it: ", run_case(saved.case).failures, None)
    if json_output:
        result = {
            "same": as_recorded and passes_without is not False,
            "failures": msgspec.to_builtins(_first_of_each(failures)),
            "passes_without": passes_without,
        }
        click.echo(json.dumps(result))
    return VALID if as_recorded and passes_without is not False else INVALID


def _tell(where: str, failures: tuple[Expected, ...], wanted: Expected | None) -> bool:
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
    _say(f"{where}{verdict}")
    return same


def _first_of_each(failures: tuple[Expected, ...]) -> list[Expected]:
    return list({str(failure): failure for failure in reversed(failures)}.values())[::-1]


def _first(failures: tuple[Expected, ...]) -> str:
    return f"{failures[0]}: {failures[0].explanation}"


def _say(line: str) -> None:
    click.echo(line, err=True)
