"""Memory of a process that makes many runs of a campaign: ``python -m bench.campaign_memory``.

The process does what a worker of ``kraftwreck sim`` does: it simulates, judges and covers one run
after the other, and keeps none. After every ``--each`` runs it prints its RSS, then collects
garbage and counts what is left: blocks of Python's allocator and objects of the collector. A worker
that is flat has as many of both after any number of runs, apart from caches that are bounded. Its
RSS follows its largest run. ``--trace`` lists the lines whose live memory has grown most since the
run ``--warm``; it makes runs several times slower.
"""

from __future__ import annotations

import gc
import os
import platform
import sys
import tracemalloc
from pathlib import Path

import click

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.systems.campaign import ALL
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHOWN = 25


@click.command()
@click.option("--runs", default=300, show_default=True)
@click.option("--each", default=25, show_default=True, help="Runs from one row to the next.")
@click.option("--warm", default=100, show_default=True, help="Runs before growth counts.")
@click.option("--first-seed", default=0, show_default=True)
@click.option("-w", "--workload", default=ALL, show_default=True)
@click.option("-t", "--time-limit", default=20.0, show_default=True, help="Virtual seconds.")
@click.option("--records", default="seed", show_default=True, metavar="no|yes|seed")
@click.option("--trace", is_flag=True, help="List the lines whose memory has grown.")
def main(
    runs: int,
    each: int,
    warm: int,
    first_seed: int,
    workload: str,
    time_limit: float,
    records: str,
    trace: bool,
) -> None:
    """Measure, and print Markdown."""
    campaign = KraftCampaign(
        workload=workload, time_limit_s=time_limit, system_options=(f"records={records}",)
    )
    click.echo(
        f"Python {platform.python_version()}, workload {workload}, records: {records}, runs of"
        f" {time_limit:g} s from seed {first_seed} on.\n"
    )
    click.echo("| runs | RSS (MB) | blocks | objects |\n|--:|--:|--:|--:|")
    before: tracemalloc.Snapshot | None = None
    for run in range(1, runs + 1):
        run_seed(campaign, first_seed + run - 1, keep=False, cover=True)
        if run % each == 0:
            _row(run)
        if trace and run == warm:
            tracemalloc.start()
            # What the next run leaves is there in any case.
            run_seed(campaign, first_seed, keep=False, cover=True)
            before = _snapshot()
    if before is not None:
        _growth(before, _snapshot())


def _row(run: int) -> None:
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE >> 20
    gc.collect()
    click.echo(f"| {run} | {rss} | {sys.getallocatedblocks()} | {len(gc.get_objects())} |")


def _snapshot() -> tracemalloc.Snapshot:
    gc.collect()
    own = tracemalloc.Filter(False, tracemalloc.__file__)
    return tracemalloc.take_snapshot().filter_traces([own])


def _growth(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> None:
    click.echo("\n| line | bytes more | blocks more |\n|---|--:|--:|")
    changes = after.compare_to(before, "lineno")
    for change in sorted(changes, key=lambda change: -change.size_diff)[:_SHOWN]:
        where = change.traceback[-1]
        click.echo(
            f"| {where.filename}:{where.lineno} | {change.size_diff} | {change.count_diff} |"
        )


if __name__ == "__main__":
    main()
