"""``kraftwreck analyze``: tables over all runs of a store, with Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.cli.option_types import MASTER
from kraftwreck.histories.exit_codes import FAILED, of_verdict
from kraftwreck.histories.verdict import WORDS
from kraftwreck.pipeline.background import start
from kraftwreck.pipeline.changes import up_to_date
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.runs import check_store

SMALL = 50
"""With up to this many runs to read, Spark is tuned for a quick start; beyond, for throughput."""
TIMEOUT_S = 24 * 3600.0


@click.command(name="analyze")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--master",
    type=MASTER,
    metavar="URL",
    default="local[*]",
    show_default=True,
    help="Spark's master.",
)
@click.option(
    "--forget-removed", is_flag=True, help="Drop the rows of runs whose folders are gone."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def cli(store: Path, master: str, forget_removed: bool, as_json: bool) -> None:
    """Update the tables over all runs in STORE (see docs/tables.md).

    New and changed runs are checked again, by the checkers recorded in them. STORE is a store or
    one run folder; the tables are Parquet files in STORE/analysis. With a master other than
    local, STORE must be on a file system that the workers share.
    """
    single = (store / "test.json").is_file()
    if not single:
        check_store(store)
    summary = 1 if single else up_to_date(store, forget_removed=forget_removed)
    if isinstance(summary, int):
        handle = start(master=master, small=summary <= SMALL)
        click.echo(f"{summary} runs to read; starting Spark on {master}", err=True)
        try:
            if single:
                summary = handle.finish(store, timeout_s=TIMEOUT_S)
            else:
                summary = handle.analyze(store, forget_removed=forget_removed, timeout_s=TIMEOUT_S)
        except PipelineError as error:
            error.exit_code = FAILED  # The input was accepted, so this is a harness failure.
            raise
        finally:
            handle.wait()
    if as_json:
        click.echo(msgspec.json.encode(summary))
    else:
        _show(summary)
    sys.exit(of_verdict(summary["valid"]))


def _show(summary: dict[str, Any]) -> None:
    click.echo(
        f"{summary['runs']} runs: {WORDS[summary['valid']]}; {len(summary['invalid'])} invalid, "
        f"{len(summary['unknown'])} unknown",
        err=True,
    )
    for name in summary["invalid"]:
        click.echo(f"  INVALID {name}", err=True)
    for name in summary["unknown"]:
        click.echo(f"  unknown {name}", err=True)
    for line in summary["skipped"]:
        click.echo(f"  cannot be read: {line}", err=True)
    rows = ", ".join(f"{name} {count}" for name, count in summary["tables"].items())
    click.echo(f"tables (rows): {rows}", err=True)
    click.echo(f"{summary['analysis']} ({summary['seconds']:.1f} s)", err=True)
