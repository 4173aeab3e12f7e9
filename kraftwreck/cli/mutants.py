"""``kraftwreck mutants``: measure whether, how soon and by which checker planted bugs are found."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click

from kraftwreck.campaigns.detection import Entry, Row, as_json, hunt_all, summary, table
from kraftwreck.campaigns.executed import Executed
from kraftwreck.campaigns.hunt import Progress
from kraftwreck.cli.option_types import SECONDS
from kraftwreck.harness.options import OptionError, Style
from kraftwreck.histories.exit_codes import INVALID, VALID
from kraftwreck.mutants import catalogue

DEFAULT_BUDGET_S = 120.0
SHRINK_BUDGET_S = 60.0
PROGRESS_S = 10.0
"""Seconds between two lines about a bug that is being hunted."""


def _chosen(ids: tuple[str, ...], patches: tuple[Path, ...]) -> list[Entry]:
    known = catalogue()
    for name in ids:
        if name not in known:
            raise OptionError(f"unknown mutant {name!r}; known mutants: {', '.join(known)}")
    chosen = [(m.id, m.title, m.patch) for m in known.values() if m.id in ids]
    chosen += [(patch.stem, str(patch), patch) for patch in patches]
    return chosen or [(m.id, m.title, m.patch) for m in known.values()]


@click.command(name="mutants")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--budget", type=SECONDS, default=DEFAULT_BUDGET_S,
              show_default=True, help="CPU seconds for each bug.")  # fmt: skip
@click.option("--patch", "patches", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              multiple=True,
              help="Hunt the bug of this patch against nodes/; may be repeated.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(1, 100), default=1, show_default=True,
              help="Hunts per bug, from different seeds; shows median and worst.")  # fmt: skip
@click.option("--first-seed", type=click.IntRange(0, 10**18), default=0, show_default=True,
              help="Seed of the first test.")  # fmt: skip
@click.option("--style", type=click.Choice(get_args(Style)), default="swarm",
              show_default=True, help="How faults are chosen, as in kraftwreck sim.")  # fmt: skip
@click.option("--shrink", is_flag=True,
              help="Shrink the test that finds a bug.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256), default=min(2, os.cpu_count() or 1),
              show_default=True, help="Number of hunts in parallel.")  # fmt: skip
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
def cli(
    ids: tuple[str, ...],
    budget: float,
    patches: tuple[Path, ...],
    repeats: int,
    first_seed: int,
    style: Style,
    shrink: bool,
    jobs: int,
    json_output: bool,
) -> None:
    """Plant each bug (default: the whole catalogue) and run simulated tests until one finds it.

    Exit codes: 0 all found, 1 some missed.
    """
    chosen = _chosen(ids, patches)
    rows = hunt_all(
        chosen,
        budget,
        jobs,
        _row_printer(len(chosen)),
        repeats=repeats,
        style=style,
        shrink_s=SHRINK_BUDGET_S if shrink else 0.0,
        first_seed=first_seed,
        on_progress=_progress_printer(budget),
    )
    missed = [row.id for row in rows if not row.hunted.found]
    total = sum(each.cpu_s for row in rows for each in row.all)
    click.echo("\n".join(table(rows)), err=True)
    click.echo(summary(rows, total), err=True)
    if missed:
        click.echo(f"missed: {', '.join(missed)}", err=True)
    if json_output:
        click.echo(json.dumps({"mutants": [as_json(row) for row in rows]}))
    sys.exit(INVALID if missed else VALID)


def _progress_printer(budget_s: float) -> Callable[[str, Progress], None]:
    """Return a function that prints at most one line for each bug in :data:`PROGRESS_S`."""
    said: dict[str, float] = {}

    def show(name: str, progress: Progress) -> None:
        now = time.monotonic()
        if now - said.setdefault(name, now) >= PROGRESS_S:
            said[name] = now
            text = f"{progress.runs:,} runs, {progress.cpu_s:.0f} of {budget_s:g} CPU s"
            click.echo(f"{name}: not found yet: {text}", err=True)

    return show


def _row_printer(count: int) -> Callable[[Row], None]:
    """Return a function that prints each row as it completes."""
    place = 0

    def show(row: Row) -> None:
        nonlocal place
        place += 1
        progress = f"[{place}/{count}] " if count > 1 else ""
        hunted = row.hunted
        if hunted.found:
            how = f"found in {hunted.cpu_s:.2f} CPU s, seed {hunted.seed}"
            text = f"{how}: {hunted.checker}: {hunted.anomaly}: {hunted.explanation}"
        else:
            text = f"missed in {hunted.cpu_s:.0f} CPU s, {hunted.runs} runs"
        click.echo(f"{progress}{row.id}: {text}", err=True)
        if not hunted.found:
            click.echo(f"  {_reached(hunted.executed)}", err=True)
        if len(row.all) > 1:
            each = ", ".join(f"{h.cpu_s:.2f}" if h.found else "missed" for h in row.all)
            click.echo(f"  {len(row.times)} of {len(row.all)} hunts: {each}", err=True)
        if row.shrunk is not None:
            click.echo(f"  smallest: {row.shrunk}", err=True)
        known = catalogue().get(row.id)
        if not hunted.found and known is not None and known.missed:
            click.echo(f"  expected: {known.missed}", err=True)
        not_its = {seed: why for each in row.all for seed, why in each.not_its.items()}
        for seed, why in sorted(not_its.items()):
            text = f"seed {seed} fails without the bug, too (a false alarm or another bug): {why}"
            click.echo(f"  {text}", err=True)

    return show


def _reached(executed: Executed) -> str:
    """Say whether tests executed the statements that the patch changes."""
    if not executed:
        return "the patch changes no statement that can be counted"
    each = ", ".join(f"{place} {times:,} times" for place, times in sorted(executed.items()))
    if any(executed.values()):
        return f"executed: {each}"
    return f"no test executed the changed statements ({', '.join(sorted(executed))})"
