"""``kraftwreck mutants``: measure whether, how soon and by which checker planted bugs are found."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, get_args

import click
import msgspec

from kraftwreck.cli.hunt import Hunted
from kraftwreck.cli.hunting import hunt_patch, shrink_found
from kraftwreck.cli.option_types import SECONDS
from kraftwreck.harness.options import OptionError, Style
from kraftwreck.histories.exit_codes import INVALID, VALID
from kraftwreck.mutants import catalogue
from kraftwreck.nemesis.case import Size

DEFAULT_BUDGET_S = 120.0
SHRINK_BUDGET_S = 60.0
FAR_APART = 10_000
"""Distance between the first seeds of several hunts for one bug, so that they share no test."""


class Row(msgspec.Struct, kw_only=True):
    """A planted bug and the results of its hunts. ``hunted`` is the first hunt that found it,
    otherwise the first. ``shrunk`` is the size of the shrunk test that finds it."""

    id: str
    title: str
    hunted: Hunted
    all: list[Hunted] = []
    shrunk: Size | None = None

    @property
    def times(self) -> list[float]:
        """CPU seconds to detection, of the hunts that found the bug."""
        return sorted(each.cpu_s for each in self.all or [self.hunted] if each.found)


Entry = tuple[str, str, Path]
"""Id, title and patch."""


def hunt_all(
    patches: list[Entry],
    budget_s: float,
    jobs: int,
    told: Callable[[Row], None],
    *,
    repeats: int = 1,
    style: Style = "swarm",
    shrink_s: float = 0.0,
) -> list[Row]:
    """Hunt all ``patches``, ``jobs`` at a time; return the rows in the same order.

    Each is hunted ``repeats`` times, from different first seeds. With ``shrink_s`` the first test
    that finds a bug is shrunk for that many CPU seconds.
    """

    def one(entry: Entry) -> Row:
        name, title, patch = entry
        hunts = [
            hunt_patch(patch, budget_s, first_seed=number * FAR_APART, style=style)
            for number in range(repeats)
        ]
        first = next((hunted for hunted in hunts if hunted.found), hunts[0])
        row = Row(id=name, title=title, hunted=first, all=hunts)
        if shrink_s > 0 and first.seed is not None:
            row.shrunk = shrink_found(patch, first, style, shrink_s)
        return row

    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(one, patches):
            rows.append(row)
            told(row)
    return rows


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of ``rows``."""
    repeated = any(len(row.all) > 1 for row in rows)
    shrunk = any(row.shrunk is not None for row in rows)
    names = ["id", "bug", "found by", "seed", "runs", "simulated s", "CPU s"]
    names += ["found", "median CPU s", "worst"] if repeated else []
    names += ["smallest"] if shrunk else []
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        hunted = row.hunted
        by = f"{hunted.checker}: {hunted.anomaly}" if hunted.found else "**missed**"
        seed = "" if hunted.seed is None else str(hunted.seed)
        cells = [row.id, row.title, by, seed, str(hunted.runs)]
        cells += [f"{hunted.sim_s:.0f}", f"{hunted.cpu_s:.2f}"]
        if repeated:
            times = row.times
            cells += [f"{len(times)}/{len(row.all)}"]
            cells += [f"{median(times):.2f}", f"{times[-1]:.2f}"] if times else ["", ""]
        if shrunk:
            cells += ["" if row.shrunk is None else str(row.shrunk)]
        yield f"| {' | '.join(cells)} |"


def as_json(row: Row) -> dict[str, Any]:
    """Return a row as plain values: the first hunt, and all hunts if there were several."""
    plain: dict[str, Any] = {"id": row.id, "title": row.title, **msgspec.to_builtins(row.hunted)}
    times = row.times
    if len(row.all) > 1:
        plain["cpu_s"] = round(median(times), 3) if times else plain["cpu_s"]
        plain["worst_cpu_s"] = times[-1] if times else None
        plain["found_in"], plain["repeats"] = len(times), len(row.all)
        plain["hunts"] = [msgspec.to_builtins(each) for each in row.all]
    if row.shrunk is not None:
        plain["shrunk"] = msgspec.to_builtins(row.shrunk)
    return plain


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
        _teller(len(chosen)),
        repeats=repeats,
        style=style,
        shrink_s=SHRINK_BUDGET_S if shrink else 0.0,
    )
    missed = [row.id for row in rows if not row.hunted.found]
    total = sum(each.cpu_s for row in rows for each in row.all)
    click.echo("\n".join(table(rows)), err=True)
    click.echo(_summary(rows, total), err=True)
    if missed:
        click.echo(f"missed: {', '.join(missed)}", err=True)
    if json_output:
        click.echo(json.dumps({"mutants": [as_json(row) for row in rows]}))
    sys.exit(INVALID if missed else VALID)


def _summary(rows: list[Row], total_s: float) -> str:
    times = [median(row.times) for row in rows if row.times]
    text = f"{len(times)} of {len(rows)} found, {total_s:.1f} CPU s"
    if len(times) > 1:
        text += f"; CPU s to find: median {median(times):.2f}, slowest {max(times):.2f}"
    return text


def _teller(count: int) -> Callable[[Row], None]:
    """Return a function that prints each row as it completes."""
    place = 0

    def tell(row: Row) -> None:
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
        if len(row.all) > 1:
            each = ", ".join(f"{h.cpu_s:.2f}" if h.found else "missed" for h in row.all)
            click.echo(f"  {len(row.times)} of {len(row.all)} hunts: {each}", err=True)
        if row.shrunk is not None:
            click.echo(f"  smallest: {row.shrunk}", err=True)
        known = catalogue().get(row.id)
        if not hunted.found and known is not None and known.missed:
            click.echo(f"  expected: {known.missed}", err=True)
        for seed in sorted({seed for each in row.all for seed in each.not_its}):
            told = f"seed {seed} fails without the bug, too: a false alarm or another bug"
            click.echo(f"  {told}", err=True)

    return tell
