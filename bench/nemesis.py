"""Planted bugs found by two nemeses, side by side: ``python -m bench.nemesis [ID…]``.

``swarm`` is the nemesis of ``kraftwreck sim``. ``timed`` is Jepsen's way in the same simulator,
with the same workloads, checkers and numbers of nodes: faults by the clock, one configuration. Both
hunt each bug from the same first seeds, each hunt for a budget of CPU seconds. Rows are appended to
the table one by one, and bugs that have one are skipped. So a long comparison may be interrupted.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from kraftwreck.campaigns.hunt import Hunted, hunt
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import Style
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.mutants import catalogue
from kraftwreck.systems.simulators import everything

STYLES: tuple[Style, ...] = ("swarm", "timed")
HEAD = """# Two nemeses, side by side

`python -m bench.nemesis`: each planted bug is hunted {hunts} times by both, from the same first
seeds, for at most {budget:g} CPU seconds. *swarm* is what `kraftwreck sim` does: faults by trigger
and by time, relays, settings drawn for each run. *timed* is Jepsen's way in the same simulator,
with the same workloads and checkers: faults every ten seconds on average, in its shapes, one
configuration for all runs. CPU seconds are medians over the hunts; a hunt that found nothing
counts as longer than any other. Python {python}.

| bug | title | swarm found | swarm CPU s | timed found | timed CPU s |
|---|---|---|---|---|---|
"""


def hunt_with(style: Style, tree: Path, budget_s: float, first_seed: int) -> Hunted:
    """Hunt with the node code ``tree`` in a process of its own.

    A failure that also occurs without the bug does not count.
    """
    seed, spent = first_seed, 0.0
    while True:
        found = _child(style, tree, budget_s - spent, seed)
        spent += found.cpu_s
        if found.seed is None:
            return Hunted(found=False, cpu_s=spent, runs=0, sim_s=0.0)
        if not _child(style, PROJECT_TREE, 60.0, found.seed, runs=1).found:
            found.cpu_s = spent
            return found
        seed = found.seed + 1
        if spent >= budget_s:
            return Hunted(found=False, cpu_s=spent, runs=0, sim_s=0.0)


def _child(style: Style, tree: Path, budget_s: float, seed: int, runs: int = 0) -> Hunted:
    words = [sys.executable, "-m", "bench.nemesis", "--child", str(tree), "--style", style]
    words += ["--budget", f"{budget_s:g}", "--first-seed", str(seed), "--runs", str(runs)]
    done = subprocess.run(
        words, env=environment(tree), stdout=subprocess.PIPE, text=True, check=True
    )
    return msgspec.json.decode(done.stdout.encode(), type=Hunted)


def cell(hunts: Sequence[Hunted], budget_s: float) -> str:
    """Return two cells: how many hunts found it, and the median of their CPU seconds."""
    found = sum(each.found for each in hunts)
    median = statistics.median(each.cpu_s if each.found else float("inf") for each in hunts)
    text = f"> {budget_s:g}" if median == float("inf") else f"{median:.1f}"
    return f"{found} of {len(hunts)} | {text}"


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--budget", default=20.0, show_default=True, help="CPU seconds of each hunt.")
@click.option("--hunts", default=3, show_default=True, help="Hunts of each bug, of each kind.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False),
              default=Path("bench/results/nemesis.md"), show_default=True)  # fmt: skip
@click.option("--child", "tree", type=click.Path(path_type=Path), hidden=True)
@click.option("--style", type=click.Choice(STYLES), default="swarm", hidden=True)
@click.option("--first-seed", default=0, hidden=True)
@click.option("--runs", default=0, hidden=True)
def main(
    ids: tuple[str, ...],
    budget: float,
    hunts: int,
    output: Path,
    tree: Path | None,
    style: Style,
    first_seed: int,
    runs: int,
) -> None:
    """Hunt each bug (default: all of the catalogue) with both nemeses and write the table."""
    if tree is not None:
        from kraftwreck import nodes

        imported = Path(nodes.__file__ or "").resolve().parent
        if imported != tree.resolve():
            raise click.ClickException(f"nodes comes from {imported}, not from {tree}")
        found = hunt(replace(everything(), style=style), first_seed, budget, runs or None)
        click.echo(msgspec.json.encode(found))
        return
    known = catalogue()
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise click.ClickException(f"no planted bug {unknown[0]!r} in the catalogue")
    if not output.exists():
        head = HEAD.format(hunts=hunts, budget=budget, python=platform.python_version())
        output.write_text(head)
    done = {line.split("|")[1].strip() for line in output.read_text().splitlines() if "|" in line}
    for name in ids or known:
        if name in done:
            continue
        cells = []
        with patched_tree(known[name].patch) as patched:
            for each in STYLES:
                results = [
                    hunt_with(each, patched, budget, 1_000_000 * number) for number in range(hunts)
                ]
                cells.append(cell(results, budget))
        row = f"| {name} | {known[name].title} | {' | '.join(cells)} |\n"
        with output.open("a") as table:
            table.write(row)
        click.echo(row, nl=False)


if __name__ == "__main__":
    main()
