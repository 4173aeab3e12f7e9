"""``kraftwreck mutants``: is every planted bug found, by what, and how soon?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import msgspec

from harness.archive import PROJECT_TREE
from harness.options import OptionError
from harness.patched_nodes import patched_tree
from kraftwreck.hunt import Hunted, environment
from mutants import catalogue

VALID, INVALID, BAD_ARGUMENTS, FAILED = 0, 1, 254, 255
DEFAULT_BUDGET_S = 120.0


class HuntError(Exception):
    """A hunt did not end as it should; the message is one line."""


class Row(msgspec.Struct, kw_only=True):
    """A planted bug and what became of the hunt for it."""

    id: str
    title: str
    hunted: Hunted


def hunt_patch(patch: Path, budget_s: float, *, first_seed: int = 0) -> Hunted:
    """Hunt the bug that ``patch`` plants, in processes of their own, for ``budget_s`` CPU s.

    What is found is found again with the unpatched nodes, or not: only in the second case is
    it the bug; else the hunt goes on with the next seed. Raises :class:`OptionError` for a
    patch that cannot be used, :class:`HuntError` when a process fails.
    """
    seed, runs, sim_s, cpu_s = first_seed, 0, 0.0, 0.0
    not_its: list[int] = []
    with patched_tree(patch) as tree:
        while True:
            hunted = _hunt(patch.name, tree, budget_s - cpu_s, seed)
            runs, sim_s, cpu_s = runs + hunted.runs, sim_s + hunted.sim_s, cpu_s + hunted.cpu_s
            if hunted.seed is not None and _fails_anyway(hunted.seed):
                not_its.append(hunted.seed)
                seed = hunted.seed + 1
                if cpu_s < budget_s:
                    continue
                hunted = Hunted(found=False, cpu_s=0.0, runs=0, sim_s=0.0)
            hunted.runs, hunted.sim_s, hunted.cpu_s = runs, round(sim_s, 3), round(cpu_s, 3)
            hunted.not_its = tuple(not_its)
            return hunted


def _fails_anyway(seed: int) -> bool:
    """Whether the test with this ``seed`` fails without any patch."""
    return _hunt("no patch", PROJECT_TREE, DEFAULT_BUDGET_S, seed, runs=1).found


def _hunt(what: str, tree: Path, budget_s: float, seed: int, runs: int | None = None) -> Hunted:
    command = [sys.executable, "-m", "kraftwreck.hunt", "--tree", str(tree)]
    command += ["--budget", f"{budget_s:g}", "--first-seed", str(seed)]
    command += [] if runs is None else ["--runs", str(runs)]
    done = subprocess.run(
        command, env=environment(tree), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise HuntError(f"{what}: the hunt ended with {done.returncode}: {said[-1]}")
    return msgspec.json.decode(done.stdout.encode(), type=Hunted)


def hunt_all(
    patches: list[tuple[str, str, Path]],
    budget_s: float,
    jobs: int,
    told: Callable[[Row], None],
) -> list[Row]:
    """Hunt all ``patches`` (id, title, file), ``jobs`` at a time; rows come in their order."""

    def one(entry: tuple[str, str, Path]) -> Row:
        name, title, patch = entry
        return Row(id=name, title=title, hunted=hunt_patch(patch, budget_s))

    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(one, patches):
            rows.append(row)
            told(row)
    return rows


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table of ``rows``."""
    yield "| id | bug | found by | seed | runs | simulated s | CPU s |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        hunted = row.hunted
        by = f"{hunted.checker}: {hunted.anomaly}" if hunted.found else "**missed**"
        seed = "" if hunted.seed is None else str(hunted.seed)
        yield (
            f"| {row.id} | {row.title} | {by} | {seed} | {hunted.runs} | {hunted.sim_s:.0f}"
            f" | {hunted.cpu_s:.2f} |"
        )


def _chosen(ids: tuple[str, ...], patch: Path | None) -> list[tuple[str, str, Path]]:
    known = catalogue()
    for name in ids:
        if name not in known:
            raise OptionError(f"unknown mutant {name!r}; known mutants: {', '.join(known)}")
    chosen = [(m.id, m.title, m.patch) for m in known.values() if m.id in ids]
    if patch is not None:
        chosen.append((patch.stem, str(patch), patch))
    return chosen or [(m.id, m.title, m.patch) for m in known.values()]


@click.command(name="mutants")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=DEFAULT_BUDGET_S,
              show_default=True, help="CPU seconds for each bug.")  # fmt: skip
@click.option("--patch", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Hunt the bug of this patch against nodes/.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256), default=min(2, os.cpu_count() or 1),
              show_default=True, help="Hunts at a time.")  # fmt: skip
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
def cli(
    ids: tuple[str, ...], budget: float, patch: Path | None, jobs: int, json_output: bool
) -> None:
    """Plant each bug (default: all of the catalogue), run simulated tests until it is found.

    Exit codes: 0 all found, 1 some missed.
    """
    try:
        patches = _chosen(ids, patch)
        rows = hunt_all(patches, budget, jobs, _tell)
    except OptionError as error:
        click.echo(f"kraftwreck mutants: {error}", err=True)
        sys.exit(BAD_ARGUMENTS)
    except HuntError as error:
        click.echo(f"kraftwreck mutants: {error}", err=True)
        sys.exit(FAILED)
    missed = [row.id for row in rows if not row.hunted.found]
    total = sum(row.hunted.cpu_s for row in rows)
    click.echo("\n".join(table(rows)), err=True)
    click.echo(f"{len(rows) - len(missed)} of {len(rows)} found, {total:.1f} CPU s", err=True)
    if missed:
        click.echo(f"missed: {', '.join(missed)}", err=True)
    if json_output:
        plain = [{"id": row.id, **msgspec.to_builtins(row.hunted)} for row in rows]
        click.echo(json.dumps({"mutants": plain}))
    sys.exit(INVALID if missed else VALID)


def _tell(row: Row) -> None:
    hunted = row.hunted
    if hunted.found:
        text = f"found in {hunted.cpu_s:.2f} CPU s, seed {hunted.seed}: {hunted.checker}:"
        click.echo(f"{row.id}: {text} {hunted.anomaly}: {hunted.explanation}", err=True)
    else:
        click.echo(f"{row.id}: missed in {hunted.cpu_s:.0f} CPU s, {hunted.runs} runs", err=True)
        known = catalogue().get(row.id)
        if known is not None and known.missed:
            click.echo(f"  expected: {known.missed}", err=True)
    for seed in hunted.not_its:
        click.echo(f"  seed {seed} fails without the bug, too: a false alarm, or another", err=True)
