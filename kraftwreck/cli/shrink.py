"""``kraftwreck shrink RUN``: find the smallest case that still fails like a run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.campaigns import bug_report, case_sources
from kraftwreck.campaigns.campaign import SIMULATOR
from kraftwreck.campaigns.case_file import SavedCase, write_case
from kraftwreck.campaigns.case_given import case_given
from kraftwreck.campaigns.case_run import run_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.campaigns.repeated import failures_of, on_hosts, shrink_repeated
from kraftwreck.campaigns.shrinking import PassesError, patch_for, shrink_anywhere
from kraftwreck.checkers.registry import abouts
from kraftwreck.cli.option_types import FILE_NAME, LINE, SEED, Number
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import LONGEST_S, OptionError, repeat_command
from kraftwreck.harness.simulated.store import options_of, read_test
from kraftwreck.histories.exit_codes import FAILED, VALID
from kraftwreck.systems.simulators import has_simulator

DEFAULT_BUDGET_S = 120.0


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


@click.command(name="shrink")
@click.argument("run", type=click.Path(path_type=Path, exists=True), required=False)
@click.option("--seed", type=SEED,
              help="Instead of RUN: the test with this seed in kraftwreck sim.")  # fmt: skip
@click.option("--failure", metavar="CHECKER[:TYPE]", help="Failure to keep [default: the first].")
@click.option("--budget", type=Number(0, LONGEST_S), default=DEFAULT_BUDGET_S,
              show_default=True, metavar="SECONDS", help="CPU seconds to spend.")  # fmt: skip
@click.option("--mutant", metavar="ID", help="Plant this bug (see kraftwreck list).")
@click.option("--patch", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Apply this patch to nodes/.")  # fmt: skip
@click.option("--save", type=click.Path(path_type=Path, file_okay=False),
              help="Also save the case in this folder.")  # fmt: skip
@click.option(
    "--name",
    type=FILE_NAME,
    metavar="NAME",
    help="File name for --save [default: checker and type].",
)
@click.option("--about", type=LINE, metavar="TEXT", help="Description to store in the case file.")
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
def cli(
    run: Path | None,
    seed: int | None,
    failure: str | None,
    budget: float,
    mutant: str | None,
    patch: Path | None,
    save: Path | None,
    name: str | None,
    about: str | None,
    json_output: bool,
) -> None:
    """Find the smallest case that fails in the same way as RUN, the folder of a simulated run.

    RUN may also be a case file. For a run on real hosts, its schedule is tried in the simulator.
    The result is saved as shrunk.json in the folder; kraftwreck replay runs it again.

    A run of a system without a simulator is repeated on hosts with fewer fault families, shorter,
    and with fewer threads; --budget is then seconds of the clock. The result is bug-report.md in
    the folder, for an issue tracker: versions, command, hit rate, faults, anomaly.

    Ctrl-C ends the search and keeps what was found. Exit codes: 0 shrunk, 2 nothing fails.
    """
    if (run is None) == (seed is None):
        raise OptionError("give either RUN, the folder of a run, or --seed")
    if mutant is not None and patch is not None:
        raise OptionError("--mutant and --patch cannot be combined")
    if name is not None and save is None:
        raise OptionError("--name needs --save, the folder of the file")
    if failure is not None:
        _check_failure(failure)
    planted = {
        **({} if mutant is None else {"mutant": mutant, "patch": None}),
        **({} if patch is None else {"patch": str(patch.resolve()), "mutant": None}),
        **({} if about is None else {"about": about}),
    }
    if run is not None and run.is_dir():
        test = read_test(run)
        system = test.get("system")
        if isinstance(system, str) and not test.get("simulated") and not has_simulator(system):
            if planted or save is not None:
                raise OptionError("--mutant, --patch, --about and --save are for systems of ours")
            _repeat_on_hosts(run, test, failure, budget, json_output)
            return
    saved = case_given(run, seed, planted, failure, say)
    patch_for(saved)
    shrunk = shrink_anywhere(saved, budget, say, failure)
    clean = _passes_without(shrunk)
    paths = _places(run, save, name, shrunk)
    for path in paths:
        write_case(path, shrunk)
    _show(shrunk, clean, paths, json_output)
    sys.exit(VALID if clean is not False else FAILED)


def _repeat_on_hosts(
    run: Path, test: dict[str, Any], failure: str | None, budget_s: float, json_output: bool
) -> None:
    """Shrink a run by repeating it on hosts, and write the bug report."""
    found = sorted(failures_of(run))
    wanted = [each for each in found if failure is None or each.startswith(failure)]
    if not wanted:
        raise PassesError(f"{run}: its verdict has no such failure; it has {found or 'none'}")
    options = options_of(test["options"])
    store = run / "repeated"
    shrunk = shrink_repeated(options, run, wanted[0], on_hosts(store, say), budget_s, say)
    page = run / bug_report.FILE
    page.write_text(bug_report.report(shrunk, wanted[0]), encoding="utf-8")
    show = say if json_output else click.echo
    show(f"{wanted[0]}: {shrunk.hits} of {shrunk.runs} runs of the smallest test failed")
    show(f"repeat: {repeat_command(replace(shrunk.options, store=Path('store')))}")
    show(f"report: {page}")
    if json_output:
        told = {"failure": wanted[0], "hits": shrunk.hits, "runs": shrunk.runs}
        click.echo(json.dumps({**told, "report": str(page), "failing": str(shrunk.failing)}))


def _check_failure(failure: str) -> None:
    """Raise :class:`OptionError` unless ``failure`` begins with the name of a checker."""
    known = sorted({*abouts(), SIMULATOR})
    checker = failure.partition(":")[0]
    if checker not in known:
        raise OptionError(f"--failure {failure!r}: no checker {checker!r}; use {', '.join(known)}")


def _passes_without(shrunk: SavedCase) -> bool | None:
    """Return whether the case passes without the planted bug; None if it has none."""
    if patch_for(shrunk) is None:
        return None
    return not run_case(shrunk.case).failures


def _places(run: Path | None, save: Path | None, name: str | None, shrunk: SavedCase) -> list[Path]:
    places = []
    if run is not None and run.is_dir():
        places.append(run / case_sources.SHRUNK_FILE)
    if save is not None:
        places.append(save / f"{name or case_sources.file_name(shrunk)}.json")
    return places


def _show(shrunk: SavedCase, clean: bool | None, paths: list[Path], json_output: bool) -> None:
    show = say if json_output else click.echo
    for line in describe(shrunk.case):
        show(line)
    failure = shrunk.failure
    assert failure is not None
    show(f"then {failure}: {failure.explanation}")
    show(f"before: {shrunk.before}")
    show(f"after:  {shrunk.case.size}")
    if clean is not None:
        text = "passes" if clean else "FAILS TOO: this says nothing about the planted bug"
        show(f"without the planted bug it {text}")
    for path in paths:
        show(f"saved:  {path}")
    if paths:
        show(f"repeat: {command_line('replay', paths[0])}")
    if json_output:
        result = {
            "failure": msgspec.to_builtins(failure),
            "before": msgspec.to_builtins(shrunk.before),
            "after": msgspec.to_builtins(shrunk.case.size),
            "passes_without": clean,
            "digest": shrunk.digest,
            "saved": [str(path) for path in paths],
        }
        click.echo(json.dumps(result))
