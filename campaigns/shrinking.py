"""Shrink one case, with this process's node code or in a process with a patched copy.

That process is ``python -m kraftwreck.campaigns.shrinking CASE RESULT``; in its import path the
patched nodes come before the project's, see :func:`harness.patched_nodes.environment`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from kraftwreck.campaigns.campaign import SIMULATOR
from kraftwreck.campaigns.case import Case, Size, explicit, operations_of
from kraftwreck.campaigns.case_file import Expected, SavedCase, read_case, write_case
from kraftwreck.campaigns.case_run import CaseRun, limit_for, run_case
from kraftwreck.campaigns.reduction import shrink
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import environment, patch_of, patched_tree
from kraftwreck.histories.exit_codes import INTERRUPTED, UNKNOWN, CommandError

_PROGRESS_S = 1.0
_SILENT_S = 10.0

Say = Callable[[str], None]


class PassesError(CommandError):
    """The case does not fail, or not as expected: there is nothing to shrink. One line."""

    exit_code = UNKNOWN


class ShrinkError(CommandError):
    """The process that shrinks failed. One line."""


def shrink_case(
    saved: SavedCase, budget_s: float, say: Say, wanted: str | None = None
) -> SavedCase:
    """Return the smallest case found in ``budget_s`` CPU seconds that fails as ``saved`` does.

    The failure to keep is ``saved.failure``. If that is None, it is the one that ``wanted``
    (``CHECKER`` or ``CHECKER:TYPE``) names. If that is None, too, it is the first one found, by
    the simulator's invariants or else by the checkers. Ctrl-C ends the search, not the process.

    Raises :class:`PassesError`.
    """
    begun = time.process_time()
    shown = time.monotonic()
    run, expected = first_failure(saved.case, saved.failure, wanted)
    limit_s = limit_for(run)
    say(f"shrinking {expected}: {saved.case.size}")
    say(f"  {expected.explanation}")

    def fails(case: Case) -> bool:
        nonlocal shown
        if time.monotonic() - shown >= _SILENT_S:
            shown = time.monotonic()
            say(f"  … {time.process_time() - begun:.0f} of {budget_s:g} CPU s")
        try:
            return run_case(case, checker=expected.checker, limit_s=limit_s).shows(expected)
        except Exception:
            # A bug in the node code may end the whole simulation: a different failure, so False.
            # An error of the harness would have appeared in the first run, which is not caught.
            return False

    def enough() -> bool:
        return time.process_time() - begun >= budget_s

    def on_progress(what: str, case: Case, runs: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _PROGRESS_S:
            shown = time.monotonic()
            spent = time.process_time() - begun
            say(f"  {what}: {case.size}; {runs} runs, {spent:.0f} CPU s")

    start = explicit(saved.case, run.result.ops, run.result.faults)
    if not fails(start):
        # Then only the operations: how a fault chose its targets is part of the failure.
        start = saved.case
    done = shrink(start, fails, enough=enough, on_progress=on_progress)
    last = run_case(done.case, checker=expected.checker, limit_s=limit_s)
    words = {"budget": "the budget is spent", "interrupted": "interrupted"}
    say(
        f"  {words.get(done.ended, 'nothing more can be left out')}: {done.case.size};"
        f" {done.runs} runs, {time.process_time() - begun:.0f} CPU s"
    )
    return SavedCase(
        case=done.case,
        failure=next(failure for failure in last.failures if failure.same(expected)),
        digest=last.result.digest,
        mutant=saved.mutant,
        patch=saved.patch,
        about=saved.about,
        before=saved.before or _counted(saved.case, run),
    )


def _counted(case: Case, run: CaseRun) -> Size:
    """Return the size of ``case``, with the number of operations that its run began."""
    operations = case.operations or operations_of(run.result.ops, case.concurrency)
    return msgspec.structs.replace(case.size, operations=len(operations))


def first_failure(
    case: Case, failure: Expected | None, wanted: str | None = None
) -> tuple[CaseRun, Expected]:
    """Run ``case``; return its run and the failure to keep while shrinking.

    Raises :class:`PassesError`.
    """
    checker, _, kind = (wanted or "").partition(":")
    names: list[str | None] = [SIMULATOR, None]
    if failure is not None:
        names = [failure.checker]
    elif checker:
        names = [SIMULATOR, None] if checker == SIMULATOR else [checker]

    def is_it(found: Expected) -> bool:
        if failure is not None:
            return found.same(failure)
        return not checker or (found.checker, found.type) == (checker, kind or found.type)

    others: set[str] = set()
    for name in names:
        run = run_case(case, checker=name)
        for found in run.failures:
            if is_it(found):
                return run, found
            others.add(str(found))
    what = str(failure or wanted or "a failure")
    instead = f"; it shows {', '.join(sorted(others))}" if others else ""
    raise PassesError(f"the run shows no {what.removeprefix('a ')} with the current code{instead}")


def patch_for(saved: SavedCase) -> Path | None:
    """Return the patch that ``saved`` needs to fail, None for none. Raises OptionError."""
    if saved.mutant is not None:
        return patch_of(saved.mutant)
    return None if saved.patch is None else Path(saved.patch)


def shrink_anywhere(
    saved: SavedCase, budget_s: float, say: Say, wanted: str | None = None
) -> SavedCase:
    """:func:`shrink_case`, with the bug planted that ``saved`` names.

    Raises :class:`PassesError`, :class:`ShrinkError`, :class:`~harness.options.OptionError`.
    """
    patch = patch_for(saved)
    if patch is None:
        return shrink_case(saved, budget_s, say, wanted)
    with patched_tree(patch) as tree, tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "case.json", Path(folder) / "result.json"
        write_case(given, saved)
        command = [sys.executable, "-m", "kraftwreck.campaigns.shrinking", str(given), str(result)]
        command += ["--budget", f"{budget_s:g}"]
        command += [] if wanted is None else ["--failure", wanted]
        child = subprocess.Popen(command, env=environment(tree), stdout=subprocess.PIPE, text=True)
        out = ""
        while True:
            # Ctrl-C also reaches the child, which then keeps the best case so far.
            with suppress(KeyboardInterrupt):
                out, _ = child.communicate()
                break
        if child.returncode == INTERRUPTED:
            raise KeyboardInterrupt
        if child.returncode == UNKNOWN:
            raise PassesError(out.strip())
        if child.returncode != 0:
            raise ShrinkError(f"{patch.name}: the search ended with {child.returncode}")
        return read_case(result)


def run_anywhere(saved: SavedCase) -> tuple[Expected, ...]:
    """Run the case with the bug it names; return all failures."""
    patch = patch_for(saved)
    if patch is None:
        return run_case(saved.case).failures
    with patched_tree(patch) as tree, tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "case.json"
        write_case(given, saved)
        command = [sys.executable, "-m", "kraftwreck.campaigns.shrinking", str(given), "-"]
        done = subprocess.run(command, env=environment(tree), stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise ShrinkError(f"{patch.name}: the run ended with {done.returncode}")
        return msgspec.json.decode(done.stdout, type=tuple[Expected, ...])


@click.command()
@click.argument("given", type=click.Path(path_type=Path))
@click.argument("result", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--budget", type=float, default=0.0)
@click.option("--failure", "wanted")
def cli(given: Path, result: Path, budget: float, wanted: str | None) -> None:
    """Shrink the case GIVEN into RESULT; with RESULT "-" only run it and print its failures."""
    try:
        saved = read_case(given)
        if str(result) == "-":
            click.echo(msgspec.json.encode(run_case(saved.case).failures).decode())
            return
        write_case(
            result, shrink_case(saved, budget, lambda line: click.echo(line, err=True), wanted)
        )
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)  # The search had not begun: nothing to keep.
    except PassesError as passes:
        click.echo(str(passes))
        sys.exit(UNKNOWN)
    except OptionError as error:
        click.echo(f"kraftwreck shrink: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    cli()
