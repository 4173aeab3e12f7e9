"""``kraftwreck shrink RUN``: find the smallest case that still fails like a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.cli.campaign import EVERYTHING
from kraftwreck.cli.case_run import run_case
from kraftwreck.cli.option_types import SEED, Number
from kraftwreck.cli.shrinking import PassesError, patch_for, run_anywhere, shrink_anywhere
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import DYNAMIC, LONGEST_S, OptionError
from kraftwreck.harness.simulated.store import load, options_of, read_test
from kraftwreck.histories.exit_codes import FAILED, VALID
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.case import Case
from kraftwreck.nemesis.case_file import SavedCase, read_case, write_case
from kraftwreck.nemesis.case_text import describe
from kraftwreck.simulation.knobs import draw_knobs

DEFAULT_BUDGET_S = 120.0
SHRUNK_FILE = "shrunk.json"
SEEDS = 20
"""How many seeds are tried in the simulator with the schedule of a run on real hosts."""


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


def case_of_run(folder: Path) -> SavedCase:
    """Return the case of the simulated run in ``folder``, with its planted bug, if any.

    Raises :class:`OptionError` when it is not a simulated run.
    """
    options, schedule, knobs, digest = load(folder)
    patch = None if options.patch is None else str(options.patch)
    case = Case.of(options, knobs, schedule)
    return SavedCase(case=case, digest=digest, mutant=options.mutant, patch=patch)


def case_of_seed(seed: int) -> SavedCase:
    """Return the case of ``seed`` in a campaign with the default options."""
    options, knobs = EVERYTHING.options(seed), EVERYTHING.knobs(seed)
    return SavedCase(case=Case.of(options, knobs, EVERYTHING.schedule(seed)))


def cases_like(folder: Path, test: dict[str, Any]) -> Iterator[SavedCase]:
    """Return simulated cases with the schedule of the run on real hosts in ``folder``.

    Raises :class:`OptionError`, one line, for a folder that is not a run folder.
    """
    try:
        options = options_of(test["options"])
        schedule = msgspec.convert(test["schedule"], list[Fault])
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise OptionError(
            f"{folder / 'test.json'}: cannot read options and schedule: {error}"
        ) from error
    quorum: Any = "dynamic" if options.quorum == DYNAMIC else "static"
    patch = None if options.patch is None else str(options.patch)
    names = {f"n{options.nodes + i}": f"b{i}" for i in range(1, options.brokers + 1)}
    renamed = [
        msgspec.structs.replace(fault, targets=tuple(names.get(t, t) for t in fault.targets))
        for fault in schedule
    ]

    def saved(seed: int) -> SavedCase:
        knobs = draw_knobs(seed, options.nodes, quorum=quorum, brokers=options.brokers)
        case = Case.of(replace(options, seed=seed), knobs, renamed)
        return SavedCase(case=case, mutant=options.mutant, patch=patch)

    return map(saved, range(options.seed, options.seed + SEEDS))


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
@click.option("--name", metavar="NAME", help="File name for --save [default: checker and type].")
@click.option("--about", metavar="TEXT", help="Description to store in the case file.")
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

    Ctrl-C ends the search and keeps what was found. Exit codes: 0 shrunk, 2 nothing fails.
    """
    if (run is None) == (seed is None):
        raise OptionError("give either RUN, the folder of a run, or --seed")
    if mutant is not None and patch is not None:
        raise OptionError("--mutant and --patch cannot be combined")
    planted = {
        **({} if mutant is None else {"mutant": mutant, "patch": None}),
        **({} if patch is None else {"patch": str(patch.resolve()), "mutant": None}),
        **({} if about is None else {"about": about}),
    }
    saved = _given(run, seed, planted, failure)
    patch_for(saved)
    shrunk = shrink_anywhere(saved, budget, say, failure)
    clean = _passes_without(shrunk)
    paths = _places(run, save, name, shrunk)
    for path in paths:
        write_case(path, shrunk)
    _show(shrunk, clean, paths, json_output)
    sys.exit(VALID if clean is not False else FAILED)


def _given(
    run: Path | None, seed: int | None, planted: dict[str, Any], failure: str | None
) -> SavedCase:
    if seed is not None:
        return msgspec.structs.replace(case_of_seed(seed), **planted)
    assert run is not None
    if run.is_file():
        return msgspec.structs.replace(read_case(run), **planted)
    test = read_test(run)
    if test.get("simulated"):
        return msgspec.structs.replace(case_of_run(run), **planted)
    cases = cases_like(run, test)
    say(f"{run}: a run on real hosts; trying its schedule in the simulator, {SEEDS} seeds")
    checker, _, kind = (failure or "").partition(":")
    for saved in cases:
        candidate = msgspec.structs.replace(saved, **planted)
        for found in run_anywhere(candidate):
            if not checker or (found.checker, found.type) == (checker, kind or found.type):
                candidate.failure = found
                return candidate
    raise PassesError(
        f"{run}: only simulated runs can be shrunk, and its schedule does not fail in the"
        f" simulator ({SEEDS} seeds)"
    )


def _passes_without(shrunk: SavedCase) -> bool | None:
    """Return whether the case passes without the planted bug; None if it has none."""
    if patch_for(shrunk) is None:
        return None
    return not run_case(shrunk.case).failures


def _places(run: Path | None, save: Path | None, name: str | None, shrunk: SavedCase) -> list[Path]:
    places = []
    if run is not None and run.is_dir():
        places.append(run / SHRUNK_FILE)
    if save is not None:
        places.append(save / f"{name or file_name(shrunk)}.json")
    return places


def file_name(shrunk: SavedCase) -> str:
    """Return a file name for a case: its planted bug, or its failure."""
    assert shrunk.failure is not None
    failure = f"{shrunk.failure.checker}-{shrunk.failure.type}"
    if shrunk.mutant is not None:
        return shrunk.mutant
    return failure if shrunk.patch is None else f"{Path(shrunk.patch).stem}-{failure}"


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
