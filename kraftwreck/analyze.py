"""``kraftwreck analyze``: tables over all runs of a store, with Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from histories.verdict import Validity
from pipeline.background import start
from pipeline.java import PipelineError
from pipeline.runs import find_runs

BAD_ARGUMENTS, FAILED = 254, 255
EXIT_CODES: dict[Validity, int] = {True: 0, False: 1, "unknown": 2}
WORDS: dict[Validity, str] = {True: "valid", False: "INVALID", "unknown": "unknown"}
SMALL_STORE = 50
"""Up to this many runs Spark is set up for a quick start, beyond it for throughput."""
TIMEOUT_S = 6 * 3600.0


@click.command(name="analyze")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--master", default="local[*]", show_default=True, help="Spark's master URL.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def cli(store: Path, master: str, as_json: bool) -> None:
    """Check every run of STORE again and write tables over all of them.

    STORE is a store or one run folder; the tables are Parquet files in STORE/analysis. A
    master other than local needs STORE on a file system that its workers share.
    """
    try:
        runs = [store] if (store / "test.json").is_file() else find_runs(store)
        handle = start(store, master=master, small=len(runs) <= SMALL_STORE)
    except PipelineError as error:
        click.echo(f"kraftwreck analyze: {error}", err=True)
        sys.exit(BAD_ARGUMENTS)
    click.echo(f"{len(runs)} runs; starting Spark on {master}", err=True)
    try:
        summary = handle.analyze(runs, store, timeout_s=TIMEOUT_S)
    except PipelineError as error:
        click.echo(f"kraftwreck analyze: {error}", err=True)
        sys.exit(FAILED)
    finally:
        handle.wait()
    if as_json:
        click.echo(msgspec.json.encode(summary))
    else:
        _show(summary)
    sys.exit(EXIT_CODES[summary["valid"]])


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
        click.echo(f"  skipped {line}", err=True)
    rows = ", ".join(f"{name} {count}" for name, count in summary["tables"].items())
    click.echo(f"tables (rows): {rows}", err=True)
    click.echo(f"{summary['analysis']} ({summary['seconds']:.1f} s)", err=True)


if __name__ == "__main__":
    cli()
